"""Stores: written whole, opened as the same graph, and refused if an array does not fit."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet.cli import main
from gdpnet.data.graph import Graph
from gdpnet.data.io import store, store_checks
from gdpnet.data.io.files import read_graph
from gdpnet.data.io.store import index_type, open_store, write_store
from gdpnet.errors import GDPNetError, GraphError
from helpers.graphs import assert_same, small_graph
from helpers.small import fitted, noisy_graph, same_weights, write_folder


def stored(folder: Path, graph: Graph | None = None) -> Path:
    write_store(small_graph() if graph is None else graph, folder)
    return folder


def change(folder: Path, name: str, place: tuple | int, value: float) -> None:
    """Change one value of an array on disk."""
    array = np.load(folder / f"{name}.npy")
    array[place] = value
    np.save(folder / f"{name}.npy", array)


def as_stored(graph: Graph) -> Graph:
    """Return the graph as a store returns it: neighbours in 32 bits."""
    rows = graph.features
    if not isinstance(rows, torch.Tensor):
        rows = replace(rows, column=rows.column.int())
    return replace(graph, neighbour=graph.neighbour.int(), features=rows)


# --- round trips ---


@pytest.mark.parametrize("sparse", [False, True])
def test_a_store_returns_the_same_graph(sparse, tmp_path):
    graph = small_graph(sparse=sparse)
    assert_same(open_store(stored(tmp_path / "s", graph)), as_stored(graph))


def test_weights_known_noise_and_number_ids_survive_a_store(tmp_path):
    graph = noisy_graph()
    graph = replace(graph, edge_weight=torch.rand(graph.num_edges), node_ids=np.arange(80))
    found = read_graph(stored(tmp_path / "s", graph))
    assert_same(found, as_stored(graph))
    assert not (tmp_path / "s" / "node_ids.npy").exists()


def test_a_store_of_a_store_is_the_same(tmp_path):
    first = open_store(stored(tmp_path / "a", noisy_graph()))
    assert_same(open_store(stored(tmp_path / "b", first)), first)


def test_features_may_have_half_precision(tmp_path):
    graph = replace(small_graph(), features=torch.tensor([[0.5], [2.0], [0.0], [-1.0]], dtype=torch.float16))
    assert open_store(stored(tmp_path / "s", graph)).features.dtype == torch.float16


def test_edges_and_features_are_mapped_and_not_read(tmp_path):
    graph = open_store(stored(tmp_path / "s"))
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists what a process has mapped")
    found = [line.split()[-1] for line in maps.read_text().splitlines() if str(tmp_path) in line]
    assert sorted(Path(name).name for name in found) == [
        "features.npy",
        "neighbour.npy",
        "node_ids.npy",
        "row_ptr.npy",
    ]
    assert graph.num_edges == 6


def test_the_piece_size_does_not_change_the_result(tmp_path, monkeypatch):
    graph = noisy_graph()
    whole = open_store(stored(tmp_path / "a", graph))
    monkeypatch.setattr(store, "PIECE", 7)
    monkeypatch.setattr(store_checks, "PIECE", 7)
    assert_same(open_store(stored(tmp_path / "b", graph)), whole)


# --- indices over 32 bits ---


def test_node_numbers_take_32_bits_if_they_fit_and_64_otherwise():
    assert index_type(2**31) == np.int32
    assert index_type(2**31 + 1) == np.int64


def test_a_graph_with_neighbours_of_64_bits_is_read_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_FEW_BITS", 3)
    found = open_store(stored(tmp_path / "s"))
    assert found.neighbour.dtype == torch.int64
    assert_same(found, small_graph())


def test_the_reverse_of_an_edge_is_found_with_numbers_of_32_bits():
    # 70,000 squared is beyond 32 bits
    edges = [[0, 69_999, 3, 69_999], [69_999, 69_998, 69_999, 5]]
    graph = Graph.build(edges, torch.ones(70_000, 1))
    narrow = replace(graph, neighbour=graph.neighbour.int())
    assert torch.equal(narrow.reverse, graph.reverse)
    assert torch.equal(graph.neighbour[graph.reverse], graph.target)


def test_features_whose_keys_would_not_fit_64_bits_are_searched_without_keys(monkeypatch):
    rows = noisy_graph().features
    row, wanted = torch.tensor([0, 1, 5, 5]), torch.stack([*rows.column[:2], rows.column[-1], rows.column[0]])
    found = rows.find(row, wanted)
    monkeypatch.setattr("gdpnet.data.features._MOST_KEYS", 1)
    assert torch.equal(rows.find(row, wanted), found)


def test_more_nodes_than_a_key_can_name_are_refused_in_one_sentence(monkeypatch):
    assert 3_037_000_499**2 < 2**63 <= 3_037_000_500**2
    monkeypatch.setattr("gdpnet.data.validation.MOST_NODES", 3)
    with pytest.raises(GraphError, match="in memory can have at most 3 nodes, found 4: write it as a store"):
        small_graph()


# --- training ---


@pytest.mark.slow
def test_training_on_a_store_gives_the_same_model(tmp_path):
    graph = noisy_graph()
    assert same_weights(fitted(open_store(stored(tmp_path / "s", graph))), fitted(graph))


# --- bad stores ---


@pytest.mark.parametrize("piece", [1, 2, 3, 1 << 20])
@pytest.mark.parametrize(("place", "value"), [(3, 0), (2, 1), (5, 0), (0, 0)])
def test_the_first_wrong_row_is_named_wherever_pieces_begin(piece, place, value, tmp_path, monkeypatch):
    folder = stored(tmp_path / "s")
    path = folder / "neighbour.npy"
    values = np.load(path)
    values[place] = value
    np.save(path, values)
    with pytest.raises(GraphError) as expected:
        open_store(folder)
    monkeypatch.setattr(store_checks, "PIECE", piece)
    with pytest.raises(GraphError, match="must ascend") as found:
        open_store(folder)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("name", "place", "value", "sentence"),
    [
        ("neighbour", 0, 4, "array 'neighbour' must hold numbers from 0 to 3, found 0 to 4"),
        ("neighbour", 0, -1, "found -1 to 3"),
        ("neighbour", 0, 0, "without the node itself; those of node 0 do not"),
        (
            "neighbour",
            3,
            0,
            "must ascend, without repeats and without the node itself; those of node 1 do not",
        ),
        ("row_ptr", 1, 7, "array 'row_ptr' must ascend from 0 to 6"),
        ("row_ptr", 4, 5, "array 'row_ptr' must ascend from 0 to 6"),
        ("features", (1, 1), np.nan, "array 'features' must hold finite numbers"),
        ("labels", 0, 2, "labels must be -1 or below 2, found -1 to 2"),
        ("split", 0, 9, "the split must hold one code per node"),
    ],
)
def test_a_store_with_a_wrong_value_is_refused(name, place, value, sentence, tmp_path):
    folder = stored(tmp_path / "s")
    change(folder, name, place, value)
    with pytest.raises(GraphError, match="is not a usable store") as caught:
        open_store(folder)
    assert sentence in str(caught.value)


def test_a_store_with_a_missing_a_short_or_another_array_is_refused(tmp_path):
    folder = stored(tmp_path / "s")
    content = (folder / "neighbour.npy").read_bytes()
    (folder / "neighbour.npy").write_bytes(content[:-4])
    with pytest.raises(GraphError, match=r"neighbour\.npy must have 152 bytes, row by row, found 148"):
        open_store(folder)
    np.save(folder / "neighbour.npy", np.zeros(6))
    with pytest.raises(GraphError, match="must be of type <i4 and shape"):
        open_store(folder)
    (folder / "neighbour.npy").unlink()
    with pytest.raises(GraphError, match=r"it must hold neighbour.npy, found no such file"):
        open_store(folder)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"format": "x"}, "must describe a gdpnet store"),
        ({"version": 2}, "must be of version 1, found 2"),
        ({"arrays": {}}, "there must be an array 'row_ptr'"),
    ],
)
def test_another_format_or_version_is_refused(changed, sentence, tmp_path):
    folder = stored(tmp_path / "s")
    about = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(about | changed))
    with pytest.raises(GraphError, match=sentence):
        open_store(folder)


def test_a_full_disk_leaves_no_partial_store(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "ascontiguousarray", full)
    with pytest.raises(GDPNetError, match=r"cannot write .*: No space left on device"):
        write_store(small_graph(), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


# --- the commands ---


def test_the_store_command_converts_a_graph(tmp_path, capsys):
    write_folder(tmp_path / "tables")
    assert main(["store", str(tmp_path / "tables"), "--out", str(tmp_path / "s"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["edges"] == noisy_graph().num_edges
    assert_same(read_graph(tmp_path / "s"), as_stored(read_graph(tmp_path / "tables")))
    assert main(["store", str(tmp_path / "tables"), "--out", str(tmp_path / "s")]) == 2
    assert "must be a new or an empty folder" in capsys.readouterr().err
