"""Proxies side by side before one stand-in engine: what each adds to an answer, and how many streams a core carries."""
