"""vLLM engines: models, command line, readiness, read-back, and the check of what this processor does right."""
