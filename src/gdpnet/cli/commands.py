"""All commands of ``gdpnet``: importing their rooms adds them to the program."""

from gdpnet.cli import comparing, corrupting, learning, reading, reproducing, storing, tasking
from gdpnet.cli.app import app

__all__ = ["app", "comparing", "corrupting", "learning", "reading", "reproducing", "storing", "tasking"]
