"""Neighbour selection as a Gymnasium environment; importing this registers it.

``gymnasium.make("gdpnet.envs:gdpnet/NeighbourSelection-v0")`` imports, registers and makes it.
"""

from __future__ import annotations

try:
    import gymnasium
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise ModuleNotFoundError(
        "gdpnet.envs needs gymnasium, which is not installed: pip install 'gdpnet[gym]'", name="gymnasium"
    ) from None

from gdpnet.envs.context import Context, make_context
from gdpnet.envs.env import NeighbourSelection, NeighbourSelectionVector

ENVIRONMENT = "gdpnet/NeighbourSelection-v0"
"""The id of the environment in Gymnasium, single and vectorised."""

gymnasium.register(
    ENVIRONMENT,
    entry_point="gdpnet.envs.env:NeighbourSelection",
    vector_entry_point="gdpnet.envs.env:NeighbourSelectionVector",
)

__all__ = ["ENVIRONMENT", "Context", "NeighbourSelection", "NeighbourSelectionVector", "make_context"]
