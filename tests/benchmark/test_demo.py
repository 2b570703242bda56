"""The demo compares GDPNet with all neighbours, with baselines and with no graph."""

import pytest

from gdpnet.benchmark.ablations import variant_of
from gdpnet.benchmark.baselines.methods import run_method
from gdpnet.benchmark.demo import run_demo
from gdpnet.benchmark.evaluation import f1_on_test
from helpers.small import FAST, fitted, noisy_graph


@pytest.mark.slow
def test_the_demo_compares_with_all_neighbours_and_with_no_graph():
    graph, told = noisy_graph(), []
    model, metrics = run_demo(graph, FAST, 0, "cpu", told.append)
    assert len(told) == 3
    everything = fitted(graph, variant_of(FAST, "gdpnet:keep-everything"))
    assert metrics["micro_f1"] == model.score(graph)
    assert metrics["micro_f1_all_neighbours"] == everything.score(graph)
    assert metrics["micro_f1_logistic_regression"] == f1_on_test(graph, run_method("lr", graph).logits)
    assert {"spurious_removed", "genuine_kept", "keep_auc"} <= metrics.keys()
