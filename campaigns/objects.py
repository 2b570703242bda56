"""Objects of Python as inputs: arrays of every type and layout, scipy matrices, frames, Data, NetworkX, arguments.

A case names what to make by words and numbers, so that it can be kept in a file.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from campaigns.invariants import graph_faults
from campaigns.mutations import WORDS, deep
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph
from gdpnet.data.io.networkx import from_networkx
from gdpnet.data.io.open import as_graph
from gdpnet.data.io.pandas import from_pandas
from gdpnet.data.io.pyg import from_pyg, from_scipy
from gdpnet.data.splits import cross_validation_splits, with_split
from gdpnet.estimator import GDPNet

NODES = 6
EDGES = np.array([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 5]])
FEATURES = np.arange(18, dtype=np.float32).reshape(NODES, 3) / 10
LABELS = np.array([0, 1, 2, 0, 1, -1])
SPLIT = np.array([1, 1, 1, 2, 3, 0])

TYPES = (
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    "g",
    ">i4",
    ">i8",
    ">f4",
    ">f8",
    "?",
    "O",
)
TYPES += (
    "U",
    "S",
    "c16",
    "M8[s]",
    "m8[s]",
    "tensor",
    "half tensor",
    "list",
    "tuple",
    "masked",
    "frame",
    "none",
)
LAYOUTS = ("plain", "negative", "fortran", "strided", "read-only", "transposed", "mapped", "zero-stride")
DAMAGES = (
    "",
    "",
    "huge",
    "most",
    "negative",
    "nan",
    "inf",
    "fraction",
    "short",
    "long",
    "empty",
    "flat",
    "cube",
)
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia", "csr_array", "coo_array")
INDEX_DAMAGES = ("", "", "beyond", "negative", "offsets", "descending", "short", "repeated", "nan", "parts")

ODD: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "large": lambda: 10**9,
    "too large": lambda: 2**64,
    "hundreds of digits": lambda: 10**400,
    "fraction": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1j,
    "empty": lambda: [],
    "list": lambda: [0, 1],
    "names": lambda: ["000", "001"],
    "mixed": lambda: [0, "001", None],
    "nested": lambda: [[0, 1], [2]],
    "pairs": lambda: [("000", "001"), ("002", "003")],
    "set": lambda: {"000"},
    "dict": lambda: {"a": 1},
    "bytes": lambda: b"000",
    "text": lambda: "000",
    "object": object,
    "function": lambda: len,
    "generator": lambda: (one for one in (0, 1)),
    "array": lambda: np.array([0, 1]),
    "booleans": lambda: np.array([True, False]),
    "foreign order": lambda: np.array([0, 1], dtype=">i8"),
    "descending": lambda: np.arange(4)[::-1],
    "square": lambda: np.zeros((2, 2)),
    "scalar array": lambda: np.array(3),
    "times": lambda: np.array(["2020"], dtype="M8[s]"),
    "tensor": lambda: torch.tensor([0, 1]),
    "float tensor": lambda: torch.tensor([0.5]),
    "series": lambda: pd.Series(["000", "001"]),
    "missing": lambda: pd.Series(["000", None]),
    "frame": lambda: pd.DataFrame({"a": [1]}),
    "range": lambda: range(3),
    "path": lambda: Path("nowhere"),
    "deep": lambda: eval(deep(80)),
    **{f"word {number}": functools.partial(str, word) for number, word in enumerate(WORDS)},
}
"""Values that an argument may be given by mistake."""


def draw_object(draw: random.Random) -> dict[str, Any]:
    """Draw what to make, as plain data."""
    call = draw.choice(
        ("build", "build", "scipy", "scipy", "pandas", "pyg", "networkx", "argument", "argument")
    )
    values: dict[str, Any] = {"call": call, "seed": draw.randrange(1 << 30)}
    if call == "argument":
        return values | {"to": draw.choice(sorted(ARGUMENTS)), "value": draw.choice(list(ODD))}
    parts = {"build": ("edges", "features", "labels", "split", "ids", "names")}.get(
        call, ("features", "labels", "ids")
    )
    for part in parts:
        if draw.random() < 0.4:
            values[part] = [draw.choice(TYPES), draw.choice(LAYOUTS), draw.choice(DAMAGES)]
    if call == "scipy":
        values |= {"format": draw.choice(FORMATS), "damage": draw.choice(INDEX_DAMAGES)}
        values["of"] = draw.choice(("adjacency", "features", "build"))
    values["directed"] = draw.random() < 0.3
    return values


def feed_object(values: dict[str, Any], base: Path) -> list[str]:
    """Make the object and hand it in; return what is wrong with an accepted one."""
    return _CALLS[values["call"]](values, random.Random(values["seed"]), base)


def _made(given: list[str] | None, usual: np.ndarray, draw: random.Random) -> Any:
    """Return an array of some type and layout, damaged in some way."""
    if given is None:
        return usual
    kind, layout, damage = given
    array = _damaged(usual, damage, draw)
    if kind in ("tensor", "half tensor"):
        tensor = torch.from_numpy(np.array(array))
        return tensor.half() if kind.startswith("half") else tensor
    if kind in ("list", "tuple"):
        return array.tolist() if kind == "list" else tuple(array.tolist())
    if kind == "masked":
        return np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) == 1)
    if kind == "frame":
        return pd.DataFrame(array) if array.ndim == 2 else pd.Series(array.ravel())
    if kind == "none":
        return None
    with np.errstate(all="ignore"):
        array = array.astype("f8").astype(kind) if kind[0] in "Mm" else array.astype(kind)
    return _laid_out(array, layout)


def _damaged(usual: np.ndarray, damage: str, draw: random.Random) -> np.ndarray:
    value = {"huge": 10**9, "most": 2**62, "negative": -7, "nan": np.nan, "inf": np.inf, "fraction": 0.5}.get(
        damage
    )
    if value is not None and usual.size and usual.dtype.kind in "if":
        array = usual.astype("f8") if isinstance(value, float) else usual.copy()
        array.flat[draw.randrange(array.size)] = value
        return array
    shapes: dict[str, Callable[[], np.ndarray]] = {
        "short": lambda: usual[..., :-1],
        "long": lambda: np.concatenate([usual, usual[..., :1]], axis=-1),
        "empty": lambda: usual[..., :0],
        "flat": usual.ravel,
        "cube": lambda: usual[None],
    }
    return shapes[damage]() if damage in shapes else usual


def _laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """Return an array of the same values in another layout."""
    if layout == "negative":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "strided":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
        return array
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "zero-stride" and array.ndim and array.shape[-1]:
        return np.broadcast_to(array[..., :1], array.shape)
    return array


def _build(values: dict[str, Any], draw: random.Random, base: Path) -> list[str]:
    given = {
        "edge_index": _made(values.get("edges"), EDGES, draw),
        "features": _made(values.get("features"), FEATURES, draw),
        "labels": _made(values.get("labels"), LABELS, draw),
        "split": _made(values.get("split"), SPLIT, draw),
        "node_ids": _made(values.get("ids"), np.arange(NODES), draw) if "ids" in values else None,
        "class_names": _made(values.get("names"), np.arange(3), draw) if "names" in values else None,
    }
    graph = Graph.build(**given, directed=values["directed"])
    return graph_faults(graph) or _differs(graph, given, values["directed"])


def _differs(graph: Graph, given: dict[str, Any], directed: bool) -> list[str]:
    """Return where an accepted graph differs from the arrays it was built from, as numpy reads these."""
    with np.errstate(all="ignore"):
        edges = np.asarray(given["edge_index"]).astype("i8")
        features = np.asarray(given["features"]).astype("f4")
    wanted = {tuple(pair) for pair in edges.T.tolist() if pair[0] != pair[1]}
    wanted |= set() if directed else {pair[::-1] for pair in wanted}
    found = set(zip(*graph.edge_index.tolist(), strict=True))
    faults = [] if wanted == found else ["edges differ from those given"]
    if not isinstance(graph.features, torch.Tensor) or not np.array_equal(graph.features.numpy(), features):
        faults.append("features differ from those given")
    if given["labels"] is not None:
        with np.errstate(all="ignore"):
            labels = np.asarray(given["labels"]).astype("i8")
        faults += [] if np.array_equal(graph.labels.numpy(), labels) else ["labels differ from those given"]
    return faults


def _scipy(values: dict[str, Any], draw: random.Random, base: Path) -> list[str]:
    """Hand in a scipy matrix; one with an index that does not exist must be refused."""
    adjacency = values["of"] == "adjacency"
    dense = np.zeros((NODES, NODES), dtype="f4") if adjacency else FEATURES.copy()
    if adjacency:
        dense[EDGES[0], EDGES[1]] = 1
    matrix = _formatted(dense, values["format"])
    broken = _break(matrix, values["damage"], draw)
    if adjacency:
        graph = from_scipy(matrix, FEATURES, LABELS, directed=values["directed"])
    elif values["of"] == "features":
        graph = from_scipy(_formatted(np.eye(NODES)[::-1], "csr"), matrix, LABELS)
    else:
        graph = Graph.build(EDGES, matrix, LABELS)
    return graph_faults(graph) or (
        ["a matrix with an index that does not exist or a value that is no number was accepted"]
        if broken
        else []
    )


def _formatted(dense: np.ndarray, name: str) -> Any:
    if name.endswith("_array"):
        return getattr(sp, name)(dense)
    return getattr(sp, f"{name}_matrix")(dense)


def _break(matrix: Any, damage: str, draw: random.Random) -> bool:
    """Damage the arrays of a matrix in place; return whether it names places that do not exist, or holds NaN."""
    if damage == "parts" and matrix.format in ("lil", "dia"):
        _break_parts(matrix, draw)
        return True
    index = next((getattr(matrix, name) for name in ("indices", "col", "row") if hasattr(matrix, name)), None)
    if (
        damage == "nan"
        and isinstance(getattr(matrix, "data", None), np.ndarray)
        and matrix.data.dtype.kind == "f"
    ):
        matrix.data.flat[0] = np.nan
        return bool(np.isnan(matrix.toarray()).any())  # diagonals have values outside the matrix
    if index is None or not isinstance(index, np.ndarray) or not index.size:
        return False
    place = draw.randrange(index.size)
    if damage in ("beyond", "negative"):
        index[place] = draw.choice((10**6, 2**31 - 1, 50)) if damage == "beyond" else -3
        return True
    if damage == "offsets" and hasattr(matrix, "indptr"):
        matrix.indptr[draw.randrange(1, matrix.indptr.size)] = draw.choice((10**6, -5))
        return True
    if damage == "short":
        matrix.data = matrix.data[:-1]
        return True
    if damage == "repeated" and index.size > 1:
        index[1] = index[0]
    if damage == "descending":
        index[:] = index[::-1].copy()
    return False


def _break_parts(matrix: Any, draw: random.Random) -> None:
    """Damage a matrix of lists or of diagonals, so that its parts do not fit each other."""
    if matrix.format == "dia":
        matrix.offsets = draw.choice(
            (np.arange(1000), matrix.offsets[:-1], matrix.offsets.astype(np.int64) + 2**40)
        )
    else:
        lists = draw.choice((matrix.rows, matrix.data))
        lists[draw.randrange(lists.size)] = [1] * draw.choice((7, 100_000))


def _pandas(values: dict[str, Any], draw: random.Random, base: Path) -> list[str]:
    names = [f"n{number}" for number in range(NODES)]
    nodes = pd.DataFrame({"id": names, "label": ["a", "b", "c", "a", "b", None], "x": FEATURES[:, 0]})
    edges = pd.DataFrame(
        {"source": [names[one] for one in EDGES[0]], "target": [names[one] for one in EDGES[1]]}
    )
    frame = draw.choice((nodes, edges))
    column = draw.choice(list(frame.columns))
    kind = draw.choice(
        ("category", "string", "object", "bytes", "tuple", "time", "null", "odd", "twice", "sparse")
    )
    if kind in ("category", "string", "object"):
        frame[column] = frame[column].astype(kind)
    elif kind == "twice":
        frame.insert(0, column, frame[column], allow_duplicates=True)
    elif kind == "sparse":
        frame["y"] = pd.arrays.SparseArray(np.arange(NODES) % 2)
    else:
        odd: dict[str, Any] = {"bytes": b"\xff", "tuple": (1, 2), "time": pd.Timestamp("2020"), "null": None}
        frame[column] = frame[column].astype(object)
        frame.at[draw.randrange(NODES), column] = odd.get(kind, ODD[draw.choice(list(ODD))]())
    return graph_faults(from_pandas(nodes, edges))


def _pyg(values: dict[str, Any], draw: random.Random, base: Path) -> list[str]:
    data = Data(x=torch.from_numpy(FEATURES), edge_index=torch.from_numpy(EDGES), y=torch.from_numpy(LABELS))
    name = draw.choice(
        ("x", "edge_index", "y", "train_mask", "edge_weight", "edge_attr", "edge_type", "num_nodes")
    )
    how = draw.random()
    if how < 0.4:
        data[name] = ODD[draw.choice(list(ODD))]()
    else:
        usual = {"x": FEATURES, "edge_index": EDGES, "y": LABELS}.get(name, SPLIT)
        given = [draw.choice(TYPES), draw.choice(LAYOUTS), draw.choice(DAMAGES)]
        made = _made(given, usual, draw)
        data[name] = torch.tensor(made) if isinstance(made, list | tuple) and how < 0.7 else made
    return graph_faults(from_pyg(data, directed=values["directed"]))


def _networkx(values: dict[str, Any], draw: random.Random, base: Path) -> list[str]:
    network: Any = draw.choice((nx.Graph, nx.DiGraph, nx.MultiGraph))()
    names = [
        draw.choice((number, f"n{number}", (number, "a"), draw.choice(WORDS))) for number in range(NODES)
    ]
    for place, name in enumerate(names):
        network.add_node(name, x=FEATURES[place].tolist(), label=int(LABELS[place]), size=place)
    network.add_edges_from((names[one], names[other]) for one, other in EDGES.T.tolist())
    if draw.random() < 0.7:
        node, key = draw.choice(names), draw.choice(("x", "label", "size", "split", "weight"))
        network.nodes[node][key] = ODD[draw.choice(list(ODD))]()
    if draw.random() < 0.4:
        one, other = next(iter(network.edges()))[:2]
        edge = network.edges[one, other, 0] if network.is_multigraph() else network.edges[one, other]
        edge["weight"] = ODD[draw.choice(list(ODD))]()
    graph = as_graph(network) if draw.random() < 0.5 else from_networkx(network, features="x", label="label")
    return graph_faults(graph)


@functools.cache
def _model(base: Path) -> tuple[GDPNet, Graph]:
    return GDPNet.load(base / "run", device="cpu"), read_graph(base / "graph")


def load_model(base: Path) -> None:
    """Load the model that arguments are handed to, once for all forks."""
    _model(base)


ARGUMENTS: dict[str, Callable[[GDPNet, Graph, Any], Any]] = {
    "embed nodes": lambda model, graph, value: model.embed(graph, value),
    "predict nodes": lambda model, graph, value: model.predict(graph, value),
    "probability nodes": lambda model, graph, value: model.predict_proba(graph, nodes=value),
    "graph": lambda model, graph, value: model.predict(value),
    "denoise threshold": lambda model, graph, value: model.denoise(graph, threshold=value),
    "score split": lambda model, graph, value: model.score(graph, value),
    "explain node": lambda model, graph, value: model.explain(graph, value),
    "load path": lambda model, graph, value: GDPNet.load(value, device="cpu"),
    "device": lambda model, graph, value: GDPNet.load("nowhere", device=value),
    "setting": lambda model, graph, value: GDPNet(epochs=value),
    "nested setting": lambda model, graph, value: GDPNet(policy__hidden=value),
    "task": lambda model, graph, value: GDPNet(task=value).config,
    "seed": lambda model, graph, value: GDPNet(seed=value, epochs=1, warmup=1, task="clusters").fit(graph),
    "read path": lambda model, graph, value: read_graph(value),
    "read columns": lambda model, graph, value: read_graph(Path("nowhere"), columns={"node": value}),
    "numbers of": lambda model, graph, value: graph.numbers_of(value),
    "nodes in": lambda model, graph, value: graph.nodes_in(value),
    "feature names": lambda model, graph, value: graph.with_feature_names(value),
    "explain nodes": lambda model, graph, value: next(model.explain_nodes(graph, value), None),
    "denoise symmetric": lambda model, graph, value: model.denoise(graph, symmetric=value),
    "link ends": lambda model, graph, value: model.predict_links(graph, value),
    "dataset": lambda model, graph, value: load_dataset(value, download=False),
    "synthetic settings": lambda model, graph, value: synthetic_graph(value),
    "split shares": lambda model, graph, value: with_split(graph, value),
    "split seed": lambda model, graph, value: with_split(graph, seed=value),
    "folds": lambda model, graph, value: cross_validation_splits(graph, value),
    "build edges": lambda model, graph, value: Graph.build(value, FEATURES),
    "build features": lambda model, graph, value: Graph.build(EDGES, value),
    "build labels": lambda model, graph, value: Graph.build(EDGES, FEATURES, value),
    "build ids": lambda model, graph, value: Graph.build(EDGES, FEATURES, node_ids=value),
    "build names": lambda model, graph, value: Graph.build(EDGES, FEATURES, LABELS, class_names=value),
    "frames": lambda model, graph, value: from_pandas(value, value),
    "adjacency": lambda model, graph, value: from_scipy(value),
}
"""Arguments of the Python interface, by what they are."""


def _argument(values: dict[str, Any], draw: random.Random, base: Path) -> list[str]:
    model, graph = _model(base)
    ARGUMENTS[values["to"]](model, graph, ODD[values["value"]]())
    return []


_CALLS: dict[str, Callable[[dict[str, Any], random.Random, Path], list[str]]] = {
    "build": _build,
    "scipy": _scipy,
    "pandas": _pandas,
    "pyg": _pyg,
    "networkx": _networkx,
    "argument": _argument,
}
