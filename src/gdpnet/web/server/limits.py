"""What one server accepts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

from gdpnet.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """The limits of requests; a request beyond one is refused with the status that is named."""

    max_bytes: int = 8 << 20
    """Bytes of a request (413)."""
    max_nodes: int = 1_000
    """New nodes, and targets, of a request (422)."""
    max_edges: int = 10_000
    """Edges of a request (422)."""
    max_surroundings: int = 2_000_000
    """Edges around a group of targets that their answers are computed from (422)."""
    max_requests: int = 64
    """Requests that are computed or wait (429)."""
    seconds: float = 30.0
    """Time of a request, from its first byte to its answer (408 while it is read, then 503)."""

    def __post_init__(self) -> None:
        """Refuse limits that would refuse everything."""
        for one in fields(self):
            if not (getattr(self, one.name) > 0 and isfinite(getattr(self, one.name))):
                name = one.name.replace("_", "-")
                raise ConfigError(f"--{name} must be above 0 and finite, found {getattr(self, one.name):g}")
