"""The KV connector inside the engine, around the real one: events out, fault orders in."""
