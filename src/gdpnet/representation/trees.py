"""Boosted trees as plain tensors: fitted by scikit-learn, saved with the networks, evaluated on any device.

A split sends a value to the left if it is at most the threshold. Thresholds are rounded down to single precision,
which changes nothing for values of single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet._core.device import at_once, has_numba

_AT_ONCE, _AT_ONCE_ON_DEVICE = 1 << 22, 1 << 26
"""Pairs of a node and a tree that are evaluated together."""
_BYTES_EACH = 40
"""Bytes of such a pair: the place in the tree, and what a step compares."""

Models = Sequence[tuple[Any, Int[np.ndarray, "_"]]]
"""Classifiers of scikit-learn, each with the outputs that its classes stand for."""

_TENSORS = ("feature", "threshold", "left", "right", "value", "root", "output", "baseline", "depth")
_NEVER = -1e4


class BoostedTrees(nn.Module):
    """Several ensembles of boosted trees, the fold models, over the same outputs.

    The knots of all trees are rows of ``feature``, ``threshold``, ``left``, ``right`` and ``value``; a leaf is its
    own left and right. ``root`` and ``output`` say, per tree, its first knot and the place (fold model, output) of
    the score that it adds to. Scores start at ``baseline``.
    """

    feature: Tensor
    left: Tensor
    right: Tensor
    root: Tensor
    output: Tensor
    threshold: Tensor
    value: Tensor
    baseline: Tensor
    depth: Tensor

    def __init__(self, tensors: dict[str, Tensor], *, exclusive: bool = True) -> None:
        super().__init__()
        for name in _TENSORS:
            self.register_buffer(name, tensors[name])
        self.exclusive = exclusive

    def check(self, features: int | None) -> None:
        """Refuse trees whose knots lead nowhere or in a circle; compiled loops follow them without looking.

        ``features`` is the number of columns that they may ask for, None if it is not known.
        """
        knots, own = self.left.numel(), torch.arange(self.left.numel())
        rows = (self.feature, self.threshold, self.left, self.right, self.value)
        fits = all(row.shape == (knots,) for row in rows) and self.root.shape == self.output.shape
        whole = (self.feature, self.left, self.right, self.root, self.output)
        real = (self.threshold, self.value, self.baseline)
        fits &= all(row.dtype == torch.int32 for row in whole) and all(
            row.dtype == torch.float32 for row in real
        )
        fits &= self.baseline.dim() == 2 and self.root.dim() == 1 and self.depth.numel() == 1
        if not fits:
            raise ValueError("trees have tensors of other types or shapes")
        leaf = (self.left == own) & (self.right == own)
        onwards = (self.left > own) & (
            self.right > own
        )  # children come after their parent, so every path ends
        fits = bool((leaf | onwards).all()) and 0 <= int(self.depth) <= knots
        ranges = (
            (self.left, knots),
            (self.right, knots),
            (self.root, knots),
            (self.output, self.baseline.numel()),
        )
        for row, most in (*ranges, (self.feature, features or 1 << 31)):
            fits &= not row.numel() or 0 <= int(row.min()) <= int(row.max()) < most
        if not fits:
            raise ValueError("trees have knots that lead nowhere")

    @property
    def fold_models(self) -> int:
        """Return the number of fold models."""
        return self.baseline.shape[0]

    def scores(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes fold_models outputs"]:
        """Return the sum of the values of the leaves that each node falls into, over all trees."""
        if rows.device.type == "cpu" and rows.dtype == torch.float32 and has_numba():
            return self._compiled(rows)
        most = at_once(rows.device, _AT_ONCE, _AT_ONCE_ON_DEVICE, _BYTES_EACH)
        size = max(1, most // max(1, self.root.numel()))
        return torch.cat([self._some(part) for part in rows.split(size)])

    def _compiled(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes fold_models outputs"]:
        """Evaluate the trees row by row, in a compiled loop."""
        from gdpnet.representation.tree_kernel import add_leaves

        names = ("feature", "threshold", "left", "right", "value", "root", "output")
        scores = self.baseline.flatten().repeat(len(rows), 1)
        trees = (getattr(self, name).numpy() for name in names)
        add_leaves(rows.detach().contiguous().numpy(), *trees, scores.numpy())
        return scores.unflatten(1, self.baseline.shape)

    def _some(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes fold_models outputs"]:
        place = self.root.long().expand(len(rows), -1)
        for _ in range(int(self.depth)):
            goes_left = torch.gather(rows, 1, self.feature[place].long()) <= self.threshold[place]
            place = torch.where(goes_left, self.left[place], self.right[place]).long()
        start = self.baseline.flatten().expand(len(rows), -1)
        return start.index_add(1, self.output.long(), self.value[place]).unflatten(1, self.baseline.shape)

    def fold_probabilities(
        self, rows: Float[Tensor, "nodes features"]
    ) -> Float[Tensor, "nodes fold_models outputs"]:
        """Return the class probabilities of each fold model."""
        scores = self.scores(rows)
        return torch.softmax(scores, dim=2) if self.exclusive else torch.sigmoid(scores)

    def to_probabilities(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes outputs"]:
        """Return the mean of the fold models' probabilities."""
        return self.fold_probabilities(rows).mean(dim=1)


