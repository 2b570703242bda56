"""Checks of the arrays that a graph is built from; each error says what must hold and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set, Sized
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet._core.limits import MOST_CLASSES, MOST_FEATURES, NAME_BYTES
from gdpnet._core.words import counted
from gdpnet.data.array_checks import check_csr, checked_matrix, tensor_of
from gdpnet.data.features import Features, SparseRows, stored_values
from gdpnet.errors import GraphError

UNKNOWN = -1
"""The label of a node whose class is not known."""

SPLITS = ("none", "train", "validation", "test")
"""Names of the split codes 0 to 3; a node in no split is context, never a training target."""

SPLIT_RULE = "the split must hold one code per node: 0 none, 1 train, 2 validation, 3 test"

MOST_NODES = 3_037_000_499
"""Nodes of a graph in memory: the largest number whose square, the key of an edge, fits 64 bits."""


_LOOPS = (
    "self-loop was removed: a node is always part of its own mean",
    "self-loops were removed: a node is always part of its own mean",
)
_DUPLICATES = ("duplicate edge was merged", "duplicate edges were merged")
_BOTH_WAYS = (
    "edge is given in both directions and counts once",
    "edges are given in both directions and count once",
)
_ALONE = (
    "node has no neighbour and is represented by its own features",
    "nodes have no neighbour and are represented by their own features",
)


def id_text(node_ids: np.ndarray) -> np.ndarray:
    """Return node ids as text; those from NetworkX may be any object."""
    if node_ids.dtype.kind != "O":
        return node_ids.astype(str)
    return text_array([str(node_id) for node_id in node_ids.tolist()], "node ids")


def text_array(texts: Sequence[str], what: str) -> np.ndarray:
    """Return texts as an array, in which all take as much memory as the longest; refuse a few that are too long."""
    lengths = [len(text) for text in texts]
    longest, total = max(lengths, default=0), sum(lengths)
    if 4 * longest * len(texts) > max(NAME_BYTES, 64 * total):
        first = lengths.index(longest)
        raise GraphError(
            f"{what} must be of like length, as all take as much memory as the longest, found one of {longest:,} "
            f"characters among {len(texts):,}, '{texts[first][:40]}…': shorten it"
        )
    for text in texts:
        if "\0" in text or not _is_writable(text):
            raise GraphError(f"{what} must be text that files can hold, found {ascii(text)[:80]}: rename it")
    return np.array(texts, dtype=str)


def _is_writable(text: str) -> bool:
    """Return whether a text can be written as UTF-8; half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_or_text_ids(node_ids: np.ndarray) -> np.ndarray:
    """Return node ids as they are if they are whole numbers, else as text."""
    return node_ids if node_ids.dtype.kind in "iu" else id_text(node_ids)


def checked_features(features: Any) -> Features:
    """Return features as a tensor or sparse rows, at least one value per node."""
    if hasattr(features, "tocsr"):
        features = SparseRows.from_scipy(checked_matrix(features, "features"))
    elif isinstance(features, SparseRows):
        features = _checked_rows(features)
    else:
        features = tensor_of(features, "features").to(torch.float32)
        if features.dim() != 2:
            raise GraphError(
                f"features must have one row per node, found an array of {features.dim()} dimensions"
            )
    if features.shape[0] == 0:
        raise GraphError("the graph is empty: it has no node")
    if features.shape[1] == 0:
        raise GraphError("a node must have at least one feature, found none")
    check_width(features)
    return features


def check_width(features: Features) -> None:
    """Refuse sparse features of too many columns: every column has weights; one-hot features are excepted."""
    width = features.shape[1]
    if width > MOST_FEATURES and isinstance(features, SparseRows) and not features.is_one_hot:
        raise GraphError(
            f"sparse features can have at most {MOST_FEATURES:,} columns, found {width:,}: number them without gaps"
        )


