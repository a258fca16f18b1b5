"""No tier: the engine runs without a connector, for one would change the engine."""

NAME = "none"
