"""Our own reverse proxy in front of the engines: it sends each request once, stamps every leg, and says what failed."""
