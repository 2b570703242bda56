"""Noise has the requested amount and place, changes nothing else, and depends on its seed alone."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gdpnet.data.features import SparseRows, to_dense
from gdpnet.data.graph import Graph, Truth
from gdpnet.data.noise import nodes as noise_values
from gdpnet.data.noise.registry import MULTIPLES, NOISES, corrupt, corrupt_all
from gdpnet.data.sampling import distinct, untaken
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GraphError
from helpers.graphs import assert_same, edges_of, small_graph

LINK_KINDS = ("random-links", "cross-class-links", "similar-links", "deleted-links", "rewired-links")
FEATURE_KINDS = ("masked-features", "swapped-features", "gaussian-features", "flipped-bits")
LABEL_KINDS = ("flipped-labels", "pair-labels", "hidden-labels")
SEEDS = st.integers(0, 2**32 - 1)
RATES = st.sampled_from([0.05, 0.2, 0.5, 0.8, 1.0])


def make_graph(
    seed: int, *, nodes: int = 40, links: int = 60, sparse: bool = False, directed: bool = False
) -> Graph:
    """Return a graph with 0/1 features, three classes of which some are unknown, all splits and weights."""
    rng = np.random.default_rng(seed)
    features = (rng.random((nodes, 12)) < 0.3).astype(np.float32)
    graph = Graph.build(
        rng.integers(nodes, size=(2, links)),
        sp.csr_matrix(features) if sparse else features,
        np.where(rng.random(nodes) < 0.1, -1, np.arange(nodes) % 3),
        split=np.arange(nodes) // 2 % 4,
        node_ids=[f"n{number}" for number in range(nodes)],
        class_names=["a", "b", "c"],
        directed=directed,
    )
    return replace(graph, edge_weight=torch.from_numpy(rng.random(graph.num_edges).astype(np.float32)))


GRAPHS = st.fixed_dictionaries({"seed": SEEDS, "sparse": st.booleans(), "directed": st.booleans()})
"""Arguments of `make_graph`."""


def links_of(graph: Graph) -> set[tuple[int, int]]:
    """Return the links: one-way edges of a directed graph, otherwise each pair once."""
    edges = edges_of(graph)
    return edges if is_directed(graph) else {edge for edge in edges if edge[0] < edge[1]}


def is_directed(graph: Graph) -> bool:
    edges = edges_of(graph)
    return any((right, left) not in edges for left, right in edges)


def pairs(links: torch.Tensor) -> set[tuple[int, int]]:
    found = {(left, right) for left, right in links.T.tolist()}
    assert len(found) == links.shape[1]
    return found


def symmetrise(links: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return links | {(right, left) for left, right in links}


def dense(graph: Graph) -> np.ndarray:
    return to_dense(graph.features).numpy()


def assert_well_formed(graph: Graph) -> None:
    """Check what `Graph.build` would: sorted rows, no loops, no duplicates, one weight per edge."""
    key = graph.target * graph.num_nodes + graph.neighbour
    assert bool((key.diff() > 0).all())
    assert not bool((graph.target == graph.neighbour).any())
    assert graph.edge_weight is None or graph.edge_weight.shape == graph.neighbour.shape


def assert_same_but(found: Graph, expected: Graph, *changed: str) -> None:
    """Compare all fields but the changed ones and the truth."""
    same = {part: getattr(expected, part) for part in (*changed, "truth")}
    assert_same(replace(found, **same), expected)


# --- sampling without replacement ---


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=1, max_size=8), SEEDS)
def test_distinct_numbers_have_the_requested_count_and_are_below_the_size(rows, seed):
    size = np.array([number for number, _ in rows])
    count = np.array([round(number * share) for number, share in rows])
    owner, value = distinct(np.random.default_rng(seed), size, count)
    assert np.bincount(owner, minlength=size.size).tolist() == count.tolist()
    assert len(set(zip(owner.tolist(), value.tolist(), strict=True))) == count.sum()
    assert bool(((value >= 0) & (value < size[owner])).all())


@pytest.mark.parametrize("count", [2, 4], ids=["by rejection", "by order"])
def test_every_set_of_distinct_numbers_is_equally_likely(count):
    rng = np.random.default_rng(0)
    rows = 15_000
    _, value = distinct(rng, np.full(rows, 6), np.full(rows, count))
    sets = Counter(map(tuple, value.reshape(rows, count).tolist()))
    assert len(sets) == 15  # the binomial coefficients 6 over 2 and 6 over 4
    assert max(abs(times - 1000) for times in sets.values()) < 150  # about five standard deviations


def test_untaken_numbers_are_counted_past_the_taken_ones():
    # row 0 has 0, 2, 3 taken of 6: free are 1, 4, 5; row 1 nothing; row 2 has 1 taken
    owner, rank = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 5, 0, 1])
    found = untaken(owner, rank, np.array([0, 3, 3, 4]), np.array([0, 2, 3, 1]), 6)
    assert found.tolist() == [1, 4, 5, 0, 5, 0, 2]


# --- links ---


@settings(max_examples=40, deadline=None)
@given(
    GRAPHS,
    st.sampled_from(["random-links", "cross-class-links", "similar-links"]),
    st.sampled_from([0.1, 1.0, 2.5]),
    SEEDS,
)
def test_links_are_added_exactly_between_non_adjacent_pairs(made, kind, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, kind, rate, seed)
    added, before = pairs(noisy.added), edges_of(graph)
    assert len(added) == round(rate * len(links_of(graph)))
    assert not symmetrise(added) & symmetrise(before)
    assert edges_of(noisy.graph) == before | (added if is_directed(graph) else symmetrise(added))
    if not is_directed(graph):
        assert all(left < right for left, right in added)
    if kind != "random-links":
        assert all(
            graph.labels[left] != graph.labels[right] and min(graph.labels[[left, right]]) >= 0
            for left, right in added
        )
    assert noisy.removed.numel() == noisy.features_of.numel() == noisy.labels_of.numel() == 0


@settings(max_examples=40, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_links_are_deleted_exactly(made, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, "deleted-links", rate, seed)
    removed = pairs(noisy.removed)
    assert len(removed) == round(rate * len(links_of(graph)))
    gone = removed if is_directed(graph) else symmetrise(removed)
    assert edges_of(noisy.graph) == edges_of(graph) - gone
    assert gone <= edges_of(graph)
    assert noisy.added.numel() == 0
    assert not bool(noisy.graph.truth.spurious.any())


@settings(max_examples=40, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_rewiring_replaces_the_requested_share_of_links_and_keeps_all_degrees(made, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, "rewired-links", rate, seed)
    added, removed, links = pairs(noisy.added), pairs(noisy.removed), links_of(graph)
    assert len(added) == len(removed) == round(rate * len(links))
    assert removed <= links
    assert not added & links
    assert torch.equal(noisy.graph.degree, graph.degree)
    out_degree = [torch.bincount(one.neighbour, minlength=40) for one in (graph, noisy.graph)]
    assert torch.equal(*out_degree)


def test_a_request_to_rewire_one_link_rewires_two():
    square = Graph.build([[0, 2], [1, 3]], np.eye(4))
    noisy = corrupt(square, "rewired-links", 0.4, 0)  # 0.8 links, that is one
    assert pairs(noisy.removed) == {(0, 1), (2, 3)}
    assert pairs(noisy.added) in ({(0, 2), (1, 3)}, {(0, 3), (1, 2)})


def test_new_links_get_weights_of_old_ones_and_old_weights_stay():
    graph = make_graph(1)
    noisy = corrupt(graph, "random-links", 1.0, 0).graph
    old = {edge: float(weight) for edge, weight in zip(sorted_edges(graph), graph.edge_weight, strict=True)}
    new = {edge: float(weight) for edge, weight in zip(sorted_edges(noisy), noisy.edge_weight, strict=True)}
    assert {edge: new[edge] for edge in old} == old
    assert set(new.values()) <= set(old.values())
    assert all(new[left, right] == new[right, left] for left, right in new.keys() - old.keys())


def sorted_edges(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.neighbour.tolist(), graph.target.tolist(), strict=True))


def test_every_non_adjacent_pair_is_equally_likely():
    graph = Graph.build([[0, 1], [1, 2]], np.eye(5))
    sampled = Counter(
        tuple(corrupt(graph, "random-links", 0.5, seed).added[:, 0].tolist()) for seed in range(320)
    )
    assert len(sampled) == 8  # ten pairs, two of them linked
    assert max(abs(times - 40) for times in sampled.values()) < 30  # five standard deviations


def test_new_edges_of_a_directed_graph_have_random_directions():
    graph = make_graph(0, nodes=200, links=400, directed=True)
    added = corrupt(graph, "random-links", 1.0, 0).added
    up = int((added[0] < added[1]).sum())
    assert abs(up - added.shape[1] / 2) < 60  # six standard deviations


@pytest.mark.parametrize("kind", ["cross-class-links", "similar-links"])
def test_links_between_classes_use_true_classes_if_they_are_known(kind):
    graph = make_graph(3)
    true = torch.arange(40) % 3
    known = replace(
        graph, truth=Truth(torch.zeros(graph.num_edges, dtype=torch.bool), torch.zeros(40).bool(), true)
    )
    left, right = corrupt(known, kind, 1.0, 0).added
    assert bool((true[left] != true[right]).all())
    assert bool((graph.labels[torch.cat([left, right])] < 0).any())  # an unknown label, but a known class


def test_links_can_be_added_until_all_nodes_are_adjacent():
    graph = Graph.build([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]], np.eye(5))  # a ring: 5 of 10 pairs
    noisy = corrupt(graph, "random-links", 1.0, 0)
    assert noisy.graph.num_edges == 20


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_similar_link_joins_a_node_and_the_most_similar_one_of_another_class(sparse):
    # classes 0 and 1 take turns; nodes 2k and 2k + 1 have the same two features, all others share none
    nodes = 12
    features = np.repeat(np.eye(nodes // 2, dtype=np.float32), 2, axis=0)
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 2) % nodes])  # joins nodes of one class
    graph = Graph.build(ring, sp.csr_matrix(features) if sparse else features, np.arange(nodes) % 2)
    twins = {(2 * k, 2 * k + 1) for k in range(nodes // 2)}
    found = [pairs(corrupt(graph, "similar-links", 1 / nodes, seed).added) for seed in range(20)]
    assert all(len(added) == 1 and added < twins for added in found)
    assert len(set().union(*found)) > 1


def test_similar_links_are_more_alike_than_other_links_between_classes():
    graph = make_graph(5, nodes=300, links=300, sparse=True)
    rows = torch.nn.functional.normalize(torch.from_numpy(dense(graph)))
    similar, random = (
        (rows[added[0]] * rows[added[1]]).sum(dim=1).mean()
        for added in (corrupt(graph, kind, 1.0, 0).added for kind in ("similar-links", "cross-class-links"))
    )
    assert similar > random + 0.3


def test_similar_links_are_found_until_no_pair_of_classes_is_free():
    graph = Graph.build(
        [[0, 1, 2, 0, 4], [1, 2, 3, 3, 5]], np.eye(6), [0, 0, 0, 0, 1, 1]
    )  # 8 pairs, all free
    noisy = corrupt(graph, "similar-links", 8 / 5, 0)
    assert pairs(noisy.added) == {(left, right) for left in range(4) for right in (4, 5)}


# --- features ---


@settings(max_examples=30, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_masked_rows_are_zero_and_the_others_unchanged(made, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, "masked-features", rate, seed)
    before, after = dense(graph), dense(noisy.graph)
    changed = np.zeros(40, dtype=bool)
    changed[noisy.features_of] = True
    assert not after[changed].any()
    assert (after[~changed] == before[~changed]).all()
    empty = int((~before.any(axis=1)).sum())  # an empty row that is masked does not change
    assert round(rate * 40) - empty <= changed.sum() <= round(rate * 40)


@settings(max_examples=30, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_swapped_rows_are_rows_of_other_nodes(made, rate, seed):
    graph = make_graph(**made)
    graph = replace(graph, features=torch.arange(40.0)[:, None])  # every row identifies its node
    noisy = corrupt(graph, "swapped-features", rate, seed)
    changed = (noisy.graph.features != graph.features).flatten().nonzero().flatten()
    assert torch.equal(changed, noisy.features_of)
    assert changed.numel() == round(rate * 40)
    assert set(noisy.graph.features.flatten().tolist()) <= set(range(40))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_gaussian_noise_has_the_requested_standard_deviation(sparse):
    graph = make_graph(0, nodes=500, sparse=sparse)
    noisy = corrupt(graph, "gaussian-features", 2.0, 0)
    noise = dense(noisy.graph) - dense(graph)
    assert isinstance(noisy.graph.features, torch.Tensor)
    assert noise.std() == pytest.approx(2.0 * dense(graph).std(), rel=0.04)
    assert noise.mean() == pytest.approx(0.0, abs=0.05)
    assert noisy.features_of.tolist() == list(range(500))
    assert bool(noisy.graph.truth.corrupted.all())


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.booleans(), st.sampled_from([0.1, 0.25, 0.5]), SEEDS)
def test_flipped_bits_keep_the_number_of_ones_and_flip_that_share_of_them(graph_seed, sparse, rate, seed):
    graph = make_graph(graph_seed, sparse=sparse)
    before = dense(graph)
    ones = before.sum(axis=1)
    assume((np.rint(rate * ones) <= 12 - ones).all())
    noisy = corrupt(graph, "flipped-bits", rate, seed)
    after = dense(noisy.graph)
    assert set(np.unique(after)) <= {0.0, 1.0}
    assert (((before == 1) & (after == 0)).sum(axis=1) == np.rint(rate * ones)).all()
    assert (after.sum(axis=1) == ones).all()
    assert noisy.features_of.tolist() == np.flatnonzero((before != after).any(axis=1)).tolist()


def test_flipped_bits_move_values_that_are_not_one():
    graph = Graph.build([[0], [1]], [[0.5, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0]])
    found = [dense(corrupt(graph, "flipped-bits", 1.0, seed).graph) for seed in range(20)]
    assert {tuple(after[0].tolist()) for after in found} == {(0.0, 0.5, 0.0, 2.0), (0.0, 2.0, 0.0, 0.5)}
    assert all(after[1, 1] == 0.0 and sorted(after[1].tolist()) == [0.0, 0.0, 0.0, 3.0] for after in found)


@pytest.mark.parametrize("kind", ["masked-features", "swapped-features", "flipped-bits"])
def test_sparse_features_stay_sparse_and_change_as_dense_ones_do(kind):
    found = [corrupt(make_graph(5, sparse=sparse), kind, 0.3, 7).graph for sparse in (False, True)]
    assert isinstance(found[1].features, SparseRows)
    assert (dense(found[0]) == dense(found[1])).all()


# --- labels ---


@settings(max_examples=30, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_flipped_labels_are_other_known_classes_of_training_nodes(made, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, "flipped-labels", rate, seed)
    train = graph.nodes_in("train")
    known = train[graph.labels[train] >= 0]
    changed = (noisy.graph.labels != graph.labels).nonzero().flatten()
    assert torch.equal(changed, noisy.labels_of)
    assert changed.numel() == round(rate * known.numel())
    assert set(changed.tolist()) <= set(known.tolist())
    assert set(noisy.graph.labels[changed].tolist()) <= {0, 1, 2}


def test_flipped_labels_become_each_other_class_equally_often():
    graph = Graph.build([[0], [1]], np.ones((3000, 1)), np.arange(3000) % 3, split=np.ones(3000, dtype=int))
    after = corrupt(graph, "flipped-labels", 1.0, 0).graph.labels
    step = torch.bincount((after - graph.labels) % 3, minlength=3)
    assert int(step[0]) == 0
    assert abs(int(step[1]) - 1500) < 140  # five standard deviations


@settings(max_examples=30, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_paired_labels_are_the_next_class_for_a_share_of_each(made, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, "pair-labels", rate, seed)
    train = graph.nodes_in("train")
    for label in range(3):
        before = train[graph.labels[train] == label]
        after = noisy.graph.labels[before]
        assert set(after.tolist()) <= {label, (label + 1) % 3}
        assert int((after != label).sum()) == np.rint(rate * before.numel())
    assert set(noisy.labels_of.tolist()) <= set(train.tolist())


# --- all kinds ---


@settings(max_examples=60, deadline=None)
@given(GRAPHS, st.sampled_from(list(NOISES)), SEEDS)
def test_nothing_else_changes_and_the_truth_marks_the_changes(made, kind, seed):
    graph = make_graph(**made)
    rate = 0.2
    noisy = corrupt(graph, kind, rate, seed)
    assert_well_formed(noisy.graph)
    if kind in LINK_KINDS:
        assert_same_but(noisy.graph, graph, "row_ptr", "neighbour", "edge_weight")
    else:
        assert_same_but(noisy.graph, graph, "features" if kind in FEATURE_KINDS else "labels")
    truth, added = noisy.graph.truth, pairs(noisy.added)
    marked = {edge for edge, bad in zip(sorted_edges(noisy.graph), truth.spurious, strict=True) if bad}
    assert marked == (added if is_directed(graph) else symmetrise(added))
    assert truth.corrupted.nonzero().flatten().tolist() == noisy.features_of.tolist()
    assert torch.equal(truth.clean_labels, graph.labels)


@pytest.mark.parametrize("kind", NOISES)
def test_one_seed_makes_one_graph_and_another_seed_another(kind):
    graph = make_graph(0)
    first, again, other = (corrupt(graph, kind, 0.2, seed).graph for seed in (1, 1, 2))
    assert_same(first, again)
    with pytest.raises((AssertionError, RuntimeError)):
        assert_same(first, other)


@pytest.mark.parametrize("kind", NOISES)
def test_rate_zero_changes_nothing_and_marks_nothing(kind):
    graph = small_graph()
    noisy = corrupt(graph, kind, 0.0, 0)
    assert_same_but(noisy.graph, graph)
    assert not bool(noisy.graph.truth.spurious.any() | noisy.graph.truth.corrupted.any())
    assert torch.equal(noisy.graph.truth.clean_labels, graph.labels)
    assert noisy.added.shape == noisy.removed.shape == (2, 0)


@pytest.mark.parametrize("kind", ["masked-features", "swapped-features", "deleted-links", "flipped-labels"])
def test_a_larger_share_contains_a_smaller_one(kind):
    graph = replace(make_graph(0), features=torch.arange(1.0, 41.0)[:, None])
    less, more = (corrupt(graph, kind, rate, 3) for rate in (0.2, 0.5))
    assert pairs(less.removed) <= pairs(more.removed)
    assert set(less.features_of.tolist()) <= set(more.features_of.tolist())
    assert set(less.labels_of.tolist()) <= set(more.labels_of.tolist())


# --- several kinds in order ---


@settings(max_examples=40, deadline=None)
@given(GRAPHS, st.lists(st.sampled_from(list(NOISES)), min_size=2, max_size=5), SEEDS)
def test_noises_compose_and_the_truth_is_that_of_the_first_graph(made, kinds, seed):
    graph = make_graph(**made)
    # noise that made real features of 0/1 ones leaves no zeros to flip
    assume("flipped-bits" not in kinds or "gaussian-features" not in kinds)
    noisy = corrupt_all(graph, [(kind, 0.15) for kind in kinds], seed)
    before, after = edges_of(graph), edges_of(noisy.graph)
    one_way = is_directed(graph)
    assert (pairs(noisy.added) if one_way else symmetrise(pairs(noisy.added))) == after - before
    assert (pairs(noisy.removed) if one_way else symmetrise(pairs(noisy.removed))) == before - after
    truth = noisy.graph.truth
    assert {
        edge for edge, bad in zip(sorted_edges(noisy.graph), truth.spurious, strict=True) if bad
    } == after - before
    changed = (dense(graph) != dense(noisy.graph)).any(axis=1)
    assert truth.corrupted.numpy().tolist() == changed.tolist()
    assert noisy.features_of.tolist() == np.flatnonzero(changed).tolist()
    assert noisy.labels_of.tolist() == (graph.labels != noisy.graph.labels).nonzero().flatten().tolist()
    assert torch.equal(truth.clean_labels, graph.labels)
    assert_well_formed(noisy.graph)
    assert_same(noisy.graph, corrupt_all(graph, [(kind, 0.15) for kind in kinds], seed).graph)


def test_a_single_step_is_that_noise_and_repeated_steps_use_new_seeds():
    graph = make_graph(0)
    assert_same(
        corrupt_all(graph, [("deleted-links", 0.3)], 5).graph, corrupt(graph, "deleted-links", 0.3, 5).graph
    )
    twice = corrupt_all(graph, [("random-links", 0.5), ("random-links", 0.5)], 5)
    links = len(links_of(graph))
    assert twice.added.shape[1] == round(0.5 * links) + round(0.5 * (links + round(0.5 * links)))
    graph = replace(graph, features=torch.ones(40, 1))
    once, twice = (corrupt_all(graph, [("masked-features", 0.5)] * times, 5) for times in (1, 2))
    assert twice.features_of.numel() > once.features_of.numel() == 20


def test_a_link_that_is_removed_and_added_again_is_not_a_change():
    graph = Graph.build([[0, 1], [1, 2]], np.eye(3))
    # one of two links goes, then two come: all three pairs are linked
    noisy = corrupt_all(graph, [("deleted-links", 0.5), ("random-links", 2.0)], 0)
    assert noisy.graph.num_edges == 6
    assert pairs(noisy.added) == {(0, 2)}
    assert noisy.removed.numel() == 0
    marked = [
        edge for edge, bad in zip(sorted_edges(noisy.graph), noisy.graph.truth.spurious, strict=True) if bad
    ]
    assert sorted(marked) == [(0, 2), (2, 0)]


def test_noise_that_was_known_before_stays_known():
    graph = make_graph(2)
    noise = corrupt_all(graph, [("random-links", 0.5), ("masked-features", 0.2), ("flipped-labels", 0.5)], 0)
    further = corrupt_all(
        noise.graph, [("random-links", 0.2), ("swapped-features", 0.2), ("pair-labels", 0.5)], 1
    )
    truth = further.graph.truth
    expected = symmetrise(pairs(noise.added) | pairs(further.added))
    assert {
        edge for edge, bad in zip(sorted_edges(further.graph), truth.spurious, strict=True) if bad
    } == expected
    assert not pairs(noise.added) & pairs(further.added)
    nodes = set(noise.features_of.tolist()) | set(further.features_of.tolist())
    assert set(truth.corrupted.nonzero().flatten().tolist()) == nodes
    assert torch.equal(truth.clean_labels, graph.labels)


# --- bad input ---


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf")])
def test_a_rate_must_be_a_number_from_zero(kind, rate):
    with pytest.raises(GraphError, match=f"^the rate of {kind} must be a number from 0, found {rate:g}$"):
        corrupt(small_graph(), kind, rate, 0)


@pytest.mark.parametrize("kind", [kind for kind in NOISES if kind not in MULTIPLES])
def test_a_share_is_at_most_one(kind):
    with pytest.raises(
        GraphError, match=f"^the rate of {kind} is a share and must lie between 0 and 1, found 1.5$"
    ):
        corrupt(small_graph(), kind, 1.5, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda kind: corrupt(small_graph(), kind, 0.1, 0),
        lambda kind: corrupt_all(small_graph(), [(kind, 0.1)], 0),
    ],
)
def test_an_unknown_kind_is_refused_with_the_nearest_one(call):
    with pytest.raises(
        GraphError, match=r"^there is no noise 'random-edges'; did you mean 'random-links'\?$"
    ):
        call("random-edges")


@pytest.mark.parametrize(
    ("kind", "rate", "sentence"),
    [
        # four nodes have six pairs, three are linked
        ("random-links", 2.0, "random-links=2 asks for 6 new links, but only 3 pairs of nodes are unlinked"),
        # n1 and say "x" are dogs, 007 is a cat and linked to both
        (
            "cross-class-links",
            1.0,
            "cross-class-links=1 asks for 3 new links, but only 0 pairs of nodes of different known classes "
            "are unlinked",
        ),
        (
            "similar-links",
            1.0,
            "similar-links=1 asks for 3 new links, but only 0 pairs of nodes of different known classes "
            "are unlinked",
        ),
        # a triangle has no two links without a common node
        (
            "rewired-links",
            1.0,
            "rewired-links=1 must swap the ends of 3 of 3 links, found swaps for 0; lower the rate",
        ),
        (
            "flipped-bits",
            1.0,
            "flipped-bits=1 clears 2 features of node 'say \"x\"' and needs as many that are zero, found 1",
        ),
    ],
)
def test_a_rate_that_cannot_be_reached_is_refused(kind, rate, sentence):
    with pytest.raises(GraphError) as refusal:
        corrupt(small_graph(), kind, rate, 0)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_labels_are_flipped_only_where_training_nodes_have_some(kind):
    graph = Graph.build([[0], [1]], np.eye(2), [0, 1])
    sentence = (
        f"{kind} needs labelled training nodes and two classes or more, found 0 such nodes and 2 classes"
    )
    with pytest.raises(GraphError, match=f"^{sentence}$"):
        corrupt(graph, kind, 0.5, 0)


def test_features_of_a_single_node_cannot_be_swapped():
    with pytest.raises(GraphError, match=r"^swapped-features needs two nodes or more, found one$"):
        corrupt(Graph.build([[], []], [[1.0]]), "swapped-features", 1.0, 0)


def test_sparse_features_that_would_be_too_large_are_not_made_dense(monkeypatch):
    monkeypatch.setattr(noise_values, "LARGEST_DENSE", 11)
    with pytest.raises(GraphError, match=r"4 nodes times 3 features are more than 11 numbers$"):
        corrupt(small_graph(sparse=True), "gaussian-features", 0.1, 0)
    corrupt(small_graph(), "gaussian-features", 0.1, 0)


@pytest.mark.parametrize("kind", ["random-links", "deleted-links", "rewired-links"])
def test_a_graph_without_links_has_none_to_change(kind):
    graph = Graph.build([[], []], np.eye(3))
    assert corrupt(graph, kind, 1.0, 0).graph.num_edges == 0


@settings(max_examples=30, deadline=None)
@given(GRAPHS, RATES, SEEDS)
def test_hidden_labels_are_a_share_of_each_class_and_one_of_each_stays(made, rate, seed):
    graph = make_graph(**made)
    noisy = corrupt(graph, "hidden-labels", rate, seed)
    train = graph.nodes_in("train")
    for number in range(3):
        mine = train[graph.labels[train] == number]
        hidden = int((noisy.graph.labels[mine] == UNKNOWN).sum())
        assert hidden == min(np.rint(rate * mine.numel()), max(mine.numel() - 1, 0))
    changed = (noisy.graph.labels != graph.labels).nonzero().flatten()
    assert torch.equal(changed, noisy.labels_of)
    assert set(changed.tolist()) <= set(train.tolist())
    assert torch.equal(noisy.graph.truth.clean_labels, graph.labels)
