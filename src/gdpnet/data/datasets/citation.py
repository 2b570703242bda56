"""Load the datasets that have a name: the paper's four, split as the paper does, and graphs that others attacked.

Files are found, or downloaded for the paper's four, and verified.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gdpnet.data.datasets.known import ATTACKED, DATASETS, NAMED, Attacked, Dataset, data_folder, is_present
from gdpnet.data.graph import Graph
from gdpnet.data.io.npz import csr_of, load_arrays
from gdpnet.errors import DatasetError, GraphError, nearest

SPLIT_SEED = 2020
"""Seed of the one fixed random split of CiteSeer and DBLP."""


def load_dataset(
    name: str,
    data_dir: str | Path | None = None,
    *,
    split: str = "paper",
    seed: int = 0,
    download: bool = True,
) -> Graph:
    """Load a named dataset: one of the paper's, with its split sizes, or an attacked graph with its fixed split.

    Args:
        name: cora, citeseer, pubmed or dblp, or cora-metattack-RATE, which is transductive and never downloaded.
        data_dir: folder that holds ``Planetoid``, ``CitationFull`` and ``Attacked``; ``GDPNET_DATA`` by default.
        split: ``paper`` (one fixed split) or ``random`` (drawn with ``seed``), both of the paper's sizes.
        seed: seed of the random split.
        download: whether torch_geometric may download missing files.
    """
    if name not in NAMED:
        raise DatasetError(f"there is no dataset '{name}'{nearest(name, NAMED)}")
    if split not in ("paper", "random"):
        raise DatasetError(f"the split of a dataset must be paper or random, found '{split}'")
    if name in ATTACKED:
        return _load_attacked(name, data_dir, split)
    dataset = DATASETS[name]
    raw = _raw_folder(name, data_dir, download)
    planetoid = dataset.collection == "Planetoid"
    edges, features, labels, fixed = _read_planetoid(dataset, raw) if planetoid else _read_npz(dataset, raw)
    if split == "random" or fixed is None:
        fixed = _random_split(dataset, seed if split == "random" else SPLIT_SEED)
    return Graph.build(edges, features, labels, split=fixed)


def _load_attacked(name: str, data_dir: str | Path | None, split: str) -> Graph:
    """Load an attacked graph, transductive and with the split of its file, after checking the file's checksum."""
    if split != "paper":
        raise DatasetError(
            f"the split of '{name}' is fixed, found --split {split}: leave it out, or give shares such as 10/10/80"
        )
    dataset = ATTACKED[name]
    path = dataset.raw_folder(data_dir) / dataset.file
    if not path.is_file():
        raise DatasetError(
            f"'{name}' is never downloaded, and {path} is not there: put the published file there, or point "
            f"--data-dir or GDPNET_DATA at a folder that has {Path(*path.parts[-3:])}"
        )
    _check_published(path, path.read_bytes(), dataset.sha256)
    edges, features, labels, _ = _read_npz(dataset, path.parent)
    codes, arrays = np.zeros(dataset.nodes, dtype=np.int8), load_arrays(path)
    for code, part in enumerate(("idx_train", "idx_val", "idx_test"), start=1):
        codes[arrays[part]] = code
    return Graph.build(edges, features, labels, split=codes, transductive=True)


def _check_published(path: Path, content: bytes, checksum: str) -> None:
    if hashlib.sha256(content).hexdigest() != checksum:
        raise DatasetError(f"{path} is not the published file (its sha256 differs), so it was not opened")


def _raw_folder(name: str, data_dir: str | Path | None, download: bool) -> Path:
    dataset = DATASETS[name]
    raw = dataset.raw_folder(data_dir)
    if not is_present(name, data_dir):
        if not download:
            raise DatasetError(f"the files of '{name}' are not in {raw}")
        _download(dataset, data_folder(data_dir))
        if not is_present(name, data_dir):
            raise DatasetError(f"the files of '{name}' were downloaded but are not in {raw}")
    return raw


def _remove_empty(path: Path, before: Path) -> None:
    """Remove the empty folders of a failed download, from ``path`` up to ``before``."""
    while path != before and path.is_dir() and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


def _download(dataset: Dataset, folder: Path) -> None:
    """Download the raw files with torch_geometric, without its unpickling of them."""
    from torch_geometric.datasets import CitationFull, Planetoid

    kind = Planetoid if dataset.collection == "Planetoid" else CitationFull
    source = kind.__new__(kind)
    source.name, source.root = dataset.folder, str(folder / dataset.collection)
    source.split = "public"  # Planetoid's folder depends on it
    raw = dataset.raw_folder(folder).absolute()
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
    """Read Planetoid's pickles after checking their checksums, with FastGCN's split."""
    part: dict[str, Any] = {}
    for file, (name, checksum) in zip(dataset.raw_files, dataset.sha256.items(), strict=True):
        content = (raw / file).read_bytes()
        _check_published(raw / file, content, checksum)
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


_UNPICKLED = (
    "__builtin__.list",
    "collections.defaultdict",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
)


class _PlanetoidUnpickler(pickle.Unpickler):
    """Unpickle only the classes that Planetoid's files need; scipy has moved its matrices since they were made."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class that a pickle names."""
        if (module, name) == ("scipy.sparse.csr", "csr_matrix"):
            return sp.csr_matrix
        if f"{module}.{name}" not in _UNPICKLED:
            raise pickle.UnpicklingError(f"a dataset cannot name {module}.{name}")
        return super().find_class(module, name)


def _unpickled(content: bytes) -> Any:
    return _PlanetoidUnpickler(io.BytesIO(content), encoding="latin1").load()


def _read_npz(dataset: Dataset | Attacked, raw: Path) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray, None]:
    """Read a CitationFull file; features are 0 or 1, as in torch_geometric."""
    path, expected = raw / dataset.raw_files[0], (dataset.nodes, dataset.features)
    try:
        arrays = load_arrays(path)
        features, adjacency = csr_of(arrays, "attr"), csr_of(arrays, "adj").tocoo()
        labels = arrays["labels"].astype(np.int64)
    except (GraphError, ValueError, KeyError) as error:
        raise DatasetError(f"{path} is not a readable graph file: {error}") from error
    found = (adjacency.shape[0], features.shape[1])
    if found != expected:
        raise DatasetError(f"{path} must hold {expected} nodes and features, found {found}")
    return np.stack([adjacency.row, adjacency.col]), (features > 0).astype(np.float32), labels, None


def _random_split(dataset: Dataset, seed: int) -> np.ndarray:
    """Draw a random split of the paper's sizes: 500 validation, 1,000 test and the other nodes for training."""
    order = torch.randperm(dataset.nodes, generator=torch.Generator().manual_seed(seed)).numpy()
    split = np.ones(dataset.nodes, dtype=np.int8)
    split[order[-1500:-1000]], split[order[-1000:]] = 2, 3
    return split
