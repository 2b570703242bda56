"""Pair features: worked by hand, by definition, and on a hub."""

import math
from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet.config import Config
from gdpnet.data import neighbour_sums
from gdpnet.data import pair_features as pairs
from gdpnet.data import row_products as matching
from gdpnet.data.features import SparseRows, to_dense, to_sparse
from gdpnet.data.graph import Graph
from gdpnet.data.pair_features import PAIR_NAMES, pair_features
from gdpnet.data.prepare import prepare
from helpers.setups import random_graph

# the triangle 0, 1, 2 with the leaf 3 at 2
TRIANGLE = Graph.build([[0, 0, 1, 2], [1, 2, 2, 3]], [[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])


def row_of(graph: Graph, target: int, neighbour: int, state: str = "structure") -> list[float]:
    edge = int(((graph.target == target) & (graph.neighbour == neighbour)).nonzero())
    return pair_features(graph, state)[edge].tolist()


def cosine(left: torch.Tensor, right: torch.Tensor) -> float:
    size = float(left.norm() * right.norm())
    return float(left @ right) / size if size > 1e-6 else 0.0


def by_definition(graph: Graph, features: torch.Tensor) -> torch.Tensor:
    """Return the structural pair features edge by edge, with neighbourhoods as Python sets."""
    unit = [row / row.norm() if float(row.norm()) else row for row in features]
    near = [set() for _ in range(graph.num_nodes)]
    for target, neighbour in zip(graph.target.tolist(), graph.neighbour.tolist(), strict=True):
        near[target].add(neighbour)
    rows = []
    for v, u in zip(graph.target.tolist(), graph.neighbour.tolist(), strict=True):
        common = near[v] & near[u]
        nothing = torch.zeros_like(features[0])
        around_v = sum((unit[node] for node in near[v] - {u}), nothing)
        around_u = sum((unit[node] for node in near[u] - {v}), nothing)
        rows.append(
            [
                cosine(unit[v], unit[u]),
                math.log1p(len(common)),
                math.log1p(sum(1 / math.log(max(len(near[node]), 2)) for node in common)),
                cosine(unit[v], around_u),
                cosine(unit[u], around_v),
                cosine(around_v, around_u),
                math.log1p(len(near[v])),
                math.log1p(len(near[u])),
            ]
        )
    return torch.tensor(rows).reshape(-1, 8)


# --- by hand ---


def test_an_edge_of_a_triangle_has_one_common_neighbour_and_neighbourhoods_without_the_edge():
    half = math.log1p(1 / math.log(3))  # the common neighbour, 2, has three neighbours
    # the neighbourhoods of 0 and of 1, without each other, are node 2, orthogonal to both
    expected = [1.0, math.log(2), half, 0.0, 0.0, 1.0, math.log(3), math.log(3)]
    assert row_of(TRIANGLE, 0, 1) == pytest.approx(expected, abs=1e-6)


def test_a_leaf_has_an_empty_neighbourhood_and_is_compared_with_that_of_its_neighbour():
    root = math.sqrt(0.5)
    # 3 has no neighbour but 2; the neighbourhood of 2 without 3 is 0 and 1, both (1,0)
    assert row_of(TRIANGLE, 2, 3) == pytest.approx(
        [root, 0.0, 0.0, 0.0, root, 0.0, math.log(4), math.log(2)], abs=1e-6
    )
    assert row_of(TRIANGLE, 3, 2) == pytest.approx(
        [root, 0.0, 0.0, root, 0.0, 0.0, math.log(2), math.log(4)], abs=1e-6
    )


def test_each_state_has_its_number_of_columns():
    for state, names in PAIR_NAMES.items():
        assert pair_features(TRIANGLE, state).shape == (TRIANGLE.num_edges, len(names))
    assert row_of(TRIANGLE, 2, 3, "pairs") == pytest.approx([math.sqrt(0.5)])


def test_the_target_of_a_one_way_edge_is_not_taken_out_of_the_neighbours_neighbourhood():
    # 1 is a neighbour of 0, and only 2 is a neighbour of 1
    graph = Graph.build([[1, 2], [0, 1]], [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], directed=True)
    found = row_of(graph, 0, 1)
    assert found[3] == pytest.approx(1.0)  # 0 equals 1's neighbourhood, node 2
    assert found[5] == 0.0  # 0's neighbourhood without 1 is empty


# --- by definition ---


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 14), st.booleans(), st.booleans())
def test_pair_features_follow_their_definitions(seed, links, directed, sparse):
    graph = random_graph(seed, links=links, directed=directed)
    features = torch.where(graph.features > 0, graph.features, 0.0)  # some rows are all zeros
    rows = SparseRows.from_scipy(sp.csr_matrix(features.numpy())) if sparse else features
    found = pair_features(replace(graph, features=rows), "structure")
    assert torch.allclose(found, by_definition(graph, features), atol=1e-4)


