"""The types of the values in records, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gdpnet.errors import GDPNetError

_TEXTS = ("graph", "method", "noise", "task", "attack", "setting", "version", "commit", "torch", "time")
_NUMBERS = ("rate",)
_OBJECTS = ("metrics", "config", "cleaner", "protocol", "attack_settings")

_LISTS = ("reliability", "shares", "points", "labels", "candidates")
_NOT_NUMBERS = ("error", "settings", "history", "counter_example", *_LISTS)
"""The metrics that are no number; those of a search are lists of numbers, too."""

_WRONG = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)


def check_types(record: Mapping[str, Any], kinds: tuple[str, ...], place: str) -> None:
    """Refuse a record of a known kind whose values are of the wrong types; ``place`` says where it is."""
    if record.get("kind") not in kinds:
        return
    wanted: dict[str, tuple[type, ...]] = dict.fromkeys(_TEXTS, (str,))
    wanted |= dict.fromkeys(_NUMBERS, (float, int)) | dict.fromkeys(_OBJECTS, (dict,))
    wanted |= {"seed": (int,), "content": (str, type(None)), "rates": (list,)}
    for name, types in wanted.items():
        if name in record:
            _check(name, record[name], types, place)
    for rate in record.get("rates", ()):
        _check("rates", rate, (float, int), place)
    for name, value in record.get("metrics", {}).items():
        _check_metric(name, value, place)


def _check_metric(name: str, value: Any, place: str) -> None:
    if name == "error":
        _check(name, value, (str,), place)
    elif name in _LISTS:
        _check(name, value, (list, type(None)), place)
    elif name in _NOT_NUMBERS:
        _check(name, value, (dict, type(None)), place)
    elif isinstance(value, list):
        for one in value:
            _check(name, one, (float, int, type(None)), place)
    elif not isinstance(value, bool):
        _check(name, value, (float, int, type(None)), place)


def _check(name: str, value: Any, types: tuple[type, ...], place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, types):
        names = {str: "text", dict: "an object", list: "a list", float: "a number", type(None): "null"}
        names[int] = names[float] if float in types else "a whole number"
        wanted = " or ".join(dict.fromkeys(names[one] for one in types))
        raise GDPNetError(f"'{name[:60]}' in {place} must be {wanted}, found {type(value).__name__}")


@contextmanager
def as_records_must_be() -> Iterator[None]:
    """Turn an error about values that records lack, or that are of another form, into one sentence."""
    try:
        yield
    except _WRONG as error:
        if isinstance(error, GDPNetError):
            raise
        what = " ".join(str(error).split())[:120]
        raise GDPNetError(
            f"a record does not hold what its kind needs ({type(error).__name__}: {what}); delete its line"
        ) from error
