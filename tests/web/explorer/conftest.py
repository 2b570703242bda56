"""A trained model on a small noisy graph with ids and classes that a careless page would read as HTML."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from tools.chromium import browser

from gdpnet.data.graph import Graph
from gdpnet.web.explorer.page import render_page
from gdpnet.web.explorer.payload import build_payload
from helpers.pages import CLASSES, HOSTILE
from helpers.small import FAST, fitted, noisy_graph
from web.explorer.reader import Reader


@pytest.fixture(scope="session")
def graph():
    """Return a graph of 80 nodes, the first of which have hostile ids."""
    graph = noisy_graph()
    ids = np.array([*HOSTILE, *graph.node_ids[len(HOSTILE) :]])
    return replace(graph, node_ids=ids, class_names=CLASSES)


@pytest.fixture(scope="session")
def model(graph):
    """Return a model with two heads and genuine probabilities."""
    values = {
        "gcn": {"use": True, "epochs": 20, "weight": 0.5},
        "evidence": {"use": True},
        "training": {"epochs": 3, "warmup": 2},
    }
    return fitted(graph, FAST.with_values(values))


@pytest.fixture(scope="session")
def predictor(graph, model):
    return model.predictor(graph)


@pytest.fixture(scope="session")
def payload(predictor):
    return build_payload(predictor, title='run "1" <b>')


@pytest.fixture(scope="session")
def star(model):
    """Return the page of a graph in which node 79 has all others as neighbours, more than are drawn at first."""
    graph = noisy_graph()
    ends = torch.stack([torch.full((79,), 79), torch.arange(79)])
    edges = torch.cat([graph.edge_index, ends], dim=1)
    return build_payload(model, replace(Graph.build(edges, graph.features), truth=None))


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a page of some data and returns its address."""

    def write(found: dict) -> str:
        path = tmp_path / "page.html"
        path.write_text(render_page(found), encoding="utf-8")
        return path.as_uri()

    return write


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(payload, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "explorer.html"
    path.write_text(render_page(payload), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def make_reader(chromium, address) -> Iterator:
    readers: list[Reader] = []

    def make(**options) -> Reader:
        readers.append(Reader(chromium, options.pop("address", address), **options))
        return readers[-1]

    yield make
    for one in readers:
        one.check()
        one.context.close()
