"""One file per KV tier: its processes, its way into the engine, and what can be asked of it."""