def test_two_nodes_with_one_edge_between_them_have_empty_neighbourhoods():
    graph = Graph.build([[0], [1]], [[1.0, 2.0], [3.0, 4.0]])
    assert row_of(graph, 0, 1)[1:6] == [0.0, 0.0, 0.0, 0.0, 0.0]


def test_labels_do_not_matter():
    labelled = replace(TRIANGLE, labels=torch.tensor([0, 1, 1, 0]), class_names=("a", "b"))
    assert torch.equal(pair_features(labelled, "structure"), pair_features(TRIANGLE, "structure"))


def test_a_graph_without_edges_has_no_rows():
    for features in (torch.ones(3, 2), SparseRows.identity(3)):
        graph = Graph.build([], features)
        assert pair_features(graph, "structure").shape == (0, 8)


# --- a hub ---


@pytest.mark.parametrize("leaves", [5_000, 100_000])
def test_work_and_memory_on_a_hub_follow_its_edges_and_not_their_square(leaves, monkeypatch):
    looked_up = []
    plain = matching.ranges

    def counted(start, length):
        owner, value = plain(start, length)
        looked_up.append(value.numel())
        return owner, value

    monkeypatch.setattr(matching, "ranges", counted)
    monkeypatch.setattr(matching, "LEAST_IN_LOOPS", 1 << 62)
    edges = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    graph = Graph.build(edges, SparseRows.identity(leaves + 1))
    found = pair_features(graph, "structure")
    assert sum(looked_up) < 20 * graph.num_edges
    assert max(looked_up) <= 2 * matching._CHUNK
    assert found[0, [6, 7]].tolist() == pytest.approx([math.log1p(leaves), math.log(2)])
    assert bool(torch.isfinite(found).all())


def test_large_batches_are_cut_into_parts_without_changing_the_result(monkeypatch):
    graph = random_graph(3, nodes=40, links=200, features=8)
    features = SparseRows.from_scipy(sp.csr_matrix(graph.features.clamp(min=0.0).numpy()))
    for rows in (features, graph.features):
        whole = pair_features(replace(graph, features=rows), "structure")
        with monkeypatch.context() as patch:
            patch.setattr(matching, "_CHUNK", 16)
            parts = pair_features(replace(graph, features=rows), "structure")
        assert torch.allclose(whole, parts, atol=1e-6)


@pytest.mark.parametrize("state", ["pairs", "structure"])
def test_a_dense_copy_of_sparse_rows_gives_identical_inner_products(monkeypatch, state):
    graph = random_graph(4, nodes=40, links=200, features=9)
    features = SparseRows.from_scipy(sp.csr_matrix(graph.features.clamp(min=0.0).numpy()))
    graph = replace(graph, features=features)
    assert matching.side_of(features).dense is not None
    in_full = pair_features(graph, state)
    monkeypatch.setattr(matching, "MOST_LAID_OUT", 40 * 9 - 1)
    assert matching.side_of(features).dense is None
    assert torch.equal(pair_features(graph, state), in_full)


