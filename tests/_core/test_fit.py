"""The early-stopping loop: best weights, patience, and when evaluations are made."""

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

from gdpnet._core.fit import Fitted, Score, fit, fit_each
from gdpnet._core.progress import limit, seconds_left, watch


class Counter(nn.Module):
    """A module whose only weight grows by one with every step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def loss(self) -> Tensor:
        """Return a loss with gradient minus one."""
        return -self.weight


class Run:
    """Fit a counter with known scores, and record the steps after which it was evaluated."""

    def __init__(self, scores: Iterable[Score], **options: int) -> None:
        self.module, self.evaluated = Counter(), []
        self.scores = iter(scores)
        optimiser = torch.optim.SGD(self.module.parameters(), lr=1.0)
        self.fitted: Fitted = fit(self.module, optimiser, self.module.loss, self._evaluate, **options)

    def _evaluate(self) -> Score:
        self.evaluated.append(int(self.module.weight))
        return next(self.scores)

    @property
    def weight(self) -> int:
        """Return the weight after the fit, which is the step that it belongs to."""
        return int(self.module.weight)


def test_the_weights_of_the_best_evaluation_are_restored():
    run = Run([(0.1,), (0.7,), (0.5,), (0.6,)], steps=4)
    assert run.evaluated == [1, 2, 3, 4]
    assert run.fitted == Fitted(score=(0.7,), best_step=2, steps=4)
    assert run.weight == 2


def test_of_equal_scores_the_first_is_kept():
    run = Run([(0.5,), (0.5,), (0.5,)], steps=3)
    assert (run.fitted.best_step, run.weight) == (1, 1)


def test_later_entries_of_a_score_break_ties():
    run = Run([(0.5, -1.0), (0.5, -0.5), (0.4, 9.0)], steps=3)
    assert run.fitted == Fitted(score=(0.5, -0.5), best_step=2, steps=3)
    assert run.weight == 2


def test_patience_counts_steps_without_a_better_evaluation():
    run = Run([(0.1,), (0.9,)] + [(0.0,)] * 50, steps=50, patience=3)
    assert run.evaluated == [1, 2, 3, 4, 5]
    assert run.fitted == Fitted(score=(0.9,), best_step=2, steps=5)


def test_a_better_evaluation_renews_the_patience():
    run = Run([(0.1,), (0.0,), (0.2,), (0.0,), (0.3,)] + [(0.0,)] * 50, steps=50, patience=2)
    assert (run.fitted.best_step, run.fitted.steps, run.weight) == (5, 7, 5)


def test_without_patience_all_steps_are_taken():
    run = Run([(1.0,)] + [(0.0,)] * 29, steps=30)
    assert (run.fitted.best_step, run.fitted.steps, run.weight) == (1, 30, 1)


@pytest.mark.parametrize(
    ("steps", "every", "evaluated"),
    [(10, 5, [5, 10]), (11, 5, [5, 10, 11]), (3, 5, [3]), (4, 1, [1, 2, 3, 4])],
)
def test_evaluations_are_made_every_few_steps_and_after_the_last_one(steps, every, evaluated):
    run = Run([(float(number),) for number in range(9)], steps=steps, evaluate_every=every)
    assert run.evaluated == evaluated
    assert run.weight == run.fitted.best_step == steps


def test_patience_is_checked_only_every_few_steps():
    run = Run([(1.0,)] + [(0.0,)] * 50, steps=50, patience=3, check_every=10)
    assert run.fitted.steps == 10
    exact = Run([(1.0,)] + [(0.0,)] * 50, steps=50, patience=3)
    assert exact.fitted.steps == 4


def test_evaluations_record_no_gradients():
    module = Counter()
    enabled = []

    def evaluate() -> Score:
        enabled.append(torch.is_grad_enabled())
        return (0.0,)

    fit(module, torch.optim.SGD(module.parameters(), lr=1.0), module.loss, evaluate, steps=2)
    assert enabled == [False, False]


def test_a_step_may_have_a_loss_per_batch():
    module = Counter()
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    fit(
        module, optimiser, lambda: (module.loss() for _ in range(3)), lambda: (float(module.weight),), steps=2
    )
    assert int(module.weight) == 6


# --- time and progress ---


def test_a_fit_whose_time_is_up_evaluates_its_last_step_and_keeps_the_best():
    with limit(0.0) as limited:
        run = Run([(0.5,)], steps=1000, evaluate_every=50)
    assert run.evaluated == [1]
    assert run.fitted == Fitted(score=(0.5,), best_step=1, steps=1)
    assert limited.was_reached


def test_a_limit_that_is_not_reached_changes_nothing():
    scores = [(0.1,), (0.7,), (0.5,), (0.6,)]
    with limit(1000.0) as limited:
        run = Run(scores, steps=4)
    assert run.fitted == Run(scores, steps=4).fitted
    assert not limited.was_reached


def test_a_fit_says_how_many_of_its_steps_are_done():
    told: list[float] = []
    with watch(told.append):
        Run([(1.0,)] + [(0.0,)] * 9, steps=4)
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_fits_one_after_the_other_share_progress_and_time():
    told: list[float] = []
    with watch(told.append), limit(10.0):
        left = fit_each([seconds_left, seconds_left])
    assert left == [pytest.approx(5.0, abs=0.5), pytest.approx(10.0, abs=0.5)]
    assert told == [0.5, 1.0]


def fit_on_gpu(inputs: Tensor, *, is_replayed: bool) -> Tensor:
    """Fit a layer with batches and dropout that a generator draws; return its weights."""
    module, draws = nn.Linear(8, 1).cuda(), torch.Generator("cuda").manual_seed(1)
    nn.init.constant_(module.weight, 0.5)
    nn.init.constant_(module.bias, 0.0)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05, fused=True)

    def loss() -> Tensor:
        part = torch.randperm(64, generator=draws, device="cuda")[:16]
        kept = torch.rand(16, 8, generator=draws, device="cuda") > 0.3
        return (module(inputs[part] * kept) - inputs[part, :1]).square().mean()

    evaluations = iter(range(20))
    given = [draws] if is_replayed else None
    fit(module, optimiser, loss, lambda: (next(evaluations),), steps=20, draws=given)
    return torch.cat([module.weight.flatten(), module.bias]).detach()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_replayed_steps_lead_to_the_weights_of_single_steps():
    inputs = torch.randn(64, 8, device="cuda")
    single, replayed = (fit_on_gpu(inputs, is_replayed=choice) for choice in (False, True))
    assert not torch.allclose(single[:8], torch.full_like(single[:8], 0.5), atol=1e-2)
    torch.testing.assert_close(replayed, single, atol=1e-5, rtol=1e-4)
