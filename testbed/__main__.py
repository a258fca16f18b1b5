"""`python -m testbed`."""

from testbed.cli.main import main

main()
