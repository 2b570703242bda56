"""The logger of the package, silent until the user asks for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

from gdpnet.errors import ConfigError

LOGGER = logging.getLogger("gdpnet")
LOGGER.addHandler(logging.NullHandler())

_LEVELS = {0: None, 1: logging.INFO, 2: logging.DEBUG}


def check_verbose(verbose: object) -> None:
    """Refuse what is no level of messages."""
    if not isinstance(verbose, Integral):
        found = verbose if isinstance(verbose, float) else type(verbose).__name__
        raise ConfigError(f"verbose must be 0, 1 or 2, found {found}")


@contextmanager
def shown(verbose: int) -> Iterator[None]:
    """Show messages while a block runs: none (0), progress (1) or details (2); on stderr without other handlers."""
    check_verbose(verbose)
    level = _LEVELS.get(min(int(verbose), 2))
    if level is None:
        yield
        return
    before = LOGGER.level
    handler = None if logging.getLogger().handlers or len(LOGGER.handlers) > 1 else _stderr_handler()
    if handler is not None:
        LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    try:
        yield
    finally:
        LOGGER.setLevel(before)
        if handler is not None:
            LOGGER.removeHandler(handler)


def _stderr_handler() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    return handler
