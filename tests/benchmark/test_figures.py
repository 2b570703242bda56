"""Figures of a run: each is a picture, of any graph."""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet.benchmark.figures import draw_run, embedding_map, training_curves
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet
from helpers.small import FAST, fitted, noisy_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph)


def size_of(path: Path) -> tuple[int, int]:
    """Return the width and height that a PNG's header tells."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


@pytest.mark.slow
def test_all_figures_of_a_run_are_pictures(model, graph, tmp_path):
    paths = draw_run(model.predictor(graph), tmp_path / "figures")
    names = ["training.png", "selected_share.png", "embedding.png", "keep_probability.png", "reliability.png"]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(names)
    for path in paths:
        width, height = size_of(path)
        assert width > 400
        assert height > 300
        assert path.stat().st_size > 5000


def test_the_figure_of_planted_noise_needs_noise_that_is_known(model, graph, tmp_path):
    paths = draw_run(model.predictor(replace(graph, truth=None)), tmp_path)
    assert [path.name for path in paths] == ["training.png", "selected_share.png", "embedding.png"]


def test_the_map_shows_each_test_node_in_the_colour_of_its_class(model, graph):
    [axes] = embedding_map(model.predictor(graph)).axes
    shown = {dots.get_label(): len(dots.get_offsets()) for dots in axes.collections}
    labels = graph.labels[graph.nodes_in("test")]
    assert shown == {f"topic {number}": int((labels == number).sum()) for number in range(3)}


@pytest.mark.parametrize("nodes", [1, 2, 9, 10, 60])
def test_the_map_can_be_drawn_of_any_number_of_nodes(nodes, model, graph):
    few = graph.induced(torch.arange(nodes))
    few = replace(few, split=torch.full_like(few.split, 3))
    [axes] = embedding_map(model.predictor(few)).axes
    points = np.concatenate([dots.get_offsets() for dots in axes.collections])
    assert points.shape == (nodes, 2)
    assert np.isfinite(points).all()


def test_the_map_can_be_drawn_of_representations_that_are_all_the_same_or_one_wide(graph, model):
    same = replace(graph, features=torch.ones(80, 300)).keep_edges(
        torch.zeros(graph.num_edges, dtype=torch.bool)
    )
    narrow = fitted(graph, FAST.with_values({"representation": {"width": 1}}))
    for figure in (embedding_map(model.predictor(same)), embedding_map(narrow.predictor(graph))):
        points = np.concatenate([dots.get_offsets() for dots in figure.axes[0].collections])
        assert points.shape == (24, 2)
        assert np.isfinite(points).all()


def test_figures_are_drawn_of_a_graph_without_edges(tmp_path):
    graph = noisy_graph().keep_edges(torch.zeros(336, dtype=torch.bool))
    paths = draw_run(fitted(graph).predictor(graph), tmp_path)
    assert all(size_of(path) for path in paths)


def test_curves_leave_out_numbers_that_no_axis_can_have():
    usual = {"epoch": 1, "loss": 1.0, "validation_f1": 0.5, "reward": 0.0, "kept_share": 1.0, "kl": 0.0}
    history = [usual | {"loss": 1e300, "injected_auc": 0.5}, usual | {"epoch": 1e308, "kl": None}]
    figure = training_curves(history, 10**400)
    figure.canvas.draw()
    loss = next(axes for axes in figure.axes if "loss" in axes.get_title())
    assert np.isnan(loss.lines[0].get_ydata()).tolist() == [True, False]
