"""The options that say how shards are made: by this process, by workers, or some blocks of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gdpnet.errors import ConfigError

if TYPE_CHECKING:
    from gdpnet.inference.engines.engine import Share


def blocks_of(text: str | None) -> range | Share | None:
    """Return the blocks that ``FIRST:LAST`` names, without the last one, or the share that ``K/N`` names."""
    if text is None:
        return None
    first, sign, last = text.partition("/" if "/" in text else ":")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ConfigError(
            "--blocks must be two numbers such as 0:100, or 0/8 for the first of eight shares, the first below the "
            f"second, found '{text}'"
        )
    if sign != "/":
        return range(int(first), int(last))
    from gdpnet.inference.engines.engine import Share

    return Share(int(first), int(last))


def check_options(
    shards: bool, low_memory: bool, workers: int | None, ray: str | None, blocks: str | None
) -> None:
    """Refuse options that need --shards, or that do not go together."""
    given = {"--low-memory": low_memory, "--workers": workers, "--ray": ray, "--blocks": blocks}
    asked = [name for name, value in given.items() if value not in (None, False)]
    if asked and not shards:
        raise ConfigError(f"{asked[0]} needs --shards, and --out a folder")
    if blocks is not None and (workers is not None or ray is not None):
        raise ConfigError(
            "--blocks is for processes that are started one by one: leave --workers and --ray out"
        )
    blocks_of(blocks)


@contextmanager
def engine_options(
    low_memory: bool, workers: int | None, ray: str | None, blocks: str | None, device: Any
) -> Iterator[dict[str, Any]]:
    """Yield the engine and the blocks that the options ask for."""
    from gdpnet.inference.engines.one_process import OneProcess

    some = blocks_of(blocks)
    if workers is None and ray is None:
        yield {"engine": OneProcess(device) if low_memory or some is not None else None, "blocks": some}
        return
    from gdpnet.inference.engines.on_ray import OnRay

    with OnRay(ray, workers, device) as engine:
        yield {"engine": engine}
