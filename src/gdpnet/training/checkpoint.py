"""Checkpoints: the training state after every epoch, which a stopped run resumes from."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.files import plain, write_text
from gdpnet._core.json_file import is_number
from gdpnet.errors import ModelFileError, RunFolderError
from gdpnet.inference.model_file import read_tensors, write_tensors
from gdpnet.training.callbacks import Callback
from gdpnet.training.run_folder import RunFolder
from gdpnet.training.shared_state import FOUND
from gdpnet.training.state import Epoch, TrainingState

__all__ = ["Checkpoint", "RunFolder"]

_OPTIMISERS = ("policy_optimiser", "optimiser")
_PROGRESS: dict[str, tuple[type, ...]] = {
    "epoch": (int,),
    "best_f1": (float, int),
    "best_epoch": (int,),
    "history": (list,),
    "seconds": (float, int),
    "part": (int,),
}
_ALWAYS = 7
"""So many metrics every epoch has; those after them came with later versions."""

_MOST_RANKS = 1 << 16
_STREAMS, _PART_STREAMS = 2, 3
"""Raised when epochs draw other random numbers than before: a checkpoint of another kind cannot be continued.

The second one is of runs on parts of a large graph.
"""


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
        if about.get("streams") != _streams_of(state):
            raise RunFolderError(
                f"{run.checkpoint} is of another version of GDPNet, which drew other random numbers; train again "
                "with another --out"
            )
        device = state.policy.score_bias.device
        try:
            for title in ("policy", "aggregators"):
                getattr(state, title).load_state_dict(_tensors_under(tensors, f"{title}."))
            state.best = _best_of(state, _tensors_under(tensors, "best."))
            for title in _OPTIMISERS:
                _restore(getattr(state, title), _tensors_under(tensors, f"{title}."))
        except (RuntimeError, KeyError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise ModelFileError(f"{run.checkpoint} does not fit the run's settings ({reason})") from error
        found = {name: value for name, value in tensors.items() if name.rpartition(".")[2] in FOUND}
        for name, value in found.items():
            if value.dim() != 1 or value.is_floating_point():
                raise ModelFileError(
                    f"'{name}' in {run.checkpoint} must be a list of labels, found something else"
                )
        for name in FOUND:
            setattr(state, name, found[name].to(device) if name in found else None)
        _check_progress(about, run.checkpoint)
        state.found_by_ranks = _found_by_ranks(found, about.get("ranks", 1), run.checkpoint)
        for name in _PROGRESS:
            setattr(state, name, about.get(name, getattr(state, name)))  # older ones have no seconds
        self._write_history(state)  # the process may have ended before it wrote the last epoch

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Write the training state and the history so far."""
        tensors = dict(state.weights())
        tensors |= {f"best.{name}": value for name, value in state.best.items()}
        for title in _OPTIMISERS:
            for number, moments in getattr(state, title).state_dict()["state"].items():
                tensors |= {f"{title}.{number}.{key}": value for key, value in moments.items()}
        tensors |= {name: getattr(state, name) for name in FOUND if getattr(state, name) is not None}
        for rank, found in enumerate(state.found_by_ranks):
            tensors |= {f"rank {rank}.{name}": value for name, value in found.items()}
        about = {name: getattr(state, name) for name in _PROGRESS} | {"streams": _streams_of(state)}
        if state.found_by_ranks:
            about["ranks"] = len(state.found_by_ranks)
        write_tensors(self.run.checkpoint, "checkpoint", tensors, about)
        self._write_history(state)

    def _write_history(self, state: TrainingState) -> None:
        write_text(self.run.history, "".join(json.dumps(plain(line)) + "\n" for line in state.history))


def _streams_of(state: TrainingState) -> int:
    """Return which random numbers the epochs draw."""
    return _PART_STREAMS if state.has_own_part else _STREAMS


def _found_by_ranks(found: dict[str, torch.Tensor], ranks: Any, path: Path) -> list[dict[str, torch.Tensor]]:
    """Return the labels that each rank found; none if all had the same."""
    if type(ranks) is not int or not 1 <= ranks <= _MOST_RANKS:
        raise ModelFileError(f"'ranks' in {path} must be a number from 1 to {_MOST_RANKS}, found another one")
    return [_tensors_under(found, f"rank {rank}.") for rank in range(ranks)] if ranks > 1 else []


def _check_progress(about: dict[str, Any], path: Path) -> None:
    """Refuse a checkpoint whose counts and history are of the wrong types or do not fit each other."""
    for name, kinds in _PROGRESS.items():
        value = about.get(name)
        if name in about and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise ModelFileError(
                f"'{name}' in {path} must be {kinds[0].__name__}, found {type(value).__name__}"
            )
    for name in ("best_f1", "best_epoch", "seconds"):
        if not is_number(about.get(name, 0)):
            raise ModelFileError(f"'{name}' in {path} must be a number of 64 bits, found a larger one")
    lines, known = about.get("history", []), [item.name for item in fields(Epoch)][:_ALWAYS]
    if about.get("epoch", 0) != len(lines):
        raise ModelFileError(
            f"'history' in {path} must have one entry per epoch, found {len(lines)} for {about.get('epoch')}"
        )
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, dict) or not (
            all(is_number(line.get(name)) for name in known)
            and (line.get("injected_auc") is None or is_number(line["injected_auc"]))
            and isinstance(line.get("metric", ""), str)
        ):
            raise ModelFileError(
                f"'history' in {path} must hold numbers, found something else for epoch {number}"
            )


def _best_of(state: TrainingState, best: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of the best epoch, if there are any, which must be like the present ones."""
    shapes = {name: value.shape for name, value in state.weights().items()}
    if best and {name: value.shape for name, value in best.items()} != shapes:
        raise RuntimeError("the weights of the best epoch are of other names or shapes")
    return {name: value.to(state.policy.score_bias.device) for name, value in best.items()}


def _tensors_under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names start with a prefix, which is removed."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _restore(optimiser: torch.optim.Optimizer, moments: dict[str, torch.Tensor]) -> None:
    """Restore the moments of an optimiser."""
    content = optimiser.state_dict()
    shapes = [one.shape for group in optimiser.param_groups for one in group["params"]]
    for name, value in moments.items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or value.shape != (() if key == "step" else shapes[int(number)]):
            raise RuntimeError(f"the moment '{name}' is of another shape than its weights")
        content["state"].setdefault(int(number), {})[key] = value
    optimiser.load_state_dict(content)
