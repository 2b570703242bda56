"""Graph Denoising Policy Network: learn which neighbours of a noisy graph to trust."""

from typing import TYPE_CHECKING, Any

from gdpnet._core.version import __version__

if TYPE_CHECKING:
    from gdpnet.benchmark.baselines.registry import register_method as register_method
    from gdpnet.data.datasets.citation import load_dataset as load_dataset
    from gdpnet.data.datasets.synthetic import synthetic_graph as synthetic_graph
    from gdpnet.data.graph import Graph as Graph
    from gdpnet.data.io.files import read_graph as read_graph
    from gdpnet.data.io.networkx import from_networkx as from_networkx
    from gdpnet.data.io.networkx import to_networkx as to_networkx
    from gdpnet.data.io.pandas import from_pandas as from_pandas
    from gdpnet.data.io.pandas import to_pandas as to_pandas
    from gdpnet.data.io.pyg import from_pyg as from_pyg
    from gdpnet.data.io.pyg import from_scipy as from_scipy
    from gdpnet.data.io.pyg import to_pyg as to_pyg
    from gdpnet.estimator import GDPNet as GDPNet
    from gdpnet.model_selection import GridSearch as GridSearch
    from gdpnet.model_selection import NodeClassifier as NodeClassifier
    from gdpnet.model_selection import OptunaSearch as OptunaSearch
    from gdpnet.model_selection import RandomSearch as RandomSearch
    from gdpnet.model_selection import Range as Range
    from gdpnet.model_selection import cross_validate as cross_validate
    from gdpnet.model_selection import with_split as with_split
    from gdpnet.training.callbacks import Callback as Callback
    from gdpnet.training.callbacks import EarlyStopping as EarlyStopping
    from gdpnet.training.callbacks import MLflowCallback as MLflowCallback
    from gdpnet.training.callbacks import Progress as Progress
    from gdpnet.training.callbacks import TensorBoardCallback as TensorBoardCallback
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
    "from_pandas": "gdpnet.data.io.pandas",
    "to_pandas": "gdpnet.data.io.pandas",
    "to_pyg": "gdpnet.data.io.pyg",
    "to_networkx": "gdpnet.data.io.networkx",
    "Callback": "gdpnet.training.callbacks",
    "Profile": "gdpnet._core.profiling",
    "Progress": "gdpnet.training.callbacks",
    "EarlyStopping": "gdpnet.training.callbacks",
    "MLflowCallback": "gdpnet.training.callbacks",
    "TensorBoardCallback": "gdpnet.training.callbacks",
    "cross_validate": "gdpnet.benchmark.model_selection",
    "GridSearch": "gdpnet.benchmark.model_selection",
    "RandomSearch": "gdpnet.benchmark.model_selection",
    "Range": "gdpnet.benchmark.model_selection",
    "OptunaSearch": "gdpnet.benchmark.optuna_search",
    "NodeClassifier": "gdpnet.benchmark.node_classifier",
    "register_method": "gdpnet.benchmark.baselines.registry",
    "synthetic_graph": "gdpnet.data.datasets.synthetic",
    "with_split": "gdpnet.data.splits",
}

__all__ = [
    "Callback",
    "DenoiseTransform",
    "EarlyStopping",
    "GDPNet",
    "Graph",
    "GridSearch",
    "MLflowCallback",
    "NodeClassifier",
    "OptunaSearch",
    "Profile",
    "Progress",
    "RandomSearch",
    "Range",
    "TensorBoardCallback",
    "__version__",
    "cross_validate",
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "from_scipy",
    "load_dataset",
    "read_graph",
    "register_method",
    "synthetic_graph",
    "to_networkx",
    "to_pandas",
    "to_pyg",
    "with_split",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``gdpnet --help`` must not wait for torch."""
    from importlib import import_module

    if name == "model_selection":
        return import_module("gdpnet.model_selection")
    if name not in _MODULES:
        raise AttributeError(f"module 'gdpnet' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, which are not imported yet."""
    return sorted(__all__)