@pytest.mark.parametrize("hub", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_compiled_loops_give_identical_inner_products(monkeypatch, hub, directed):
    pytest.importorskip("numba", reason="numba is not installed")
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(300, (2, 900), generator=generator)
    if hub:
        links = torch.cat([links, torch.stack([torch.arange(1, 300), torch.zeros(299).long()])], dim=1)
    features = torch.randn(300, 40, generator=generator) * (torch.rand(300, 40, generator=generator) < 0.2)
    graph = Graph.build(links, to_sparse(features), directed=directed)
    graph = replace(graph, neighbour=graph.neighbour.int())  # as a store holds them
    plain = pair_features(graph, "structure")
    monkeypatch.setattr(matching, "LEAST_IN_LOOPS", 1)
    monkeypatch.setattr(matching, "matches", None)
    monkeypatch.setattr(matching, "_shorter_rows", None)
    assert torch.equal(pair_features(graph, "structure"), plain)


@pytest.mark.parametrize("state", ["neighbourhood", "trust"])
def test_learned_columns_follow_those_of_the_graph_and_are_zero_at_first(state):
    names, known = PAIR_NAMES[state], len(PAIR_NAMES["structure"])
    found = pair_features(TRIANGLE, state)
    assert found.shape == (TRIANGLE.num_edges, len(names))
    assert names[:known] == PAIR_NAMES["structure"]
    assert torch.equal(found[:, :known], pair_features(TRIANGLE, "structure"))
    assert bool((found[:, known:] == 0.0).all())


# --- on a GPU ---


@pytest.mark.slow
@pytest.mark.parametrize(("directed", "features"), [(False, 130), (True, 4)])
def test_the_kernel_computes_the_same_products_as_the_reference(directed, features):
    pytest.importorskip("triton", reason="Triton is not installed")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(0)
    hub = torch.stack([torch.arange(1, 36), torch.zeros(35, dtype=torch.long)])
    links = torch.cat([hub, torch.randint(40, (2, 60), generator=generator)], dim=1)
    graph = Graph.build(links, torch.randn(40, features, generator=generator), directed=directed)
    graph = replace(graph, neighbour=graph.neighbour.int())  # as a store holds them
    tables = pairs.pair_tables(graph, "structure").to(device)
    assert int(graph.degree.max()) > 32
    for first, last in ((0, 40), (7, 12)):
        plain = pairs.products(tables, *tables.ends_of(first, last))
        for one, other in zip(pairs.products_on_gpu(tables, first, last), plain, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_gpu_prepares_a_graph_as_the_host_does(sparse):
    graph = random_graph(5, nodes=60, links=200, features=9)
    if sparse:
        rows = SparseRows.from_scipy(sp.csr_matrix(graph.features.clamp(min=0.0).numpy()))
        graph = replace(graph, features=rows)
    host, there = (prepare(graph, Config(), torch.device(name)) for name in ("cpu", "cuda"))
    assert there.pairs.is_cuda
    torch.testing.assert_close(there.pairs.cpu(), host.pairs)
    assert torch.equal(there.reverse_edge.cpu(), host.reverse_edge)
    rows = host.neighbourhood
    neighbourhood = rows if isinstance(rows, torch.Tensor) else torch.from_numpy(rows.to_scipy().toarray())
    torch.testing.assert_close(there.neighbourhood.cpu(), neighbourhood)


def test_sums_over_neighbours_of_dense_rows_are_those_of_sparse_rows():
    graph = random_graph(3, nodes=30, links=80)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0))
    links = (graph.row_ptr, graph.neighbour)
    sparse = to_sparse(graph.features)
    torch.testing.assert_close(
        neighbour_sums.add_rows(graph.features, *links), to_dense(neighbour_sums.add_rows(sparse, *links))
    )
    mixed = neighbour_sums.mix_rows(graph.features, *links, weight)
    torch.testing.assert_close(mixed, to_dense(neighbour_sums.mix_rows(sparse, *links, weight)))


@pytest.mark.parametrize("hub", [False, True])
def test_compiled_loops_give_identical_means_and_sums_over_neighbours(monkeypatch, hub):
    pytest.importorskip("numba", reason="numba is not installed")
    generator = torch.Generator().manual_seed(1)
    links = torch.randint(200, (2, 700), generator=generator)
    if hub:
        links = torch.cat([links, torch.stack([torch.arange(1, 200), torch.zeros(199).long()])], dim=1)
    features = torch.randn(200, 60, generator=generator) * (torch.rand(200, 60, generator=generator) < 0.05)
    features[3] = -features[5]  # values that may add up to zero
    graph = Graph.build(links, to_sparse(features))
    weight = torch.rand(graph.num_edges, generator=generator)
    given = (graph.features, graph.row_ptr, graph.neighbour.long(), weight)
    plain = neighbour_sums.mix_rows(*given), neighbour_sums.add_rows(*given[:3])
    monkeypatch.setattr(matching, "LEAST_IN_LOOPS", 1)
    monkeypatch.setattr(neighbour_sums, "_EDGES_OF_SPARSE", 100)
    monkeypatch.setattr(neighbour_sums, "to_numpy", None)  # nothing goes to scipy
    found = neighbour_sums.mix_rows(*given), neighbour_sums.add_rows(*given[:3])
    for one, other in zip(found, plain, strict=True):
        assert isinstance(one, SparseRows)
        for name in ("row_ptr", "column", "value"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_means_of_sparse_rows_are_computed_for_a_few_edges_at_a_time(monkeypatch):
    sizes, plain = [], neighbour_sums._matrix

    def counted(row_ptr, neighbour, *rest):
        sizes.append(neighbour.numel())
        return plain(row_ptr, neighbour, *rest)

    graph = random_graph(3, nodes=60, links=200, features=8)
    graph = replace(graph, features=to_sparse(graph.features.clamp(min=0.0)))
    given = (graph.features, graph.row_ptr, graph.neighbour, torch.ones(graph.num_edges))
    whole = neighbour_sums.mix_rows(*given)
    monkeypatch.setattr(neighbour_sums, "_matrix", counted)
    monkeypatch.setattr(neighbour_sums, "_EDGES_OF_SPARSE", 50)
    parts = neighbour_sums.mix_rows(*given)
    assert max(sizes) <= 50
    assert sum(sizes) == graph.num_edges
    assert torch.equal(to_dense(parts), to_dense(whole))
