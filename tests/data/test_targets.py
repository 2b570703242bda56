"""Numbers to predict: read, kept, written and split; numbers as classes are refused."""

import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.data.io.npz import read_npz, write_npz
from gdpnet.data.io.store import open_store, write_store
from gdpnet.data.labels import as_targets, check_classes
from gdpnet.data.splits import with_split
from gdpnet.errors import GraphError

EDGES = [[0, 1, 2], [1, 2, 3]]


def numbered() -> Graph:
    """Return a graph of four nodes, one of them without a number."""
    return Graph.build(EDGES, torch.eye(4), targets=[0.5, 2.0, float("nan"), -1.25])


def values(graph: Graph) -> list[float]:
    """Return the numbers of a graph, 99 if unknown."""
    assert graph.targets is not None
    return graph.targets.nan_to_num(99.0).tolist()


def test_numbers_are_known_or_not_and_stay_with_their_nodes():
    graph = numbered()
    assert graph.labelled.tolist() == [True, True, False, True]
    assert values(graph.induced(torch.tensor([1, 3]))) == [2.0, -1.25]
    assert values(graph.keep_edges(torch.zeros(graph.num_edges, dtype=torch.bool))) == values(graph)


@pytest.mark.parametrize(
    ("targets", "labels", "sentence"),
    [
        ([1.0], None, r"there must be one target per node \(4\), found an array of shape \(1,\)"),
        (
            [1.0, 2.0, 3.0, float("inf")],
            None,
            "targets must be finite numbers, or NaN for unknown, found infinity",
        ),
        (
            [1.0] * 4,
            [0, 1, 0, 1],
            r"a graph must have class labels or numbers to predict \(targets\), found both",
        ),
    ],
)
def test_bad_numbers_are_refused(targets, labels, sentence):
    with pytest.raises(GraphError, match=f"^{sentence}$"):
        Graph.build(EDGES, torch.eye(4), labels, targets=targets)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_tables_keep_numbers(tmp_path, format):
    write_tables(numbered(), tmp_path, format)
    assert values(read_graph(tmp_path, task="regression")) == values(numbered())


def test_npz_files_and_stores_keep_numbers(tmp_path):
    write_npz(numbered(), tmp_path / "graph.npz")
    write_store(numbered(), tmp_path / "store")
    for back in (read_npz(tmp_path / "graph.npz"), open_store(tmp_path / "store")):
        assert values(back) == values(numbered())
        assert fingerprint(back) == fingerprint(numbered())


def test_a_label_that_is_no_number_is_refused_for_regression(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,label,f\na,1.5,1\nb,high,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    sentence = f"column 'label' of {tmp_path / 'nodes.csv'} must hold numbers, found 'high' in row 2"
    with pytest.raises(GraphError, match=f"^{sentence}$"):
        read_graph(tmp_path, task="regression")


def test_class_names_that_are_numbers_become_numbers():
    graph = Graph.build(EDGES, torch.eye(4), [1, 0, -1, 1], class_names=["2.5", "10"])
    assert values(as_targets(graph)) == [10.0, 2.5, 99.0, 10.0]
    named = Graph.build(EDGES, torch.eye(4), [1, 0, -1, 1], class_names=["low", "high"])
    with pytest.raises(GraphError, match="needs numbers as labels, found classes such as 'high'"):
        as_targets(named)


def classes(names: list[str]) -> Graph:
    """Return a graph with one node per class."""
    return Graph.build([[0], [1]], torch.ones(len(names), 1), list(range(len(names))), class_names=names)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["1", "2.5"], "labels are fractions such as 2.5"),
        ([str(number) for number in range(60)], "labels are 60 different numbers, of which most occur once"),
    ],
    ids=["fractions", "many numbers"],
)
def test_numbers_as_classes_are_refused_with_the_task_that_helps(names, found):
    with pytest.raises(GraphError, match=f"^{found}: use --task regression"):
        check_classes(classes(names))


@pytest.mark.parametrize("names", [["1", "2.0"], ["red", "2.5"], [f"user {n}" for n in range(60)]])
def test_names_and_whole_numbers_are_classes(names):
    check_classes(classes(names))


def test_numbers_cannot_be_learned_as_classes():
    with pytest.raises(GraphError, match=r"^the graph has numbers to predict: use --task regression"):
        check_classes(numbered())


def test_a_split_of_numbers_has_low_and_high_ones_in_every_part():
    graph = with_split(Graph.build([[0], [1]], torch.ones(100, 1), targets=torch.arange(100.0)))
    assert graph.split.bincount().tolist() == [0, 60, 20, 20]
    for code in (1, 2, 3):
        part = graph.targets[graph.split == code]
        assert part.min() < 10.0
        assert part.max() >= 90.0
