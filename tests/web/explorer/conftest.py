"""A trained model on a small noisy graph with ids and classes that a careless page would read as HTML."""

from dataclasses import replace

import numpy as np
import pytest

from gdpnet.web.explorer.payload import build_payload
from helpers.pages import CLASSES, HOSTILE
from helpers.small import FAST, fitted, noisy_graph


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
