"""How this process was started: alone, or as one of several ranks, as ``torchrun`` does. Imports no torch."""

from __future__ import annotations

import os

from gdpnet.errors import ConfigError

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_MOST = 1 << 16


def ranks_asked() -> int:
    """Return how many processes this one was started with; one if it was started alone."""
    if not all(name in os.environ for name in _VARIABLES):
        return 1
    return environment_number("WORLD_SIZE", least=1)


def own_rank() -> int:
    """Return the number of this process among those; zero if it was started alone."""
    size = ranks_asked()
    return environment_number("RANK", most=size - 1) if size > 1 else 0


def restarts() -> int:
    """Return how often ``torchrun`` has started the ranks again, after one of them failed."""
    return environment_number("TORCHELASTIC_RESTART_COUNT") if ranks_asked() > 1 else 0


def environment_number(name: str, least: int = 0, most: int = _MOST) -> int:
    """Return a number that the launcher has set; refuse anything else."""
    text = os.environ.get(name, "0")
    if not (text.isascii() and text.isdecimal() and least <= int(text[:20]) <= most):
        raise ConfigError(
            f"the environment variable {name} must be a number from {least} to {most}, found '{text[:40]}'"
        )
    return int(text)
