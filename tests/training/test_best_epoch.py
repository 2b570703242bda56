"""The best epoch: by validation F1 and injected-edge AUC; and when training is over."""

import math

import pytest

from gdpnet.config import Config
from gdpnet.training.trainer import is_best, is_over, settled

WARMUP = 2
CONFIG = Config().with_values({"training": {"warmup": WARMUP, "patience": 3, "injected_weight": 0.5}})


def history(*epochs: tuple[float, float | None]) -> list[dict[str, float | None]]:
    """Return the epochs of a warm-up, better than any, and those after it by validation F1 and AUC."""
    return [{"validation_f1": 1.0, "injected_auc": None}] * WARMUP + [
        {"validation_f1": score, "injected_auc": auc} for score, auc in epochs
    ]


@pytest.mark.parametrize(
    ("epochs", "best"),
    [
        ([(0.8, 0.7)], True),
        ([(0.8, 0.7), (0.8, 0.7)], False),
        ([(0.8, 0.7), (0.81, 0.7)], True),
        ([(0.8, 0.7), (0.8, 0.71)], True),
        ([(0.8, 0.7), (0.79, 0.73)], True),
        ([(0.8, 0.7), (0.79, 0.71)], False),
        ([(0.8, None), (0.81, None)], True),
        ([(0.8, None), (0.79, None)], False),
    ],
)
def test_the_best_epoch_has_the_largest_f1_plus_half_of_the_injected_edge_auc(epochs, best):
    assert is_best(history(*epochs), CONFIG) == best


def test_without_a_weight_f1_alone_counts():
    alone = CONFIG.with_values({"training": {"injected_weight": 0.0}})
    assert not is_best(history((0.8, 0.7), (0.79, 0.99)), alone)


def test_a_history_without_injected_edge_auc_is_read_too():
    old = [{"validation_f1": 0.5}, {"validation_f1": 0.5}, {"validation_f1": 0.6}, {"validation_f1": 0.7}]
    assert is_best(old, CONFIG)


@pytest.mark.parametrize(
    ("epochs", "over"),
    [
        ([(0.8, 0.7)] * 3, False),
        ([(0.8, 0.7)] * 4, True),
        ([(0.8, 0.9), (0.79, 0.7), (0.81, 0.7), (0.8, 0.7)], False),  # F1 rose last, though it is worth less
        ([(0.8, 0.9), (0.79, 0.7), (0.81, 0.7), *[(0.8, 0.7)] * 3], True),
        ([(0.8, 0.5), (0.7, 0.6), (0.7, 0.8), (0.7, 0.7)], False),  # so did the worth
    ],
)
def test_training_is_over_if_neither_f1_nor_the_weighted_sum_has_risen_for_its_patience(epochs, over):
    found = history(*epochs)
    best = max(range(len(epochs)), key=lambda place: epochs[place][0] + 0.5 * epochs[place][1])
    assert is_over(found, WARMUP + best + 1, CONFIG) == over


def test_few_targets_prolong_the_patience():
    found = history(*[(0.8, 0.7)] * 10)
    assert is_over(found, WARMUP + 1, CONFIG, targets=2000)
    assert not is_over(found, WARMUP + 1, CONFIG, targets=100)
    assert is_over(history(*[(0.8, 0.7)] * 21), WARMUP + 1, CONFIG, targets=1)


def test_without_validation_nodes_training_goes_on_to_its_last_epoch():
    found = history(*[(math.nan, 0.7)] * 9)
    assert not is_over(found, len(found), CONFIG)


def test_settling_epochs_cannot_be_the_best():
    assert settled(CONFIG.with_values({"training": {"settle": 4, "epochs": 9}})) == WARMUP + 4
    assert settled(CONFIG.with_values({"training": {"settle": 4, "selection": False}})) == WARMUP
