"""Check what a model file says before it is used: types, sizes, and trees that compiled loops can follow."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gdpnet._core.json_file import entries, entry
from gdpnet.config import Config
from gdpnet.data.validation import text_array
from gdpnet.errors import ModelFileError
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.evidence import COLUMNS
from gdpnet.inference.networks import Networks, build_networks
from gdpnet.inference.threshold import KEEP_ALL
from gdpnet.representation.trees import BoostedTrees

_KINDS: dict[str, Any] = {
    "config": dict,
    "columns": dict,
    "ensemble": dict,
    "threshold": dict,
    "classes": list,
    "history": list,
    "suspected_labels": list,
    "seed": int,
    "best_epoch": int,
    "selects": bool,
    "validation_f1": float,
}
"""What a model file must say, and of which type."""


def check_about(about: dict[str, Any]) -> None:
    """Refuse a description with an entry of another type; its checksum only says that nobody changed it since."""
    where = "the description"
    for key, kind in _KINDS.items():
        entry(about, key, kind, where, ModelFileError)
    for key, kind in (("classes", str), ("history", dict), ("suspected_labels", list)):
        entries(about, key, kind, where, ModelFileError)
    text_array(about["classes"], "class names")
    for name in HeadWeights._fields:
        weight = entry(about["ensemble"], name, float, where, ModelFileError, default=0.0)
        if not 0.0 <= weight <= 1.0:
            raise ModelFileError(f"the weight of a head must lie between 0 and 1, found {weight}")
    threshold = entry(about["threshold"], "threshold", float, where, ModelFileError)
    scores = entries(about["threshold"], "scores", list, where, ModelFileError)
    if not 0.0 <= threshold <= 1.0 or (scores and not {threshold, KEEP_ALL} <= {one[0] for one in scores}):
        raise ModelFileError(f"the threshold must lie between 0 and 1 and have a score, found {threshold}")


def checked_networks(
    config: Config, tensors: Mapping[str, Tensor], exclusive: bool, edge_columns: int
) -> Networks:
    """Build the networks of a model file, after checking that its settings ask for no more than it holds."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise ValueError(f"'{name}' holds values that are not numbers")
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that nothing is copied
        # without memory: sizes that differ are found before any of them is allocated
        build_networks(config, tensors, exclusive=exclusive, edge_columns=edge_columns)
    networks = build_networks(config, tensors, exclusive=exclusive, edge_columns=edge_columns)
    for trees, features in _trees_of(networks):
        trees.check(features)
    return networks


def _trees_of(networks: Networks) -> list[tuple[BoostedTrees, int | None]]:
    """Return the boosted trees of a model, with the number of columns that they see."""
    own = networks.aggregators.weight.shape[0] if networks.basis is None else networks.basis.shape[0]
    found: list[tuple[BoostedTrees, int | None]] = (
        [] if networks.trees is None else [(networks.trees, int(own))]
    )
    if networks.evidence is not None:
        found += [(networks.evidence.first, COLUMNS), (networks.evidence.second, 2 * COLUMNS)]
    return found
