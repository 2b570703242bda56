"""Structured logs: one JSON object per line on standard error, without features, ids or tokens."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gdpnet.errors import shortened

_FRAMES = 8
"""Frames of a traceback that the log names."""

LOGGER = logging.getLogger("gdpnet.serve")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        about = {"time": when, "level": record.levelname.lower(), "event": shortened(record.getMessage())}
        if record.exc_info and record.exc_info[0] is not None:
            about["error"] = record.exc_info[0].__name__
        return json.dumps(about | getattr(record, "fields", {}))


def set_up(*, quiet: bool = False) -> None:
    """Send the logs of the server, and warnings of uvicorn, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name, level in (
        ("gdpnet.serve", logging.WARNING if quiet else logging.INFO),
        ("uvicorn", logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def tell(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields."""
    LOGGER.log(level, event, extra={"fields": fields})


def tell_mistake(error: BaseException) -> None:
    """Log where the program failed, but not the message, which may hold what was sent."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = [f"{Path(one.filename).name}:{one.lineno}" for one in frames]
    tell("a mistake of the program", logging.ERROR, error=type(error).__name__, where=where)
