"""A graph comes in, and is checked once."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdpnet.data.features import SparseRows as SparseRows
    from gdpnet.data.graph import Graph as Graph
    from gdpnet.data.graph import Truth as Truth

_MODULES = {
    "Graph": "gdpnet.data.graph",
    "SparseRows": "gdpnet.data.features",
    "Truth": "gdpnet.data.graph",
}

__all__ = ["Graph", "SparseRows", "Truth"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``gdpnet datasets`` must not wait for torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gdpnet.data' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
