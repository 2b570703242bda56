"""The few exceptions that a user may meet. Each message is one sentence: what must hold, what was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from numbers import Integral

MOST_CHARACTERS = 300
"""Characters of an error message; a longer one loses its middle."""

_QUOTED = re.compile(r"'[^']{81,}'")
_HUGE = 10_000
_MOST_NAMES, _LONGEST_NAME, _LISTED = 2_000, 100, 40


class GDPNetError(Exception):
    """Anything wrong that the user can mend; the command line prints it and exits with 2, or 1 for a `WorkError`."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


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


def shortened(sentence: str, most: int = MOST_CHARACTERS) -> str:
    """Return a sentence of at most so many printable characters; quoted values lose their middle first."""
    if len(sentence) > _HUGE:
        sentence = f"{sentence[: _HUGE // 2]} … {sentence[-_HUGE // 2 :]}"
    sentence = printable(sentence)
    if len(sentence) > most:
        sentence = _QUOTED.sub(lambda found: f"{found[0][:50]}…{found[0][-20:]}", sentence)
    if len(sentence) > most:
        end = most // 2
        sentence = f"{sentence[: most - end - 3]} … {sentence[-end:]}"
    return sentence


def check_type(value: object, kind: type | tuple[type, ...], what: str, rule: str) -> None:
    """Refuse an argument of another type: ``what`` must be ``rule``."""
    if not isinstance(value, kind):
        raise ConfigError(f"{what} must be {rule}, found {type(value).__name__}")


def check_whole(value: object, what: str, least: int = 1) -> None:
    """Refuse what is no whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        found = value if isinstance(value, int | float) else type(value).__name__
        raise ConfigError(f"{what} must be a whole number of at least {least}, found {found}")


def printable(text: str) -> str:
    """Return a text on one line, with escapes for characters that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _visible(one) for one in text)


def _visible(character: str) -> str:
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")


def reason_of(error: BaseException) -> str:
    """Return what an exception says, on one line, as the end of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    said = " ".join(str(error).split()).rstrip(".")
    return said or type(error).__name__


@contextmanager
def refusing(what: str, kind: type[GDPNetError] = GraphError) -> Iterator[None]:
    """Turn whatever a library raises on unusable input into one sentence; memory that is lacking stays an error."""
    try:
        yield
    except (GDPNetError, MemoryError):
        raise
    except RecursionError as error:
        raise kind(f"{what} cannot be read: it is nested too deeply") from error
    except Exception as error:
        raise kind(f"{what} cannot be read: {reason_of(error)}") from error


def nearest(word: object, known: Iterable[str]) -> str:
    """Say which known name is meant, as the end of a sentence: ``; did you mean 'x'?`` or the list of names."""
    word, names = str(word), sorted(str(name) for name in known)
    if not names:
        return ", found none"
    # comparing takes time in the product of the lengths, and files may have many and long names
    short = list(islice((name for name in names if len(name) <= _LONGEST_NAME), _MOST_NAMES))
    close = get_close_matches(word, short, n=1, cutoff=0.6) if len(word) <= _LONGEST_NAME else []
    if close:
        return f"; did you mean '{close[0]}'?"
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"; known are {', '.join(names[:_LISTED])}{more}"
