"""Load the datasets that have a name: the paper's four, split as the paper does, and graphs that others attacked.

Files are found, or downloaded for the paper's four, and verified.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gdpnet._core.limits import MOST_DOWNLOAD_BYTES
from gdpnet._core.regular import check_regular
from gdpnet.config import checked_seed
from gdpnet.data.datasets.download import fetch
from gdpnet.data.datasets.known import ATTACKED, DATASETS, NAMED, Attacked, Dataset, is_present
from gdpnet.data.graph import Graph
from gdpnet.data.io.archive import read_archive
from gdpnet.data.io.npz import check_present, csr_of
from gdpnet.errors import DatasetError, GDPNetError, GraphError, nearest, reason_of

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
        download: whether missing files may be downloaded, over HTTPS; each is verified.
    """
    if not isinstance(name, str):
        raise DatasetError(f"a dataset must be named by text, found {type(name).__name__}")
    if name not in NAMED:
        raise DatasetError(f"there is no dataset '{name}'{nearest(name, NAMED)}")
    if not isinstance(split, str) or split not in ("paper", "random"):
        raise DatasetError(f"the split of a dataset must be paper or random, found '{split}'")
    if name in ATTACKED:
        return _load_attacked(name, data_dir, split)
    dataset = DATASETS[name]
    seed = checked_seed(seed)
    raw = _raw_folder(name, data_dir, download)
    planetoid = dataset.collection == "Planetoid"
    read = _read_planetoid(dataset, raw) if planetoid else _read_npz(dataset, raw / dataset.raw_files[0])
    edges, features, labels, fixed = read
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
    _check_published(path, _bytes_of(path), dataset.sha256)
    edges, features, labels, _ = _read_npz(dataset, path)
    codes, arrays = np.zeros(dataset.nodes, dtype=np.int8), read_archive(path)
    for code, part in enumerate(("idx_train", "idx_val", "idx_test"), start=1):
        codes[arrays[part]] = code
    return Graph.build(edges, features, labels, split=codes, transductive=True)


def _check_published(path: Path, content: bytes, checksum: str) -> None:
    if hashlib.sha256(content).hexdigest() != checksum:
        raise DatasetError(f"{path} is not the published file (its sha256 differs), so it was not opened")


def _bytes_of(path: Path) -> bytes:
    """Read a file, of which no more is taken than a published one can have."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(MOST_DOWNLOAD_BYTES + 1)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {reason_of(error)}") from error
    if len(content) > MOST_DOWNLOAD_BYTES:
        raise DatasetError(
            f"{path} is not the published file: it has more than {MOST_DOWNLOAD_BYTES:,} bytes"
        )
    return content


def _raw_folder(name: str, data_dir: str | Path | None, download: bool) -> Path:
    dataset = DATASETS[name]
    raw = dataset.raw_folder(data_dir)
    if not is_present(name, data_dir):
        if not download:
            raise DatasetError(f"the files of '{name}' are not in {raw}")
        _download(dataset, raw.absolute())
    return raw


def _remove_empty(path: Path, before: Path) -> None:
    """Remove the empty folders of a failed download, from ``path`` up to ``before``."""
    while path != before and path.is_dir() and not any(path.iterdir()):
        path.rmdir()
        path = path.parent


def _download(dataset: Dataset, raw: Path) -> None:
    """Download the files that are missing; each is verified before it gets its name."""
    before = next(path for path in (raw, *raw.parents) if path.exists())
    try:
        for file, checksum in zip(dataset.raw_files, dataset.sha256.values(), strict=True):
            if not (raw / file).is_file():
                fetch(f"{dataset.url}/{file}", raw / file, partial(_check_download, dataset, checksum))
    except (GDPNetError, OSError) as error:
        _remove_empty(raw, before)
        raise DatasetError(
            f"{dataset.collection} {dataset.folder} is not in {raw} and cannot be downloaded ({error}); "
            f"put its raw files there or point --data-dir or GDPNET_DATA at a folder that has them"
        ) from error


def _check_download(dataset: Dataset, checksum: str, path: Path) -> None:
    """Refuse a downloaded file that is not the published one, in its bytes or, for npz, in its content."""
    if dataset.content:
        try:
            _read_npz(dataset, path)
        except DatasetError as error:
            raise DatasetError("what came is not the published file: its content differs") from error
    elif hashlib.sha256(_bytes_of(path)).hexdigest() != checksum:
        raise DatasetError("what came is not the published file: its sha256 differs")


def _read_planetoid(dataset: Dataset, raw: Path) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray, np.ndarray]:
    """Read Planetoid's pickles after checking their checksums, with FastGCN's split."""
    part: dict[str, Any] = {}
    for file, (name, checksum) in zip(dataset.raw_files, dataset.sha256.items(), strict=True):
        content = _bytes_of(raw / file)
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


def _read_npz(dataset: Dataset | Attacked, path: Path) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray, None]:
    """Read a CitationFull file, whose arrays and checksum are checked; features are 0 or 1, as in torch_geometric."""
    expected = (dataset.nodes, dataset.features)
    try:
        arrays = read_archive(path)
        features, adjacency = csr_of(arrays, "attr"), csr_of(arrays, "adj")
        check_present(arrays, ("labels",))
    except GraphError as error:
        raise DatasetError(
            f"{path} is not a readable graph file: {str(error).removeprefix(str(path))}"
        ) from error
    labels, found = arrays["labels"], (adjacency.shape[0], features.shape[1])
    if found != expected:
        raise DatasetError(f"{path} must hold {expected} nodes and features, found {found}")
    known = dataset.sha256 if isinstance(dataset.sha256, str) else dataset.sha256["npz"]
    if hashlib.sha256(_bytes_of(path)).hexdigest() != known:
        content = dataset.content if isinstance(dataset, Dataset) else ""
        if labels.dtype.kind not in "iu" or content_checksum(adjacency, features, labels) != content:
            raise DatasetError(
                f"{path} is not the published file (its sha256 differs, and that of its content), so it was not used"
            )
    pairs = adjacency.tocoo()
    return np.stack([pairs.row, pairs.col]), (features > 0).astype(np.float32), labels.astype(np.int64), None


def content_checksum(adjacency: sp.csr_matrix, features: sp.csr_matrix, labels: np.ndarray) -> str:
    """Return the SHA-256 of what is used of an npz file: which edges and words there are, and the labels."""
    digest = hashlib.sha256()
    for matrix in (adjacency != 0, features > 0):
        pattern = sp.csr_matrix(matrix)
        pattern.sum_duplicates()
        for part in (np.array(pattern.shape), pattern.indptr, pattern.indices):
            digest.update(part.astype("<i8").tobytes())
    digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()


def _random_split(dataset: Dataset, seed: int) -> np.ndarray:
    """Draw a random split of the paper's sizes: 500 validation, 1,000 test and the other nodes for training."""
    order = torch.randperm(dataset.nodes, generator=torch.Generator().manual_seed(seed)).numpy()
    split = np.ones(dataset.nodes, dtype=np.int8)
    split[order[-1500:-1000]], split[order[-1000:]] = 2, 3
    return split
