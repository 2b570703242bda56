"""The one early-stopping loop: take steps, evaluate now and then, end with the best weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from gdpnet._core.progress import advance, is_time_up, part
from gdpnet._core.replay import Replayed, step_with, stream_of

T = TypeVar("T")
Score = tuple[float, ...]
"""Compared from left to right: later entries break ties."""


@dataclass(frozen=True)
class Fitted:
    """The best evaluation of a fit, the step it was made at, and the number of steps taken."""

    score: Score
    best_step: int
    steps: int


def fit(
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor | Iterable[Tensor]],
    evaluate: Callable[[], Score],
    *,
    steps: int,
    evaluate_every: int = 1,
    patience: int | None = None,
    check_every: int = 1,
    draws: Sequence[torch.Generator] | None = None,
) -> Fitted:
    """Minimise a loss, and leave the module with the weights of the best evaluation.

    A step may have several losses, one per batch, that are minimised one after the other.
    A score is greater if it is better. It is computed without gradients after every ``evaluate_every`` steps and
    after the last one. The fit stops once ``patience`` steps passed without a better one, which is looked at every
    ``check_every`` steps; without a patience it never stops early. It also stops, after one step at least, when the
    time that it was given is up (`gdpnet._core.progress.limit`).

    ``draws`` are all generators that a single loss draws from. If they are given, a GPU replays the steps as a CUDA
    graph; the loss must then neither wait for the device nor copy from the host.
    """
    take_step = _steps(module, optimiser, loss, draws)
    best: Score | None = None
    best_step, step, weights = 0, 0, _copy(module)
    for step in range(1, steps + 1):
        take_step()
        advance(step, steps)
        is_last = step == steps or is_time_up()
        if step % evaluate_every and not is_last:
            continue
        with torch.no_grad():
            score = evaluate()
        if best is None or score > best:
            best, best_step, weights = score, step, _copy(module)
        has_waited = patience is not None and step % check_every == 0 and step - best_step >= patience
        if has_waited or is_last:
            break
    module.load_state_dict(weights)
    return Fitted(best or (), best_step, step)


def _steps(
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor | Iterable[Tensor]],
    draws: Sequence[torch.Generator] | None,
) -> Callable[[], None]:
    """Return a function that takes a step, replayed on a GPU if it may be."""
    weights = list(module.parameters())
    stream = None if draws is None else stream_of(optimiser, weights[0].device)

    def step() -> None:
        found = loss()
        for value in [found] if isinstance(found, Tensor) else found:
            optimiser.zero_grad(set_to_none=True)
            value.backward()
            optimiser.step()

    def captured_step() -> None:
        value = loss()
        assert isinstance(value, Tensor), "a step that is replayed has one loss"
        step_with(optimiser, weights, torch.autograd.grad(value, weights, allow_unused=True))

    return step if stream is None else Replayed(captured_step, stream, draws or ())


def fit_each(fits: Sequence[Callable[[], T]]) -> list[T]:
    """Run some fits one after the other; if time is limited, each has an equal share of it."""
    found = []
    for number, run in enumerate(fits):
        with part(number, len(fits)):
            found.append(run())
    return found


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
