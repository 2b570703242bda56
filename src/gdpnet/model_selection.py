"""Choose settings and estimate scores, under one public name: cross-validation over nodes, and searches."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdpnet.benchmark.model_selection import (
        SPACE,
        GridSearch,
        RandomSearch,
        Range,
        Scores,
        cross_validate,
    )
    from gdpnet.benchmark.node_classifier import NodeClassifier
    from gdpnet.benchmark.optuna_search import OptunaSearch
    from gdpnet.data.splits import with_split

_MODULES = {
    "cross_validate": "gdpnet.benchmark.model_selection",
    "Scores": "gdpnet.benchmark.model_selection",
    "GridSearch": "gdpnet.benchmark.model_selection",
    "RandomSearch": "gdpnet.benchmark.model_selection",
    "Range": "gdpnet.benchmark.model_selection",
    "SPACE": "gdpnet.benchmark.model_selection",
    "OptunaSearch": "gdpnet.benchmark.optuna_search",
    "NodeClassifier": "gdpnet.benchmark.node_classifier",
    "with_split": "gdpnet.data.splits",
}

__all__ = [
    "SPACE",
    "GridSearch",
    "NodeClassifier",
    "OptunaSearch",
    "RandomSearch",
    "Range",
    "Scores",
    "cross_validate",
    "with_split",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, as ``gdpnet`` does: the module alone needs neither torch nor scikit-learn."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gdpnet.model_selection' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, which are not imported yet."""
    return sorted(__all__)
