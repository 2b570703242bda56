"""The paper's four datasets: found or downloaded, verified, and split as the paper does."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gdpnet.data.graph import Graph
from gdpnet.errors import DatasetError, nearest

SPLIT_SEED = 2020
"""Seed of the one fixed random split of CiteSeer and DBLP."""

_PLANETOID_PARTS = ("allx", "ally", "graph", "test.index", "tx", "ty")


@dataclass(frozen=True)
class Dataset:
    """What is known about a named dataset."""

    collection: str
    folder: str
    raw: str
    nodes: int
    links: int
    features: int
    classes: int
    train: int
    about: str
    sha256: tuple[tuple[str, str], ...]


DATASETS = {
    "cora": Dataset(
        "Planetoid",
        "Cora",
        "ind.cora",
        2708,
        5278,
        1433,
        7,
        1208,
        "machine-learning papers, binary words",
        (
            ("allx", "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
            ("ally", "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
            ("graph", "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
            ("test.index", "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
            ("tx", "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
            ("ty", "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
        ),
    ),
    "citeseer": Dataset(
        "CitationFull",
        "citeseer",
        "citeseer.npz",
        4230,
        5337,
        602,
        6,
        2730,
        "computer-science papers, words",
        (),
    ),
    "pubmed": Dataset(
        "Planetoid",
        "PubMed",
        "ind.pubmed",
        19717,
        44324,
        500,
        3,
        18217,
        "diabetes papers, tf-idf words",
        (
            ("allx", "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
            ("ally", "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
            ("graph", "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
            ("test.index", "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
            ("tx", "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
            ("ty", "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
        ),
    ),
    "dblp": Dataset(
        "CitationFull", "dblp", "dblp.npz", 17716, 52867, 1639, 4, 16216, "database papers, words", ()
    ),
}


def load_dataset(
    name: str, data_dir: Path | None = None, *, split: str = "paper", seed: int = 0, download: bool = True
) -> Graph:
    """Load a named dataset with the paper's split sizes.

    Args:
        name: cora, citeseer, pubmed or dblp.
        data_dir: folder that holds ``Planetoid`` and ``CitationFull``; ``GDPNET_DATA`` by default.
        split: ``paper`` (one fixed membership) or ``random`` (redrawn by ``seed``), both of the paper's sizes.
        seed: seed of the random split.
        download: whether torch_geometric may fetch files that are not there.
    """
    if name not in DATASETS:
        raise DatasetError(f"there is no dataset '{name}'{nearest(name, DATASETS)}")
    if split not in ("paper", "random"):
        raise DatasetError(f"the split of a dataset must be paper or random, found '{split}'")
    dataset = DATASETS[name]
    raw = _raw_folder(name, data_dir, download)
    planetoid = dataset.collection == "Planetoid"
    edges, features, labels, fixed = _read_planetoid(dataset, raw) if planetoid else _read_npz(dataset, raw)
    if split == "random" or fixed is None:
        fixed = _random_split(dataset, seed if split == "random" else SPLIT_SEED)
    return Graph.build(edges, features, labels, split=fixed)


def data_folder(data_dir: Path | None) -> Path:
    """Return the folder of datasets: the one given, that of ``GDPNET_DATA``, or the user's cache."""
    if data_dir is not None:
        return data_dir
    named = os.environ.get("GDPNET_DATA")
    return Path(named) if named else Path.home() / ".cache" / "gdpnet"


def is_present(name: str, data_dir: Path | None = None) -> bool:
    """Say whether a dataset's files are on this machine."""
    dataset = DATASETS[name]
    raw = data_folder(data_dir) / dataset.collection / dataset.folder / "raw"
    return all((raw / file).is_file() for file in _raw_files(dataset))


def _raw_files(dataset: Dataset) -> list[str]:
    if dataset.collection == "Planetoid":
        return [f"{dataset.raw}.{part}" for part in _PLANETOID_PARTS]
    return [dataset.raw]


def _raw_folder(name: str, data_dir: Path | None, download: bool) -> Path:
    dataset = DATASETS[name]
    raw = data_folder(data_dir) / dataset.collection / dataset.folder / "raw"
    if not is_present(name, data_dir):
        if not download:
            raise DatasetError(f"the files of '{name}' are not in {raw}")
        _download(dataset, data_folder(data_dir))
        if not is_present(name, data_dir):
            raise DatasetError(f"the files of '{name}' were downloaded but are not in {raw}")
    return raw


def _remove_empty(path: Path, before: Path) -> None:
    """Remove empty folders from a path upwards to one that was there before: a failed download leaves none behind."""
    while path != before and path.is_dir() and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


