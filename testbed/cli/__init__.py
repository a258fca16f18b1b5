"""The verbs: read files, call one function, print. No logic."""
