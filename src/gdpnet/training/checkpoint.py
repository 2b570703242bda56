"""A run folder: settings, checkpoint, history and metrics of a training run that can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.files import plain, write_json, write_text
from gdpnet._core.version import __version__
from gdpnet.config import Config, read_config
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.errors import ModelFileError, RunFolderError
from gdpnet.inference.model import MODEL_NAME
from gdpnet.inference.model_file import read_tensors, write_tensors
from gdpnet.training.callbacks import Callback
from gdpnet.training.state import Epoch, TrainingState


class RunFolder:
    """Paths of the files of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        self.config = path / "config.toml"  # the effective settings
        self.about = path / "run.json"  # graph, seed, version
        self.model = path / MODEL_NAME
        self.checkpoint = path / "checkpoint.safetensors"  # the state that a stopped run resumes from
        self.history = path / "history.jsonl"  # one line per epoch
        self.metrics = path / "metrics.json"  # the final ones
        self.suspected = path / "suspected_labels.csv"  # written only if there are any
        self.split = path / "split.csv"  # the split of the nodes by their ids
        self.figures = path / "figures"  # a folder


def create_run(
    path: str | Path,
    config: Config,
    graph_name: str,
    graph: Graph,
    seed: int,
    split: str = "paper",
    source: Mapping[str, Any] | None = None,
) -> RunFolder:
    """Start a run in a folder that holds none; ``source`` says how the graph's files were read."""
    run, path = RunFolder(path), Path(path)
    if run.about.exists() or run.model.exists():
        raise RunFolderError(f"{path} already holds a run; go on with --resume, or choose another --out")
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, a run needs a folder")
    write_text(run.config, config.to_toml())
    about = {
        "graph": graph_name,
        "seed": seed,
        "split": split,
        "draws_split": True,  # if the files have none; versions before did not
        "source": dict(source or {}),
        "version": __version__,
        "fingerprint": fingerprint(graph),
    }
    write_json(run.about, about)
    return run


def open_run(path: str | Path) -> tuple[RunFolder, Config, dict[str, Any]]:
    """Open the folder of a run; return it, its settings and its description."""
    run, path = RunFolder(path), Path(path)
    if not path.is_dir():
        raise RunFolderError(f"there is no run folder {path}")
    if not (run.about.is_file() and run.config.is_file()):
        raise RunFolderError(f"{path} holds no run: it has no {run.about.name} and {run.config.name}")
    try:
        about: dict[str, Any] = json.loads(run.about.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{run.about} cannot be read: {error}") from error
    return run, read_config(run.config), about


def extend_run(run: RunFolder, config: Config) -> None:
    """Let a run go on with settings that ask for more epochs; it is unfinished again."""
    run.metrics.unlink(missing_ok=True)
    write_text(run.config, config.to_toml())


def is_same_graph(about: Mapping[str, Any], graph: Graph) -> bool:
    """Return whether a run was trained on a graph."""
    return bool(about.get("fingerprint") == fingerprint(graph))


def check_same_graph(about: dict[str, Any], graph: Graph) -> None:
    """Refuse to resume a run on another graph."""
    if not is_same_graph(about, graph):
        raise RunFolderError(
            f"the run was trained on another graph than this one (it was '{about.get('graph')}')"
        )


_OPTIMISERS = ("policy_optimiser", "optimiser")
_PROGRESS = ("epoch", "best_f1", "best_epoch", "history", "seconds")
_FOUND = ("truth", "suggested", "best_suggested", "pseudo")
"""Labels found during training; each may be missing."""

_STREAMS = 2
"""Raised when epochs draw other random numbers than before: a checkpoint of another kind cannot be continued."""


class Checkpoint(Callback):
    """Resume a run from its folder, and write a checkpoint after every epoch."""

    def __init__(self, run: RunFolder | str | Path) -> None:
        self.run = run if isinstance(run, RunFolder) else RunFolder(run)

    def on_train_begin(self, state: TrainingState) -> None:
        """Restore the state from the checkpoint, if there is one."""
        run = self.run
        if not run.checkpoint.exists():
            return
        tensors, about = read_tensors(run.checkpoint, "checkpoint")
        if about.get("streams") != _STREAMS:
            raise RunFolderError(
                f"{run.checkpoint} is of another version of GDPNet, which drew other random numbers; train again "
                "with another --out"
            )
        device = state.policy.score_bias.device
        try:
            for title in ("policy", "aggregators"):
                getattr(state, title).load_state_dict(_tensors_under(tensors, f"{title}."))
            state.best = {name: value.to(device) for name, value in _tensors_under(tensors, "best.").items()}
            for title in _OPTIMISERS:
                _restore(getattr(state, title), _tensors_under(tensors, f"{title}."))
        except (RuntimeError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise ModelFileError(f"{run.checkpoint} does not fit the run's settings ({reason})") from error
        for name in _FOUND:
            setattr(state, name, tensors[name].to(device) if name in tensors else None)
        for name in _PROGRESS:
            setattr(state, name, about.get(name, getattr(state, name)))  # older ones have no seconds

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Write the training state and the history so far."""
        tensors = dict(state.weights())
        tensors |= {f"best.{name}": value for name, value in state.best.items()}
        for title in _OPTIMISERS:
            for number, moments in getattr(state, title).state_dict()["state"].items():
                tensors |= {f"{title}.{number}.{key}": value for key, value in moments.items()}
        tensors |= {name: getattr(state, name) for name in _FOUND if getattr(state, name) is not None}
        about = {name: getattr(state, name) for name in _PROGRESS} | {"streams": _STREAMS}
        write_tensors(self.run.checkpoint, "checkpoint", tensors, about)
        write_text(self.run.history, "".join(json.dumps(plain(line)) + "\n" for line in state.history))


def _tensors_under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names start with a prefix, which is removed."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _restore(optimiser: torch.optim.Optimizer, moments: dict[str, torch.Tensor]) -> None:
    """Restore the moments of an optimiser."""
    content = optimiser.state_dict()
    for name, value in moments.items():
        number, _, key = name.partition(".")
        content["state"].setdefault(int(number), {})[key] = value
    optimiser.load_state_dict(content)
