"""Perturbed graphs by name: one noise after another, each with its rate and the seed."""

from pathlib import Path

import pytest
import torch

from gdpnet.benchmark.cases import Setting, check_noise, noisy_graph, steps_of
from gdpnet.data.io.files import read_graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.errors import ConfigError, GraphError
from helpers.small import write_folder


def test_a_setting_is_its_graph_corrupted_with_its_seed(tmp_path):
    folder = write_folder(tmp_path / "graph")
    graph = noisy_graph(Setting(str(folder), "paper", "random-links", 0.5, 3))
    expected = corrupt(read_graph(folder), "random-links", 0.5, 3).graph
    assert torch.equal(graph.neighbour, expected.neighbour)
    assert torch.equal(graph.truth.spurious, expected.truth.spurious)
    assert bool(graph.truth.spurious.any())


def test_an_unknown_noise_or_a_rate_out_of_range_is_refused():
    check_noise("random-links", [0.0, 2.5])
    with pytest.raises(GraphError, match=r"there is no noise 'random-link'; did you mean 'random-links'\?"):
        check_noise("random-link", [0.5])
    with pytest.raises(GraphError, match="the rate of deleted-links is a share"):
        check_noise("deleted-links", [0.5, 1.5])
    with pytest.raises(GraphError, match="the rate of swapped-features is a share"):
        check_noise("swapped-features:1.5+random-links", [0.5])
    with pytest.raises(ConfigError, match=r"needs its rate, as kind:0\.5, found none$"):
        check_noise("swapped-features+random-links", [0.5])
    with pytest.raises(ConfigError, match=r"needs its rate, as kind:0\.5, found 'half'$"):
        check_noise("swapped-features:half+random-links", [0.5])


def test_a_noise_may_follow_another_at_a_fixed_rate(tmp_path):
    assert steps_of("random-links", 0.5) == [("random-links", 0.5)]
    both = "swapped-features:0.5+random-links"
    assert steps_of(both, 2.0) == [("swapped-features", 0.5), ("random-links", 2.0)]
    folder = str(write_folder(tmp_path / "mine"))
    graph = read_graph(Path(folder))
    for rate in (0.0, 1.0):
        noisy = noisy_graph(Setting(folder, "paper", both, rate, 3))
        assert noisy.truth is not None
        assert int(noisy.truth.corrupted.sum()) == pytest.approx(graph.num_nodes / 2, abs=2)
        added = int(noisy.truth.spurious.sum()) - int(graph.truth.spurious.sum() if graph.truth else 0)
        assert added == pytest.approx(rate * graph.num_edges, abs=2)
