"""The paper's datasets: counts, splits, and files that are not what they should be.

Tests of the files themselves need them: point ``GDPNET_DATA`` at the folder that holds them.
"""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet.data.datasets import citation as datasets
from gdpnet.data.datasets import known
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.known import DATASETS, check_name, data_folder, is_present
from gdpnet.data.features import SparseRows
from gdpnet.errors import DatasetError
from helpers.graphs import assert_same

SPLIT_SIZES = {
    "cora": (1208, 500, 1000),
    "citeseer": (2730, 500, 1000),
    "pubmed": (18217, 500, 1000),
    "dblp": (16216, 500, 1000),
}

needs_files = pytest.mark.skipif(
    "GDPNET_DATA" not in os.environ, reason="GDPNET_DATA does not say where the datasets are"
)


def raw_folder(name: str) -> Path:
    dataset = DATASETS[name]
    return data_folder(None) / dataset.collection / dataset.folder / "raw"


def copy_of(name: str, folder: Path) -> Path:
    """Copy a dataset's raw files into a folder of the same layout; return where they lie."""
    dataset = DATASETS[name]
    raw = folder / dataset.collection / dataset.folder / "raw"
    shutil.copytree(raw_folder(name), raw)
    return raw


def sizes(graph) -> tuple[int, ...]:
    return tuple(graph.nodes_in(split).numel() for split in ("train", "validation", "test"))


# --- with the files ---


@needs_files
@pytest.mark.parametrize("name", sorted(DATASETS))
def test_a_dataset_has_the_counts_of_the_table_and_the_papers_split(name):
    dataset, graph = DATASETS[name], load_dataset(name, download=False)
    assert graph.num_nodes == dataset.nodes
    assert graph.num_edges == 2 * dataset.links
    assert graph.num_features == dataset.features
    assert graph.num_classes == dataset.classes
    assert sizes(graph) == SPLIT_SIZES[name]
    assert graph.nodes_in("none").numel() == 0
    assert bool((graph.labels >= 0).all())
    assert isinstance(graph.features, SparseRows)


@needs_files
@pytest.mark.parametrize("name", ["cora", "pubmed"])
def test_planetoid_nodes_are_split_as_fastgcn_does(name):
    raw, graph = raw_folder(name), load_dataset(name, download=False)
    test = np.loadtxt(raw / f"ind.{name}.test.index", dtype=np.int64)
    ally = datasets._unpickled((raw / f"ind.{name}.ally").read_bytes()).shape[0]
    assert graph.nodes_in("test").tolist() == sorted(test.tolist())
    assert graph.nodes_in("validation").tolist() == list(range(ally - 500, ally))
    assert graph.nodes_in("train").tolist() == list(range(ally - 500))


@needs_files
def test_planetoid_test_nodes_get_the_rows_that_torch_geometric_gives_them(tmp_path):
    from torch_geometric.datasets import Planetoid

    copy_of("cora", tmp_path)
    data = Planetoid(root=str(tmp_path / "Planetoid"), name="Cora")[0]
    graph = load_dataset("cora", download=False)
    assert torch.equal(torch.from_numpy(graph.features.to_scipy().toarray()), data.x)
    assert torch.equal(graph.labels, data.y)
    ours = torch.stack([graph.neighbour, graph.target])
    assert set(map(tuple, ours.T.tolist())) == set(map(tuple, data.edge_index.T.tolist()))


@needs_files
def test_the_features_of_citation_full_are_zeros_and_ones():
    graph = load_dataset("citeseer", download=False)
    assert set(graph.features.value.tolist()) == {1.0}


@needs_files
def test_the_papers_split_is_one_and_a_random_one_is_redrawn_by_its_seed():
    fixed = load_dataset("citeseer", seed=1, download=False)
    assert_same(fixed, load_dataset("citeseer", seed=2, download=False))
    drawn = load_dataset("citeseer", split="random", seed=1, download=False)
    assert_same(drawn, load_dataset("citeseer", split="random", seed=1, download=False))
    again = load_dataset("citeseer", split="random", seed=2, download=False)
    assert not torch.equal(drawn.split, again.split)
    assert sizes(drawn) == sizes(again) == SPLIT_SIZES["citeseer"]


@needs_files
def test_cora_can_be_split_at_random_too():
    drawn = load_dataset("cora", split="random", seed=1, download=False)
    fixed = load_dataset("cora", download=False)
    assert sizes(drawn) == SPLIT_SIZES["cora"]
    assert not torch.equal(drawn.split, fixed.split)
    assert torch.equal(drawn.labels, fixed.labels)


@needs_files
@pytest.mark.parametrize("part", ["ally", "graph"])
def test_a_planetoid_file_with_one_other_byte_is_refused_before_it_is_opened(part, tmp_path, monkeypatch):
    path = copy_of("cora", tmp_path) / f"ind.cora.{part}"
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    opened = []
    plain = datasets._unpickled

    def watched(data):
        opened.append(data)
        return plain(data)

    monkeypatch.setattr(datasets, "_unpickled", watched)
    with pytest.raises(DatasetError, match=f"ind.cora.{part} is not the published file"):
        load_dataset("cora", tmp_path, download=False)
    assert opened
    assert bytes(content) not in opened


@needs_files
@pytest.mark.parametrize("name", ["citeseer", "dblp"])
def test_an_npz_saved_again_is_known_by_its_content_and_one_with_another_word_or_label_is_refused(
    name, tmp_path
):
    path = copy_of(name, tmp_path) / f"{name}.npz"
    with np.load(path) as file:
        arrays = dict(file)
    path.unlink()
    np.savez_compressed(path, **arrays)
    assert_same(load_dataset(name, tmp_path, download=False), load_dataset(name, download=False))
    for key, value in (("labels", arrays["labels"][::-1]), ("attr_data", arrays["attr_data"] * 0)):
        np.savez(path, **(arrays | {key: value}))
        with pytest.raises(DatasetError, match="is not the published file"):
            load_dataset(name, tmp_path, download=False)


