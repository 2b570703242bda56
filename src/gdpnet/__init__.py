"""Graph Denoising Policy Network: learn which neighbours of a noisy graph to trust."""

from typing import TYPE_CHECKING, Any

from gdpnet._core.version import __version__

if TYPE_CHECKING:
    from gdpnet.data.datasets.citation import load_dataset as load_dataset
    from gdpnet.data.datasets.synthetic import synthetic_graph as synthetic_graph
    from gdpnet.data.graph import Graph as Graph
    from gdpnet.data.io.files import read_graph as read_graph
    from gdpnet.data.io.networkx import from_networkx as from_networkx
    from gdpnet.data.io.pyg import from_pyg as from_pyg
    from gdpnet.data.io.pyg import from_scipy as from_scipy
    from gdpnet.estimator import GDPNet as GDPNet
    from gdpnet.transform import DenoiseTransform as DenoiseTransform

_MODULES = {
    "GDPNet": "gdpnet.estimator",
    "Graph": "gdpnet.data.graph",
    "DenoiseTransform": "gdpnet.transform",
    "load_dataset": "gdpnet.data.datasets.citation",
    "read_graph": "gdpnet.data.io.files",
    "from_networkx": "gdpnet.data.io.networkx",
    "from_pyg": "gdpnet.data.io.pyg",
    "from_scipy": "gdpnet.data.io.pyg",
    "synthetic_graph": "gdpnet.data.datasets.synthetic",
}

__all__ = [
    "DenoiseTransform",
    "GDPNet",
    "Graph",
    "__version__",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "load_dataset",
    "read_graph",
    "synthetic_graph",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``gdpnet --help`` must not wait for torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gdpnet' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
