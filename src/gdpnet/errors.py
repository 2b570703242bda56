"""The few exceptions that a user may meet. Each message is one sentence: what must hold, what was found."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class GDPNetError(Exception):
    """Anything wrong that the user can mend; the command line prints it and exits with 2, or 1 for a `WorkError`."""


class WorkError(GDPNetError):
    """Work failed although its input was right: training diverged, a file was not written, a trial failed."""


class GraphError(GDPNetError, ValueError):
    """A graph, or a file that holds one, is not usable as it is."""


class ConfigError(GDPNetError, ValueError):
    """A setting is unknown or has a value that it cannot have."""


class DatasetError(GDPNetError):
    """A named dataset is unknown, missing or not the file that it should be."""


class ModelFileError(GDPNetError):
    """A model file or checkpoint cannot be trusted or does not fit."""


class RunFolderError(GDPNetError):
    """A run folder is occupied, missing or incomplete."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known name is meant, as the end of a sentence: ``; did you mean 'x'?`` or the whole list."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(names)}"
