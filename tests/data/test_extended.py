"""A graph with nodes and edges added, and parts of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.config import Config
from gdpnet.data.extended import Addition, ExtendedGraph, TooManyEdgesError
from gdpnet.data.features import SparseRows, to_dense
from gdpnet.data.graph import Graph, Truth
from gdpnet.data.io.files import read_graph
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.data.prepare import prepare_part
from gdpnet.data.schema import encoded_as
from gdpnet.data.splits import with_split


def chain(nodes: int, links: list[tuple[int, int]] | None = None, *, directed: bool = False) -> Graph:
    """Return a chain of nodes, or some links, with the number of each node as its only feature."""
    links = [(node, node + 1) for node in range(nodes - 1)] if links is None else links
    rows = torch.arange(nodes, dtype=torch.float32)[:, None] + 1
    return Graph.build(torch.tensor(links).reshape(-1, 2).T, rows, directed=directed)


def added(graph: Graph, features: list[float], links: list[tuple[int, int]], **more) -> ExtendedGraph:
    """Return a graph with new nodes a, b, ... and links by number."""
    ids = np.array([chr(ord("a") + place) for place in range(len(features))], dtype=str)
    rows = torch.tensor(features)[:, None]
    ends = torch.tensor(links).reshape(-1, 2).T
    return ExtendedGraph(graph, Addition.of(graph, ids, rows, ends, **more))


def test_a_part_has_all_edges_of_nodes_nearer_than_its_border_and_none_of_the_border():
    part = ExtendedGraph(chain(7)).around(torch.tensor([3]), hops=2, deciding=1)
    assert part.node.tolist() == [1, 2, 3, 4, 5]
    assert part.graph.degree.tolist() == [0, 2, 2, 2, 0]
    assert part.graph.neighbour.tolist() == [0, 2, 1, 3, 2, 4]  # by number in the part
    assert part.edge.tolist() == [3, 4, 5, 6, 7, 8]  # node 2 has the edges 3 and 4 of the whole chain
    assert part.deciding.tolist() == [1, 2, 3]
    assert part.graph.features.flatten().tolist() == [2, 3, 4, 5, 6]


def test_a_part_knows_the_noise_of_its_nodes_and_edges_unless_some_were_added():
    truth = Truth(torch.arange(12) % 3 == 0, torch.arange(7) == 3, torch.arange(7))
    graph = replace(chain(7), truth=truth)
    part = ExtendedGraph(graph).around(torch.tensor([3]), hops=2, deciding=1)
    found = part.graph.truth
    assert found.spurious.tolist() == [True, False, False, True, False, False]  # of the edges 3 to 8
    assert found.corrupted.tolist() == [False, False, True, False, False]
    assert found.clean_labels.tolist() == [1, 2, 3, 4, 5]
    assert added(graph, [9.0], [(7, 3)]).around(torch.tensor([3]), hops=2, deciding=1).graph.truth is None


def test_a_part_in_which_nobody_decides_is_prepared_without_pair_features():
    part = ExtendedGraph(chain(7)).around(torch.tensor([3]), hops=2, deciding=1)
    nobody = replace(part, deciding=part.deciding[:0])
    some, none = (prepare_part(part.graph, one, Config(), torch.device("cpu")) for one in (part, nobody))
    assert none.pairs.shape == (6, 0)
    assert some.pairs.shape == (6, len(PAIR_NAMES[Config().policy.state]))
    assert torch.equal(none.reverse_edge, some.reverse_edge)
    assert torch.equal(none.features, some.features)


def test_a_new_node_comes_after_the_stored_ones_and_shifts_the_numbers_of_later_edges():
    part = added(chain(4), [9.0], [(4, 1)]).around(torch.tensor([4]), hops=2, deciding=0)
    assert part.node.tolist() == [0, 1, 2, 4]
    assert part.graph.node_ids.tolist() == ["0", "1", "2", "a"]
    assert part.graph.features.flatten().tolist() == [1, 2, 3, 9]
    # of node 1: edges 1, 2 and the new 3; of the new node: the last of all, 7
    assert part.edge.tolist() == [1, 2, 3, 7]


def test_loops_repeats_and_edges_that_are_there_already_add_nothing():
    extended = added(chain(4), [9.0], [(4, 1), (1, 4), (4, 4), (0, 1), (0, 3)])
    assert extended.addition.target.tolist() == [0, 1, 3, 4]
    assert extended.addition.neighbour.tolist() == [3, 4, 0, 1]


def test_degrees_ends_and_places_of_edges_are_those_of_the_extended_graph():
    extended = added(chain(4), [9.0, 8.0], [(4, 1), (0, 3)])  # the chain has the edges 0 to 5
    assert extended.touched.tolist() == [0, 1, 3, 4, 5]  # node 5 has no edges
    assert extended.degree_of(torch.arange(6)).tolist() == [2, 3, 2, 2, 1, 0]
    target, neighbour = torch.tensor([[1, 2, 0, 1, 4, 4, 5, 0], [2, 1, 3, 4, 1, 0, 0, 2]])
    assert extended.places_of(target, neighbour).tolist() == [2, 3, 6, 7, 9, -1, -1, -1]
    assert ExtendedGraph(chain(4)).touched.tolist() == []


def test_an_addition_as_a_graph_has_the_edges_between_its_own_nodes():
    graph = chain(4)
    alone = added(graph, [9.0, 8.0], [(4, 1), (4, 5)]).addition.as_graph(graph)
    assert alone.edge_index.tolist() == [[1, 0], [0, 1]]
    assert alone.features.flatten().tolist() == [9, 8]


def test_directed_edges_are_added_one_way():
    graph = chain(3, directed=True)
    extended = added(graph, [9.0], [(3, 0)], directed=True)
    assert (extended.addition.target.tolist(), extended.addition.neighbour.tolist()) == ([0], [3])


def test_surroundings_beyond_the_limit_are_refused_before_they_are_read():
    star = ExtendedGraph(chain(9, [(0, other) for other in range(1, 9)]))
    assert star.around(torch.tensor([1]), 2, 0, most=9).graph.num_edges == 9
    with pytest.raises(TooManyEdgesError, match="more edges than are allowed"):
        star.around(torch.tensor([1]), 2, 0, most=8)


def test_nodes_without_features_keep_their_numbers():
    graph = Graph.build([[0, 1], [1, 2]], SparseRows.identity(3))
    part = added(graph, [0.0], [(3, 2)]).around(torch.tensor([3]), 1, 0)
    assert not part.graph.has_features
    assert part.graph.features.column.tolist() == [2, 3]


@given(st.data())
def test_a_part_of_an_extended_graph_is_that_of_the_graph_built_at_once(data):
    stored, new = data.draw(st.integers(2, 8)), data.draw(st.integers(0, 3))
    node = st.integers(0, stored + new - 1)
    links = data.draw(st.lists(st.tuples(node, node), max_size=20))
    old = [(a, b) for a, b in links if a < stored and b < stored][: len(links) // 2]
    rows = torch.arange(stored + new, dtype=torch.float32)[:, None] + 1
    before = Graph.build(torch.tensor(old).reshape(-1, 2).T.long(), rows[:stored])
    whole = Graph.build(torch.tensor(links).reshape(-1, 2).T.long(), rows)
    ids = np.array([str(number) for number in range(stored, stored + new)], dtype=str)
    more = Addition.of(before, ids, rows[stored:], torch.tensor(links).reshape(-1, 2).T.long())
    target, hops = torch.tensor([data.draw(node)]), data.draw(st.integers(1, 3))
    one = ExtendedGraph(before, more).around(target, hops, 1)
    other = ExtendedGraph(whole).around(target, hops, 1)
    for name in ("node", "edge", "deciding"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert torch.equal(one.graph.row_ptr, other.graph.row_ptr)
    assert torch.equal(one.graph.neighbour, other.graph.neighbour)
    assert torch.equal(to_dense(one.graph.features), to_dense(other.graph.features))


NODES = """id,label,split,age,income,town
a,x,train,31,1500.5,north
b,y,train,,90.25,south
c,x,validation,47,,north
d,y,train,58,123456.75,
e,x,test,19,0.125,west
"""


def test_a_node_of_a_table_is_encoded_to_the_last_bit_as_the_model_encodes_it(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nc,b\nd,c\ne,a\n")
    encoding = read_graph(tmp_path).table.encoding
    with (tmp_path / "nodes.csv").open("a") as nodes:
        nodes.write("zz3,,,33,77777.7,south\nzz4,,,,0.3,\n")
    with (tmp_path / "edges.csv").open("a") as edges:
        edges.write("zz3,a\nzz4,zz3\n")
    graph = with_split(read_graph(tmp_path), "40/30/30", seed=3)
    assert graph.table.encoding != encoding
    part = ExtendedGraph(graph).around(torch.tensor([6]), 2, 1)
    found = to_dense(encoded_as(part.graph, encoding).features).numpy()
    wanted = encoding.transform(graph.table.columns)[part.node.numpy()]
    assert found.tobytes() == wanted.tobytes()
