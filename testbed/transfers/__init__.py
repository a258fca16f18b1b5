"""One file per way from the prefill engine to the decode engine: what is said to each, and in which order."""
