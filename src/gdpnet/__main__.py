"""Run the command line with ``python -m gdpnet``."""

from gdpnet.cli import run

run()
