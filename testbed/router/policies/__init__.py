"""How an engine is chosen: one small file per policy."""