@needs_files
@pytest.mark.parametrize(
    ("key", "place", "value"),
    [
        ("adj_indptr", 5, 2**31 - 1),
        ("adj_indices", 0, -(2**31)),
        ("attr_indptr", 1, -7),
        ("attr_indices", 9, 2**30),
    ],
)
def test_an_npz_whose_matrix_points_outside_is_refused_before_scipy_sees_it(key, place, value, tmp_path):
    path = copy_of("citeseer", tmp_path) / "citeseer.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays[key][place] = value
    path.unlink()
    np.savez(path, **arrays)
    with pytest.raises(DatasetError, match=r"(indptr|indices) must"):
        load_dataset("citeseer", tmp_path, download=False)


# --- without ---


def write_npz(folder: Path, **changes) -> Path:
    """Write a file of CitationFull's layout for citeseer, of three nodes."""
    raw = folder / "CitationFull" / "citeseer" / "raw"
    raw.mkdir(parents=True)
    parts = {
        "attr_data": np.ones(2, dtype=np.float32),
        "attr_indices": np.array([0, 1]),
        "attr_indptr": np.array([0, 1, 1, 2]),
        "attr_shape": np.array([3, 2]),
        "adj_data": np.ones(1, dtype=np.float32),
        "adj_indices": np.array([1]),
        "adj_indptr": np.array([0, 1, 1, 1]),
        "adj_shape": np.array([3, 3]),
        "labels": np.array([0, 1, 1]),
    } | changes
    np.savez(raw / "citeseer.npz", **parts)
    return raw / "citeseer.npz"


def test_a_graph_is_a_dataset_the_synthetic_graph_or_an_existing_path(tmp_path):
    for name in (*DATASETS, "synthetic", str(tmp_path)):
        check_name(name)
    with pytest.raises(DatasetError, match="no dataset, file or folder 'corra'; did you mean 'cora'"):
        check_name("corra")
    with pytest.raises(DatasetError, match="there is no file or folder"):
        check_name(str(tmp_path / "missing"))


def test_an_unknown_name_is_answered_with_the_nearest_known_one():
    with pytest.raises(DatasetError, match="no dataset 'citseer'; did you mean 'citeseer'"):
        load_dataset("citseer")
    with pytest.raises(
        DatasetError, match=r"known are citeseer, cora, cora-metattack-0.05, .*, dblp, pubmed"
    ):
        load_dataset("xyz")


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="must be paper or random, found 'full'"):
        load_dataset("cora", tmp_path, split="full", download=False)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_missing_files_are_said_to_be_missing_and_where(name, tmp_path):
    dataset = DATASETS[name]
    where = tmp_path / dataset.collection / dataset.folder / "raw"
    with pytest.raises(DatasetError) as raised:
        load_dataset(name, tmp_path, download=False)
    assert str(raised.value) == f"the files of '{name}' are not in {where}"
    assert not is_present(name, tmp_path)


def test_a_failed_download_says_where_the_files_can_be_put(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "SOURCES", {"CitationFull": "https://127.0.0.1:9"})  # nobody listens there
    with pytest.raises(DatasetError, match=r"cannot be downloaded .*; put its raw files there or"):
        load_dataset("dblp", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []  # nothing is left behind, and what was there stays


def test_the_data_folder_is_the_one_given_then_that_of_the_environment_then_the_users_cache(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("GDPNET_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder(None) == tmp_path / "named"
    monkeypatch.delenv("GDPNET_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder(None) == tmp_path / ".cache" / "gdpnet"


def test_pickles_planted_in_place_of_planetoid_files_are_never_opened(tmp_path):
    raw = tmp_path / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for file in DATASETS["cora"].raw_files:
        (raw / file).write_bytes(b"cos\nabort\n(tR.")  # opened, this would end the test run
    assert is_present("cora", tmp_path)
    with pytest.raises(DatasetError, match="is not the published file"):
        load_dataset("cora", tmp_path, download=False)


def test_a_pickle_that_names_anything_but_arrays_is_not_opened():
    with pytest.raises(pickle.UnpicklingError, match=r"cannot name os\.abort"):
        datasets._unpickled(b"cos\nabort\n(tR.")


def test_an_npz_of_another_graph_is_refused(tmp_path):
    write_npz(tmp_path)
    with pytest.raises(DatasetError, match=r"must hold \(4230, 602\) nodes and features, found \(3, 2\)"):
        load_dataset("citeseer", tmp_path, download=False)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 cut short"])
def test_an_npz_that_cannot_be_read_is_refused(content, tmp_path):
    path = write_npz(tmp_path)
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="is not a readable graph file"):
        load_dataset("citeseer", tmp_path, download=False)


def test_an_npz_that_lacks_a_table_is_refused(tmp_path):
    path = write_npz(tmp_path)
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files if name != "labels"}
    np.savez(path, **parts)
    with pytest.raises(DatasetError, match="is not a readable graph file"):
        load_dataset("citeseer", tmp_path, download=False)


def test_an_npz_that_holds_pickled_objects_is_refused(tmp_path):
    write_npz(tmp_path, labels=np.array([{}, {}, {}], dtype=object))
    with pytest.raises(DatasetError, match="is not a readable graph file"):
        load_dataset("citeseer", tmp_path, download=False)
