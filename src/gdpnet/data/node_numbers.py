"""Nodes as users name them, by id or by number, as node numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet.data.array_checks import array_of, tensor_of
from gdpnet.data.graph import Graph
from gdpnet.data.validation import id_text
from gdpnet.errors import GraphError, refusing


@refusing("the nodes")
def node_numbers(graph: Graph, nodes: Any = None) -> Int[Tensor, "*asked"]:
    """Return the numbers of nodes that are named by id or by number, in the order given; all nodes by default.

    - Text is an id.
    - Whole numbers, one or a list, are ids if the ids of the graph are whole numbers, and node numbers otherwise.
    - Tensors and numpy arrays of whole numbers are node numbers. An array whose values are at the same time ids of
      other nodes is refused.
    - Tensors, arrays, lists and pandas columns of true and false have one value per node.
    """
    if nodes is None:
        return torch.arange(graph.num_nodes)
    if isinstance(nodes, Tensor):
        return _masked_or_checked(graph, tensor_of(nodes, "nodes"))
    nodes = _mask_array(nodes)
    if isinstance(nodes, np.ndarray) and nodes.dtype.kind in "biu":
        numbers = _masked_or_checked(graph, tensor_of(nodes, "nodes"))
        if nodes.dtype.kind != "b":
            _refuse_ambiguous(graph, nodes)
        return numbers
    return _by_word(graph, nodes)


def _mask_array(nodes: Any) -> Any:
    """Return a list or a pandas column of true and false as an array; anything else as it is."""
    if isinstance(nodes, list | tuple):
        return np.array(nodes) if nodes and all(isinstance(node, bool) for node in nodes) else nodes
    is_column = hasattr(nodes, "to_numpy") and str(getattr(nodes, "dtype", "")) in ("bool", "boolean")
    return nodes.to_numpy(dtype=bool) if is_column else nodes


@refusing("the pairs of nodes")
def pair_numbers(graph: Graph, pairs: Any) -> Int[Tensor, "2 pairs"]:
    """Return the numbers of pairs of nodes, as two rows.

    Tuples are pairs: one, or a list of them. Other lists, arrays and tensors have two rows, sources and targets, or
    one row per pair; two by two values are two rows. A frame has one row per pair.
    """
    if hasattr(pairs, "to_numpy") and getattr(pairs, "ndim", 0) == 2:
        pairs = [tuple(row) for row in pairs.to_numpy().tolist()]
    if not hasattr(pairs, "shape"):
        if isinstance(pairs, Iterable) and not isinstance(pairs, str | tuple):
            pairs = _listed(pairs, graph.num_nodes**2, "pairs")
        pairs = [pairs] if _is_pair(pairs) else pairs
        if isinstance(pairs, list) and pairs and all(_is_pair(one) for one in pairs):
            pairs = [[one[0] for one in pairs], [one[1] for one in pairs]]
    shape = tuple(pairs.shape) if hasattr(pairs, "shape") else _shape_of(pairs)
    if len(shape) != 2 or 2 not in shape:
        raise GraphError(
            "pairs must be two rows of nodes, one row per pair, or a list of tuples of two nodes, found shape "
            f"{shape}"
        )
    numbers = node_numbers(graph, pairs if hasattr(pairs, "shape") else [list(row) for row in pairs])
    return numbers if shape[0] == 2 else numbers.T.contiguous()


def _listed(values: Iterable[Any], most: int, what: str) -> list[Any]:
    """Return values as a list; refuse an iterator or a range that goes on for longer than there are any."""
    if isinstance(values, Sized) and not isinstance(values, range):
        return list(values)
    found = list(islice(values, most + 1))
    if len(found) > most:
        raise GraphError(f"there are {most:,} {what}, found a {type(values).__name__} of more: give a list")
    return found


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and not any(np.ndim(one) for one in value)


def _shape_of(rows: Any) -> tuple[int, ...]:
    """Return the shape of nested lists, without a second number if their lengths differ."""
    if not isinstance(rows, list | tuple):
        return ()
    lengths = {len(row) if isinstance(row, list | tuple) else -1 for row in rows}
    width = lengths.pop() if len(lengths) == 1 else -1
    return (len(rows),) if width < 0 else (len(rows), width)


def has_whole_number_ids(graph: Graph) -> bool:
    """Return whether every id of a graph is a whole number, as a number or as text."""
    if graph.node_ids.dtype.kind in "iu":
        return True
    return all(_whole_text(name) for name in id_text(graph.node_ids).tolist())


def _whole_text(name: str) -> bool:
    """Return whether a text is what a whole number is written as: 7 and -7, not 07."""
    digits = name.removeprefix("-")
    return digits.isdecimal() and (digits == "0" or not digits.startswith("0"))


def _by_word(graph: Graph, nodes: Any) -> Int[Tensor, "*asked"]:
    """Return the numbers of one node, of a list, or of a list of lists."""
    if isinstance(nodes, bytes | bytearray | memoryview):
        raise GraphError(
            "ids must be text or whole numbers, found bytes"
        )  # its letters would be read as numbers
    if isinstance(nodes, str | Integral) or not isinstance(nodes, Iterable):
        return _by_word(graph, [nodes])
    if isinstance(nodes, np.ndarray):
        nodes = array_of(nodes, "nodes")
    rows = nodes.tolist() if hasattr(nodes, "tolist") else _listed(nodes, graph.num_nodes, "nodes")
    if rows and all(isinstance(row, list) for row in rows):
        if len({len(row) for row in rows}) > 1:
            raise GraphError("rows of nodes must be of one length, found several")
        return torch.stack([_by_word(graph, row) for row in rows])
    whole = [isinstance(node, Integral) and not isinstance(node, bool) for node in rows]
    if all(whole) and not (rows and has_whole_number_ids(graph)):
        return _masked_or_checked(graph, torch.tensor(rows, dtype=torch.long))
    return graph.numbers_of(rows)


def _masked_or_checked(graph: Graph, nodes: Tensor) -> Int[Tensor, "*asked"]:
    count = graph.num_nodes
    if nodes.dtype == torch.bool:
        return _nodes_of_mask(nodes, count)
    if nodes.is_floating_point():
        raise GraphError(f"nodes must be ids or whole numbers, found {nodes.dtype}")
    numbers = nodes.long()
    if numbers.numel() and not (int(numbers.min()) >= 0 and int(numbers.max()) < count):
        hint = "; give ids as a list" if has_whole_number_ids(graph) else ""
        raise GraphError(f"node numbers must lie between 0 and {count - 1}{hint}")
    return numbers


def _nodes_of_mask(mask: Bool[Tensor, "*any"], count: int) -> Int[Tensor, "asked"]:
    if mask.shape != (count,):
        raise GraphError(
            f"a mask must hold true or false for each of {count} nodes, found shape {tuple(mask.shape)}"
        )
    return mask.nonzero().flatten()


def _refuse_ambiguous(graph: Graph, nodes: Int[np.ndarray, "*asked"]) -> None:
    """Refuse an array that can be read as numbers and as ids of other nodes."""
    if not nodes.size or not has_whole_number_ids(graph):
        return
    values: Sequence[int] = nodes.ravel().tolist()
    try:
        other = graph.numbers_of(values)
    except GraphError:  # not all of them are ids
        return
    if other.tolist() != values:
        raise GraphError(
            "an array of whole numbers must name nodes in one way, found values that are node numbers and also ids "
            "of other nodes: give ids as a list, numbers as a tensor"
        )
