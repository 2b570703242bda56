"""All commands of ``gdpnet``: importing their rooms adds them to the program."""

from gdpnet.cli import compare as comparing
from gdpnet.cli import noise as corrupting
from gdpnet.cli import paper as reproducing
from gdpnet.cli import predict as reading
from gdpnet.cli import store as storing
from gdpnet.cli import train as learning
from gdpnet.cli import unsupervised as tasking
from gdpnet.cli.app import app

__all__ = ["app", "comparing", "corrupting", "learning", "reading", "reproducing", "storing", "tasking"]