def _checked_rows(features: SparseRows) -> SparseRows:
    """Return sparse rows that a user made of tensors, columns ascending; refuse tensors that do not fit."""
    parts = (features.row_ptr, features.column, features.value)
    if not all(isinstance(part, Tensor) and part.dim() == 1 for part in parts):
        raise GraphError("sparse features must be rows of offsets, columns and values, found other shapes")
    if not isinstance(features.width, int) or features.row_ptr.numel() == 0:
        raise GraphError("sparse features must have offsets and a whole number of columns, found others")
    column = features.column
    if column.numel() and not 0 <= int(column.min()) <= int(column.max()) < features.width:
        raise GraphError(f"sparse features must lie in columns 0 to {features.width - 1}, found one outside")
    pointer, columns, values = (part.detach().cpu().numpy() for part in parts)
    check_csr(pointer, columns, values, features.shape, "sparse features")
    if ascends(columns, pointer):
        return (
            features if features.value.dtype == torch.float32 else features.with_value(features.value.float())
        )
    return SparseRows.from_scipy(features.to_scipy())


def ascends(columns: np.ndarray, offsets: np.ndarray) -> bool:
    """Return whether the columns of each row ascend, without repeats."""
    larger = columns[1:] > columns[:-1]
    starts = offsets[1:-1]
    larger[starts[(starts > 0) & (starts < columns.size)] - 1] = True  # a new row may begin anywhere
    return bool(larger.all())


def check_finite(features: Features, ids: np.ndarray) -> None:
    """Refuse features that are NaN or infinite."""
    bad = (~torch.isfinite(stored_values(features))).nonzero()
    if bad.numel():
        row = int(features.row[bad[0, 0]] if isinstance(features, SparseRows) else bad[0, 0])
        raise GraphError(f"features must be finite, found NaN or infinity in the row of node '{ids[row]}'")


def checked_labels(labels: Any, nodes: int) -> Int[Tensor, "nodes"]:
    """Return class numbers, all unknown if none are given."""
    if labels is None:
        return torch.full((nodes,), UNKNOWN, dtype=torch.long)
    label = tensor_of(labels, "labels")
    if label.dim() != 1 or label.numel() != nodes:
        raise GraphError(
            f"there must be one label per node ({nodes}), found an array of shape {tuple(label.shape)}"
        )
    if label.is_floating_point() or label.dtype == torch.bool:
        raise GraphError(f"labels must be class numbers, with -1 for unknown, found {label.dtype}")
    label = label.long()
    if int(label.min()) < UNKNOWN:
        raise GraphError(
            f"labels must be class numbers from 0, with -1 for unknown, found {int(label.min())}"
        )
    if int(label.max()) >= MOST_CLASSES:
        raise GraphError(
            f"labels must be class numbers below {MOST_CLASSES:,}, found {int(label.max())}: number classes from 0 "
            "without gaps"
        )
    return label


def checked_targets(targets: Any, label: Int[Tensor, "nodes"]) -> Float[Tensor, "nodes"] | None:
    """Return the numbers to predict, NaN for unknown; they take the place of class labels."""
    if targets is None:
        return None
    number = tensor_of(targets, "targets").to(torch.float32)
    if number.shape != label.shape:
        raise GraphError(
            f"there must be one target per node ({label.numel()}), found an array of shape {tuple(number.shape)}"
        )
    if bool(number.isinf().any()):
        raise GraphError("targets must be finite numbers, or NaN for unknown, found infinity")
    if bool((label != UNKNOWN).any()):
        raise GraphError("a graph must have class labels or numbers to predict (targets), found both")
    return number


def checked_flags(flags: Any, count: int, what: str, unit: str) -> Bool[Tensor, "count"]:
    """Return one flag per edge or node, all false if none are given."""
    if flags is None:
        return torch.zeros(count, dtype=torch.bool)
    flag = tensor_of(flags, what)
    if flag.shape != (count,):
        raise GraphError(f"{what} must hold one flag per given {unit} ({count}), found {flag.numel()}")
    return flag.bool()


