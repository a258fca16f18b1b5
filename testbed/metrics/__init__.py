"""Every number of a run: a declared function over its journal."""
