"""Measure in a few seconds what work costs on this machine, for `gdpnet.benchmark.plan`."""

from __future__ import annotations

import time

import torch

from gdpnet._core.random import Key
from gdpnet.benchmark.plan import Costs
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.inference.select import select
from gdpnet.training.data import make_training_data
from gdpnet.training.state import begin_training

_NODES, _DEGREE = 1500, 20
_ROWS, _ROW = 65_536, 512
"""Rows that are gathered from, and numbers of a row: two kilobytes."""

_CPU = torch.device("cpu")


def measure_costs(features: int, width: int) -> Costs:
    """Return the costs of one core, measured with networks of this size that were not trained."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        config = Config().with_values({"representation": {"width": width}, "training": {"injected": 0.0}})
        graph = _graph(features)
        _decide(graph.induced(torch.arange(_NODES // 10)), config)  # compiles what is compiled
        return Costs(_decide(graph, config) / graph.num_edges, _gather())
    finally:
        torch.set_num_threads(before)


def _graph(features: int) -> Graph:
    """Return a graph with dense features of some width."""
    settings = SyntheticSettings(nodes=_NODES, classes=4, words=400, links_per_node=_DEGREE / 2)
    drawn = synthetic_graph(settings, seed=0)
    rows = torch.randn(_NODES, features, generator=Key.of(0).generator()) + drawn.labels[:, None]
    return Graph.build(drawn.edge_index.numpy(), rows.numpy(), drawn.labels.numpy())


def _decide(graph: Graph, config: Config) -> float:
    """Return the seconds of the processor to prepare a graph and to decide on all its edges."""
    key, nodes = Key.of(0), torch.arange(graph.num_nodes)
    data = make_training_data(graph, config, 0, _CPU)
    state = begin_training(data, graph.num_classes, config, key, _CPU)
    start = time.process_time()
    prepared = prepare(graph, config, _CPU)
    select(state.policy, state.aggregators, prepared, nodes, config, key)
    return time.process_time() - start


def _gather() -> float:
    """Return the seconds to gather a gigabyte of rows in random order."""
    rows = torch.zeros(_ROWS, _ROW)
    order = torch.randperm(_ROWS, generator=Key.of(1).generator())
    rows.index_select(0, order)  # maps the memory
    start = time.process_time()
    rows.index_select(0, order)
    return (time.process_time() - start) / (4 * rows.numel() / 1e9)
