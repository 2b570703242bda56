"""The weights of the heads: expectation maximisation with a prior, and the guard by the task's metric."""

import pytest
import torch

from gdpnet.config import EnsembleSettings
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.objective import classification_by
from gdpnet.representation.tasks import CLASSIFICATION
from gdpnet.training.weigh_heads import mixed, mixture_weights, weigh_heads

EVEN = torch.tensor([0.5, 0.5])


def test_without_nodes_the_weights_are_the_prior():
    found = mixture_weights(torch.zeros(0, 2), torch.tensor([0.7, 0.3]), 10.0)
    assert found.tolist() == pytest.approx([0.7, 0.3])


def test_one_node_against_one_prior_node_by_hand():
    """One head has likelihood 1, the other 0: w = (1 + w0) / 2 with w0 the prior of the first."""
    found = mixture_weights(torch.tensor([[1.0, 0.0]]), EVEN, 1.0)
    assert found.tolist() == pytest.approx([0.75, 0.25], abs=1e-6)


def test_many_nodes_decide_and_few_change_little():
    row = torch.tensor([[0.9, 0.3]])
    few, many = (mixture_weights(row.expand(count, 2), EVEN, 10.0)[0] for count in (2, 2000))
    assert 0.5 < few < 0.6
    assert many > 0.99


def test_the_weights_maximise_the_likelihood():
    likely = torch.rand(300, 2, generator=torch.Generator().manual_seed(0))
    found = float(mixture_weights(likely, EVEN, 1e-6)[0])
    grid = torch.linspace(0.0, 1.0, 2001).double()
    total = (likely[:, :1] * grid + likely[:, 1:] * (1.0 - grid)).log().sum(dim=0)
    assert found == pytest.approx(float(grid[total.argmax()]), abs=2e-3)


def test_a_node_of_weight_two_counts_as_two():
    likely = torch.tensor([[0.9, 0.1], [0.2, 0.7]])
    twice = mixture_weights(likely, EVEN, 3.0, torch.tensor([2.0, 1.0]))
    copied = mixture_weights(likely[[0, 0, 1]], EVEN, 3.0)
    torch.testing.assert_close(twice, copied)


def heads_of(first: list[float], second: list[float]) -> dict[str, torch.Tensor]:
    """Return two heads by their probabilities of the first of two classes."""
    given = {"aggregator": torch.tensor(first), "trees": torch.tensor(second)}
    return {name: torch.stack([one, 1.0 - one], dim=1) for name, one in given.items()}


def test_the_better_head_gets_the_weight_and_a_useless_one_leaves():
    heads = heads_of([0.5] * 400, [0.99] * 400)
    prior = HeadWeights().with_head("trees", 0.1)
    given = (torch.zeros(400, dtype=torch.long), HeadWeights(), prior, CLASSIFICATION)
    found = weigh_heads(heads, *given, EnsembleSettings(prior_nodes=2.0))
    assert found == HeadWeights(0.0, trees=1.0)
    useless = weigh_heads(heads_of([0.99] * 400, [0.5] * 400), *given, EnsembleSettings())
    assert useless == HeadWeights()


def test_usual_weights_stay_if_the_mixture_is_clearly_worse_in_the_metric():
    """The first head is right but hardly sure, the second wrong on a third and sure of the rest."""
    labels = torch.zeros(300, dtype=torch.long)
    heads = heads_of([0.51] * 300, [0.4] * 100 + [0.999] * 200)
    prior = HeadWeights().with_head("trees", 0.5)
    for task in (CLASSIFICATION, classification_by("macro_f1")):
        found = weigh_heads(heads, labels, HeadWeights(), prior, task, EnsembleSettings())
        assert found == HeadWeights()
    likely = weigh_heads(
        heads, labels, HeadWeights(), prior, classification_by("log_loss"), EnsembleSettings()
    )
    assert likely.trees > 0.5


def test_a_mean_over_heads_leaves_out_those_without_weight():
    heads = heads_of([0.2], [0.6])
    assert mixed(heads, HeadWeights(0.5, trees=0.5))[0, 0] == pytest.approx(0.4)
    assert mixed(heads, HeadWeights(0.4, gcn=0.6))[0, 0] == pytest.approx(0.2)