def trees_of(fitted: Sequence[Models], outputs: int) -> dict[str, Tensor]:
    """Return the tensors of boosted trees that scikit-learn has fitted.

    Each fold model is a list of classifiers; None is one that knows one class alone. An output that none of them
    knows has a score so low that its probability is zero.
    """
    baseline, trees, places = np.full((len(fitted), outputs), _NEVER, dtype=np.float32), [], []
    for fold_model, models in enumerate(fitted):
        for model, known in models:
            if model is None:
                baseline[fold_model, known] = 0.0
                continue
            start = model._baseline_prediction.ravel()
            if len(start) < len(known):  # two classes: one score, that of the second
                baseline[fold_model, known[0]] = 0.0
            own = known[-len(start) :]
            baseline[fold_model, own] = start
            trees += [tree.nodes for each in model._predictors for tree in each]
            places += [fold_model * outputs + int(place) for _ in model._predictors for place in own]
    root = np.cumsum([0, *map(len, trees)])
    about = {"root": root[:-1], "output": np.array(places)}
    found = {name: torch.from_numpy(value.astype(np.int32)) for name, value in about.items()}
    depth = max((int(nodes["depth"].max()) for nodes in trees), default=0)
    found |= {"baseline": torch.from_numpy(baseline), "depth": torch.tensor(depth)}
    return found | _knots(trees, root)


def _knots(trees: list[np.ndarray], root: Int[np.ndarray, "_"]) -> dict[str, Tensor]:
    """Return the knots of all trees, numbered through; ``root`` is the number of each tree's first one."""
    if not trees:
        whole = {name: torch.zeros(0, dtype=torch.int32) for name in ("feature", "left", "right")}
        return whole | {name: torch.zeros(0) for name in ("threshold", "value")}
    nodes, shift = np.concatenate(trees), np.repeat(root[:-1], [len(tree) for tree in trees])
    leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
    integers = {"feature": np.where(leaf, 0, nodes["feature_idx"])}
    integers |= {side: np.where(leaf, own, shift + nodes[side]) for side in ("left", "right")}
    numbers = {"threshold": _rounded_down(np.where(leaf, 0.0, nodes["num_threshold"]))}
    numbers["value"] = np.where(leaf, nodes["value"], 0.0).astype(np.float32)
    found = {name: torch.from_numpy(value.astype(np.int32)) for name, value in integers.items()}
    return found | {name: torch.from_numpy(value) for name, value in numbers.items()}


def _rounded_down(value: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Return the largest numbers of single precision that are not above the given ones."""
    near = value.astype(np.float32)
    return np.where(near > value, np.nextafter(near, np.float32(-np.inf)), near)
