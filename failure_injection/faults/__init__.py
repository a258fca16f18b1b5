"""One small file per fault."""
