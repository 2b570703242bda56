"""Methods of your own: registered by name, from a module or an installed package, and compared like baselines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.benchmark.baselines.fitting import Fitted, Run, Settings, Task
from gdpnet.benchmark.baselines.methods import METHODS, Method
from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError, reason_of

FitFunction = Callable[[Graph, int], Any]
"""Train on a graph with a seed; return one row per node with a score per class, or a model with ``predict_proba``."""

GROUP = "gdpnet.methods"
"""The entry points whose names and functions become methods."""

_PLUGINS = "GDPNET_PLUGINS"
"""The environment variable that tells worker processes which modules to import."""

_OWN: set[str] = set()


def register_method(name: str, fit: FitFunction, *, about: str = "a method of your own") -> None:
    """Make a method known to ``gdpnet robustness``, beside the baselines.

    Args:
        name: its name in ``--methods``.
        fit: called with a graph and a seed. The graph has the labels of training and validation nodes; those of all
            other nodes are hidden. It returns one row per node with a score per class, in the order of
            ``graph.class_names``, or a model whose ``predict_proba(graph)`` returns that.
        about: one sentence on the method.
    """
    if not name or any(letter in name for letter in ">:, "):
        raise ConfigError(f"the name of a method must have no space and none of > : , found '{name}'")
    if name == "all" or name.startswith("gdpnet") or (name in METHODS and name not in _OWN):
        raise ConfigError(f"the name of a method must be new, found '{name}'")
    METHODS[name] = Method(about, _run_of(name, fit), network=False)
    _OWN.add(name)


def load_plugins(modules: Iterable[str] = ()) -> None:
    """Register the methods of installed packages, and import modules that register methods.

    A module is named as in ``import``, or by the path of its file; modules of the working folder are found.
    """
    known = [name for name in os.environ.get(_PLUGINS, "").split(os.pathsep) if name]
    wanted = list(dict.fromkeys([*known, *(str(one) for one in modules)]))
    for one in entry_points(group=GROUP):
        if one.name not in METHODS:
            register_method(one.name, one.load(), about=f"a method of {one.value}")
    for name in wanted:
        path = Path(name)
        folder, stem = (
            (str(path.parent.resolve()), path.stem) if path.suffix == ".py" else (str(Path.cwd()), name)
        )
        if folder not in sys.path:
            sys.path.append(folder)
        try:
            import_module(stem)
        except Exception as error:  # the module is the user's, and may fail in any way
            raise ConfigError(
                f"a plugin must be a module that can be imported, found '{name}': {reason_of(error)}"
            ) from error
    if wanted:
        os.environ[_PLUGINS] = os.pathsep.join(wanted)


def _run_of(name: str, fit: FitFunction) -> Run:
    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
        graph = _with_hidden_labels(task)
        found = fit(graph, seed)
        found = found.predict_proba(graph) if hasattr(found, "predict_proba") else found
        scores = _checked_scores(name, found, graph)
        validation, truth = task.validation, graph.labels[task.validation]
        hits = (scores[validation].argmax(dim=1) == truth).float()
        return Fitted(scores, float(hits.mean()) if hits.numel() else float("nan"), float("nan"), 0)

    return run


def _with_hidden_labels(task: Task) -> Graph:
    """Return the whole graph with the labels that a method may use."""
    labels = torch.full_like(task.whole.labels, UNKNOWN)
    for nodes in (task.seen[task.targets], task.validation):
        labels[nodes] = task.whole.labels[nodes]
    return replace(task.whole, labels=labels, truth=None)


def _checked_scores(name: str, found: Any, graph: Graph) -> Float[Tensor, "nodes classes"]:
    scores = found.detach().cpu() if isinstance(found, Tensor) else torch.from_numpy(np.array(found))
    if scores.shape != (graph.num_nodes, graph.num_classes) or not bool(torch.isfinite(scores).all()):
        raise ConfigError(
            f"the method '{name}' must return finite scores of {graph.num_nodes} nodes and {graph.num_classes} "
            f"classes, found shape {tuple(scores.shape)}"
        )
    return scores.float()
