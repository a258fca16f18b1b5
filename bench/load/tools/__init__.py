"""One file for each load generator: how it is run, and where its own figures stand."""
