"""What must hold of a run: each check gives a verdict with evidence, or says that it does not apply."""