def _download(dataset: Dataset, folder: Path) -> None:
    """Let torch_geometric fetch the raw files; its own unpickling of them is never called."""
    from torch_geometric.datasets import CitationFull, Planetoid

    kind = Planetoid if dataset.collection == "Planetoid" else CitationFull
    source = kind.__new__(kind)
    source.name, source.root = dataset.folder, str(folder / dataset.collection)
    source.split = "public"  # Planetoid's folder depends on it
    raw = (folder / dataset.collection / dataset.folder / "raw").absolute()
    before = next(path for path in (raw, *raw.parents) if path.exists())
    try:
        raw.mkdir(parents=True, exist_ok=True)
        source.download()
    except Exception as error:
        _remove_empty(raw, before)
        raise DatasetError(
            f"{dataset.collection} {dataset.folder} is not in {raw} and cannot be downloaded ({error}); "
            f"put its raw files there or point --data-dir or GDPNET_DATA at a folder that has them"
        ) from error


def _read_planetoid(dataset: Dataset, raw: Path) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray, np.ndarray]:
    """Read Planetoid's pickles after their sums were checked, with FastGCN's split."""
    sums = dict(dataset.sha256)
    part: dict[str, Any] = {}
    for name in _PLANETOID_PARTS:
        path = raw / f"{dataset.raw}.{name}"
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sums[name]:
            raise DatasetError(f"{path} is not the published file (its sha256 differs), so it was not opened")
        if name == "test.index":
            part[name] = np.array(content.split(), dtype=np.int64)
        else:
            part[name] = _unpickled(content)
    test = part["test.index"]
    features = sp.vstack([part["allx"], part["tx"]]).tolil()
    label = np.concatenate([part["ally"], part["ty"]]).argmax(axis=1)
    features[test] = features[np.sort(test)]
    label[test] = label[np.sort(test)]
    edges = np.array([(node, other) for node, others in part["graph"].items() for other in others]).T
    split = np.zeros(dataset.nodes, dtype=np.int8)
    known = part["ally"].shape[0]
    split[: known - 500], split[known - 500 : known], split[test] = 1, 2, 3
    return edges, features.tocsr(), label, split


class _PlanetoidUnpickler(pickle.Unpickler):
    """Open what Planetoid's files name and nothing else; scipy has moved the matrices since they were made."""

    named = frozenset(
        {
            ("__builtin__", "list"),
            ("collections", "defaultdict"),
            ("numpy", "dtype"),
            ("numpy", "ndarray"),
            ("numpy.core.multiarray", "_reconstruct"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        """Return the class that a pickle names."""
        if (module, name) == ("scipy.sparse.csr", "csr_matrix"):
            return sp.csr_matrix
        if (module, name) not in self.named:
            raise pickle.UnpicklingError(f"a dataset cannot name {module}.{name}")
        return super().find_class(module, name)


def _unpickled(content: bytes) -> Any:
    return _PlanetoidUnpickler(io.BytesIO(content), encoding="latin1").load()


def _read_npz(dataset: Dataset, raw: Path) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray, None]:
    """Read a CitationFull file; features are 0 and 1, as torch_geometric gives them."""
    try:
        content = io.BytesIO((raw / dataset.raw).read_bytes())
        with np.load(content, allow_pickle=False) as file:
            features = sp.csr_matrix(
                (file["attr_data"], file["attr_indices"], file["attr_indptr"]), shape=file["attr_shape"]
            )
            adjacency = sp.csr_matrix(
                (file["adj_data"], file["adj_indices"], file["adj_indptr"]), shape=file["adj_shape"]
            ).tocoo()
            labels = file["labels"].astype(np.int64)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(f"{raw / dataset.raw} is not a readable graph file: {error}") from error
    found = (adjacency.shape[0], features.shape[1])
    if found != (dataset.nodes, dataset.features):
        raise DatasetError(f"{raw / dataset.raw} holds {found} nodes and features, not those of the dataset")
    return np.stack([adjacency.row, adjacency.col]), (features > 0).astype(np.float32), labels, None


def _random_split(dataset: Dataset, seed: int) -> np.ndarray:
    """Draw the paper's split sizes at random: training nodes, 500 validation and 1,000 test nodes."""
    order = torch.randperm(dataset.nodes, generator=torch.Generator().manual_seed(seed)).numpy()
    split = np.zeros(dataset.nodes, dtype=np.int8)
    split[order[: dataset.train]] = 1
    split[order[dataset.train : dataset.train + 500]] = 2
    split[order[dataset.train + 500 :]] = 3
    return split