def checked_class_names(names: Sequence[str] | None, label: Tensor) -> tuple[str, ...]:
    """Return a name per class, its number if none are given."""
    needed = int(label.max()) + 1
    if names is None:
        return tuple(str(number) for number in range(needed))
    if isinstance(names, str | bytes | Mapping | Set) or not isinstance(names, Sized):
        raise GraphError(
            f"names of classes must be a list, in the order of classes, found {type(names).__name__}"
        )
    if len(names) < needed:
        raise GraphError(f"there must be a name for each of {needed} classes, found {len(names)}")
    if len(names) > MOST_CLASSES:
        raise GraphError(f"a graph can have at most {MOST_CLASSES:,} classes, found {len(names):,}")
    texts = [str(name) for name in names]
    text_array(texts, "class names")
    if len(set(texts)) < len(texts):
        name = next(name for place, name in enumerate(texts) if name in texts[:place])
        raise GraphError(f"names of classes must be unique, found '{name}' {texts.count(name)} times")
    return tuple(texts)


def checked_split(split: Any, nodes: int) -> Int[Tensor, "nodes"]:
    """Return the split codes, all zero if none are given."""
    if split is None:
        return torch.zeros(nodes, dtype=torch.int8)
    code = tensor_of(split, "the split")
    if code.dtype == torch.bool:
        raise GraphError(f"{SPLIT_RULE}; found true and false")
    if code.is_floating_point() or code.shape != (nodes,) or bool(((code < 0) | (code >= len(SPLITS))).any()):
        raise GraphError(SPLIT_RULE)
    return code.to(torch.int8)


def checked_edges(
    edge_index: Any, nodes: int, directed: bool, spurious: Any
) -> tuple[Tensor, Tensor, Tensor, tuple[str, ...]]:
    """Sort edges by target and source, without self-loops and duplicates.

    Returns row offsets, sources, which edges are spurious (all their duplicates are), and notes on what was removed.
    """
    edges = _edge_tensor(edge_index, nodes)
    noise = checked_flags(spurious, edges.shape[1], "spurious", "edge")
    loops = edges[0] == edges[1]
    edges, noise = edges[:, ~loops], noise[~loops]
    given = edges.shape[1]
    if not directed:
        edges, noise = torch.cat([edges, edges.flip(0)], dim=1), torch.cat([noise, noise])
    entry = edges[1] * nodes + edges[0]
    distinct = torch.unique(entry[:given]).numel()
    key = torch.unique(entry)
    genuine = torch.zeros(key.numel(), dtype=torch.bool)
    genuine[torch.searchsorted(key, entry)[~noise]] = True
    source, target = key % nodes, key // nodes
    mutual = 0 if directed else distinct - key.numel() // 2
    degree = torch.bincount(target, minlength=nodes)
    counts = (
        (int(loops.sum()), _LOOPS),
        (given - distinct, _DUPLICATES),
        (mutual, _BOTH_WAYS),
        (int((degree == 0).sum()), _ALONE),
    )
    notes = tuple(counted(count, *words) for count, words in counts if count)
    return offsets_of(degree), source, ~genuine, notes


def _edge_tensor(edge_index: Any, nodes: int) -> Int[Tensor, "2 edges"]:
    edges = tensor_of(edge_index, "edges")
    if edges.numel() == 0:
        edges = torch.zeros(2, 0, dtype=torch.long)
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise GraphError(
            f"edges must be two rows of node numbers, found an array of shape {tuple(edges.shape)}"
        )
    if edges.dtype == torch.bool:
        raise GraphError("edges must be two rows of node numbers, found true and false")
    edges = edges.long()
    if nodes > MOST_NODES:
        raise GraphError(
            f"a graph in memory can have at most {MOST_NODES:,} nodes, found {nodes:,}: write it as a store"
        )
    outside = ((edges < 0) | (edges >= nodes)).any(dim=0).nonzero()
    if outside.numel():
        source, target = edges[:, outside[0, 0]].tolist()
        raise GraphError(
            f"edge {source} to {target} names a node that does not exist: there are {nodes} nodes"
        )
    return edges
