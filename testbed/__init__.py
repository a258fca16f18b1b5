"""testbed: what a KV-cache tier buys, and what is left when it fails."""

__version__ = "0.1.0"
