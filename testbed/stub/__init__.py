"""A stand-in OpenAI server with known timing, for tests and for calibrating the client; never a source of results."""
