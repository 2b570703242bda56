"""Noise that spares the validation nodes: it is noticed, and they do not weigh what reads every edge."""

import math

import numpy as np
import pytest
import torch

from gdpnet import GDPNet
from gdpnet.config import Config, ThresholdSettings
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.inference.threshold import Choice
from gdpnet.training.callbacks import Callback, Step
from gdpnet.training.choose_threshold import removing_noise
from gdpnet.training.spared import NoiseAround, noise_around
from helpers.setups import CPU
from helpers.small import FAST

SETTINGS = ThresholdSettings()


class Steps(Callback):
    """Keeps what the steps of a fit say."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def on_step(self, step: Step) -> None:
        self.said[step.name] = step.result


def around(ends: list[list[int]], genuine: dict[frozenset[int], float], validation: list[int]):
    """Return the noise around validation nodes of a graph of five nodes."""
    prepared = prepare(
        Graph.build(np.array(ends).T, torch.eye(5), torch.zeros(5, dtype=torch.long)), Config(), CPU
    )
    target = torch.arange(5).repeat_interleave(prepared.row_ptr.diff())
    pairs = zip(target.tolist(), prepared.neighbour.tolist(), strict=True)
    chance = torch.tensor([genuine[frozenset(pair)] for pair in pairs])
    return noise_around(chance, prepared, torch.tensor(validation))


def test_the_noise_is_that_of_the_edges_of_each_kind_of_nodes():
    chance = {frozenset((0, 1)): 0.9, frozenset((1, 2)): 0.6, frozenset((2, 3)): 0.2, frozenset((3, 4)): 0.4}
    found = around([[0, 1], [1, 2], [2, 3], [3, 4]], chance, [0, 1])
    # nodes 0 and 1 have the edges 0-1 twice and 1-2; nodes 2, 3 and 4 have 1-2, 2-3 twice and 3-4 twice
    assert found.validation == pytest.approx((0.1 + 0.1 + 0.4) / 3)
    assert found.others == pytest.approx((0.4 + 0.8 + 0.8 + 0.6 + 0.6) / 5)
    of_nodes = [(0.1, 1, 0.2), (0.5, 2, 0.2), (1.2, 2, 0.64), (1.4, 2, 0.64), (0.6, 1, 0.64)]
    spread = [(noise - share * degree) ** 2 for noise, degree, share in of_nodes]
    expected = math.sqrt(sum(spread[:2]) / 9 + sum(spread[2:]) / 25)
    assert found.deviation == pytest.approx(expected)


@pytest.mark.parametrize("validation", [[4], [0, 1, 2, 3]])
def test_nodes_without_edges_show_no_noise(validation):
    chance = {frozenset(pair): 0.5 for pair in ((0, 1), (1, 2), (2, 3))}
    assert around([[0, 1], [1, 2], [2, 3]], chance, validation) is None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (NoiseAround(0.05, 0.10, 0.01), True),
        (NoiseAround(0.05, 0.10, 0.02), False),  # by chance
        (NoiseAround(0.30, 0.35, 0.001), False),  # about as much
        (NoiseAround(0.10, 0.05, 0.01), False),
        (NoiseAround(0.0, 0.1, 0.01), True),
    ],
)
def test_the_difference_must_be_large_and_sure(found, expected):
    assert found.is_less(SETTINGS) is expected


def test_noise_that_costs_more_is_removed_at_a_higher_threshold():
    probability, genuine = torch.tensor([0.1, 0.3, 0.9, 0.9]), torch.tensor([0.1, 0.7, 0.99, 0.99])
    candidates = [0.0, 0.2, 0.5]
    assert removing_noise(probability, genuine, 0.0, candidates, SETTINGS)[0] == 0.2
    assert removing_noise(probability, genuine, 0.0, candidates, SETTINGS, cost=5.0)[0] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", [False, True])
def test_validation_nodes_that_are_spared_do_not_weigh_the_reading_of_all_edges(everywhere):
    # a ring with many triangles, which random links hardly close
    node = np.arange(600)
    ring = np.concatenate([np.stack([node, (node + step) % 600]) for step in (1, 2, 3)], axis=1)
    rng, label = np.random.default_rng(0), (node // 50) % 2
    split = rng.choice([1, 2, 3], 600, p=[0.5, 0.2, 0.3])
    hit = node if everywhere else node[split == 3]
    others = node if everywhere else node[split != 2]
    ends = np.concatenate([ring, np.stack([rng.choice(hit, 600), rng.choice(others, 600)])], axis=1)
    rows = rng.normal(size=(600, 6)).astype(np.float32) + label[:, None]
    graph = Graph.build(ends[:, ends[0] != ends[1]], rows, label, split=split)
    heads = {"all_edges": {"use": True, "epochs": 40}, "evidence": {"use": True, "trees_per_pass": 30}}
    config = FAST.with_values(heads | {"training": {"epochs": 8, "warmup": 3, "injected": 0.5}})
    steps = Steps()
    model = GDPNet.from_config(config, seed=0, device="cpu").fit(graph, callbacks=[steps])
    assert ("validation scores hardly show its harm" in steps.said["threshold"]) is not everywhere
    assert ("validation scores hardly show its harm" in model.denoise(graph).summary) is not everywhere
    assert ("all-edges head" in steps.said) is everywhere
    if not everywhere:
        assert model.trained_.weights.all_edges == 0
        assert model.trained_.networks.all_edges is None
        assert Choice.from_dict(model.threshold_.to_dict()) == model.threshold_
        validation, others = model.threshold_.spared
        assert 1.4 * validation <= others
