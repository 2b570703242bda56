"""What ranks tell each other about the state of training: where they start, and the labels that each has found."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gdpnet._core.ranks import Ranks
from gdpnet.training.state import TrainingState

FOUND = ("truth", "suggested", "best_suggested", "pseudo")
"""Labels found during training; each may be missing."""

_PROGRESS = ("epoch", "best_f1", "best_epoch", "best", "history", "seconds", "part")
_UNKNOWN_PART = -1


def share_state(state: TrainingState) -> None:
    """Start every rank from the state of the first one, which may have read it from a checkpoint.

    Labels that ranks found are dealt out if there are as many ranks as before; otherwise they are found anew. Ranks
    that train on the same graph have found the same ones.
    """
    ranks = state.ranks
    if ranks.size == 1 and not state.found_by_ranks:
        return
    optimisers = (state.policy_optimiser, state.optimiser)
    told: dict[str, Any] | None = None
    if ranks.is_first:
        told = {name: getattr(state, name) for name in _PROGRESS}
        told["weights"] = [state.policy.state_dict(), state.aggregators.state_dict()]
        told["moments"] = [one.state_dict() for one in optimisers]
        told["found"] = state.found_by_ranks or [_found(state)]
    told = ranks.share(told)
    for name in _PROGRESS:
        setattr(state, name, told[name])
    for module, weights in zip((state.policy, state.aggregators), told["weights"], strict=True):
        module.load_state_dict(weights)
    for optimiser, moments in zip(optimisers, told["moments"], strict=True):
        optimiser.load_state_dict(moments)
    device = state.policy.score_bias.device
    state.best = {name: value.to(device) for name, value in state.best.items()}
    if state.epoch:
        _deal_out(state, told["found"], ranks)


def _deal_out(state: TrainingState, found: list[dict[str, Tensor]], ranks: Ranks) -> None:
    """Take the labels that this rank found, if the checkpoint is of as many ranks that have parts of their own."""
    if len(found) == 1 and not state.has_own_part:
        mine: dict[str, Tensor] = found[0]
    elif len(found) == ranks.parts:
        mine = found[ranks.part]
    else:
        state.part, state.suggested = _UNKNOWN_PART, None  # found anew when the part is entered
        state.best_suggested = found[0].get("best_suggested")
        return
    device = state.policy.score_bias.device
    for name in FOUND:
        value = mine.get(name)
        setattr(state, name, None if value is None else value.to(device))


def collect_found(state: TrainingState) -> None:
    """Tell the first rank, which writes checkpoints, the labels that each rank found in its own part."""
    if state.ranks.parts > 1 and state.has_own_part:
        state.found_by_ranks = [
            {name: value.cpu() for name, value in one.items()} for one in state.ranks.gather(_found(state))
        ]


def _found(state: TrainingState) -> dict[str, Tensor]:
    values = {name: getattr(state, name) for name in FOUND}
    return {name: value for name, value in values.items() if value is not None}
