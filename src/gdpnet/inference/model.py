"""A trained model: everything that is saved, and how it is read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.version import __version__
from gdpnet.config import Config, upgrade_settings
from gdpnet.data.graph import Graph
from gdpnet.data.schema import OWN, Columns, EdgeColumns, MadeRows, as_read, encoded_as, made_rows, read_edges
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError, ModelFileError, reason_of
from gdpnet.inference.ensemble import Ensemble, HeadWeights
from gdpnet.inference.model_checks import check_about, checked_networks
from gdpnet.inference.model_file import ModelPlace, checksum, read_tensors, write_tensors
from gdpnet.inference.networks import Networks
from gdpnet.inference.objective import saved_task
from gdpnet.inference.threshold import Choice
from gdpnet.inference.unsupervised import reduce_features
from gdpnet.representation.tasks import JOINS, MultiLabel, Task

MODEL_NAME = "model.safetensors"
"""The name of the model file in a run folder."""

_PLAIN = ("seed", "selects", "best_epoch", "validation_f1")
"""The fields that are saved as they are."""


class SuspectedLabel(NamedTuple):
    """A training label that is probably wrong and was not used after the warm-up."""

    node: str
    label: str
    suggested: str
    """The class that cross-fitted models predict instead."""


@dataclass(frozen=True)
class TrainedModel:
    """The networks, the settings they were trained with, and what was chosen on validation nodes."""

    config: Config
    seed: int
    networks: Networks
    columns: Columns
    """The feature columns that the model reads."""
    encoding: Encoding | None
    """How the columns of a node table become these, if it was trained on a table."""
    classes: np.ndarray
    task: Task
    weights: HeadWeights = field(default_factory=HeadWeights)
    threshold: Choice = field(default_factory=lambda: Choice(0.0))
    selects: bool = True
    """Whether link prediction weights edges by their keep probability, rather than all alike."""
    history: tuple[dict[str, Any], ...] = ()
    best_epoch: int = 0
    validation_f1: float = float("nan")
    suspected_labels: tuple[SuspectedLabel, ...] = ()
    edge_columns: EdgeColumns | None = None
    """The edge features that the policy observes; None if it was trained without any."""

    def __post_init__(self) -> None:
        """Refuse networks of other sizes than the columns and classes."""
        networks = self.networks
        width = networks.aggregators.weight.shape[0] if networks.basis is None else networks.basis.shape[0]
        if (width, networks.aggregators.classes) != (self.columns.width, len(self.classes)):
            found = f"{self.columns.width} features and {len(self.classes)} classes"
            raise ValueError(f"weights are not of {found}")

    @property
    def device(self) -> torch.device:
        """Return the device that the model computes on."""
        return self.networks.device

    @property
    def ensemble(self) -> Ensemble:
        """Return the heads with their weights."""
        return Ensemble(self.networks, self.weights, self.threshold.threshold)

    def matched(self, graph: Graph) -> Graph:
        """Return a graph with the columns of training, found by name; refuse one without them or edge features."""
        if self.edge_columns is not None:
            self.edge_columns.check(graph)
        return self.columns.matched(encoded_as(graph, self.encoding))

    def as_read(self, graph: Graph) -> Graph:
        """Return a graph with the features that the networks read: structural or reduced ones where they do."""
        graph, basis = as_read(read_edges(graph, self.edge_columns), self.config), self.networks.basis
        return graph if basis is None else reduce_features(graph, basis.cpu())

    def made_rows(self, graph: Graph) -> dict[str, MadeRows]:
        """Return the arrays by name that `as_read` makes; rows are made when they are asked for."""
        return made_rows(graph, self.config, self.edge_columns)

    def labels_of(self, graph: Graph) -> Int[Tensor, "nodes"]:
        """Return a graph's labels in the order of this model's classes; a class it does not know is unknown."""
        known = {str(name): number for number, name in enumerate(self.classes)}
        place = torch.tensor([*(known.get(name, UNKNOWN) for name in graph.class_names), UNKNOWN])
        return place[graph.labels]

    def named(self, probabilities: Float[np.ndarray, "nodes classes"]) -> np.ndarray:
        """Return the most probable class of each node, or its labels joined by ``|``."""
        if isinstance(self.task, MultiLabel):
            return np.array([JOINS.join(self.classes[one > 0.5]) for one in probabilities], dtype=str)
        return self.classes[probabilities.argmax(axis=1)]

    def cleaning_threshold(self, asked: float | None = None) -> tuple[float, str]:
        """Return the threshold of the cleaned graph and the reason for it: as asked, or as chosen on validation."""
        if asked is None:
            return self.threshold.threshold, self.threshold.reason
        if isinstance(asked, bool) or not isinstance(asked, Real) or not 0.0 <= asked <= 1.0:
            raise ConfigError(
                f"the threshold of a keep probability must lie between 0 and 1, found {asked!r}"
            )
        return asked, f"threshold {asked:g}, as asked for"

    def about(self) -> dict[str, Any]:
        """Return all that is saved beside the tensors, as plain values."""
        return {name: getattr(self, name) for name in _PLAIN} | {
            "config": self.config.to_dict(),
            "classes": [str(name) for name in self.classes],
            "columns": self.columns.to_dict(),
            "encoding": self.encoding and self.encoding.to_dict(),
            "version": __version__,
            "history": list(self.history),
            "threshold": self.threshold.to_dict(),
            "ensemble": self.weights._asdict(),
            "suspected_labels": [list(one) for one in self.suspected_labels],
            "edge_columns": None if self.edge_columns is None else self.edge_columns.to_dict(),
        }

    def fingerprint(self) -> str:
        """Return a short checksum of everything that decides what this model predicts."""
        about = self.about()
        decisive = {key: about[key] for key in ("config", "classes", "seed", "threshold", "ensemble")}
        decisive |= {} if self.encoding is None else {"encoding": about["encoding"]}
        decisive |= {} if self.edge_columns is None else {"edge_columns": about["edge_columns"]}
        return checksum(self.networks.tensors(), json.dumps(decisive, sort_keys=True))[:16]

    def save(self, path: ModelPlace) -> None:
        """Write the model to one file."""
        write_tensors(path, "model", self.networks.tensors(), self.about())

    @classmethod
    def load(cls, path: ModelPlace, device: torch.device, task: Task | None = None) -> TrainedModel:
        """Read a model file of any supported version, or that of a run folder."""
        path = path / MODEL_NAME if path.is_dir() else path
        tensors, about = read_tensors(path, "model")
        try:
            return cls._from_file(*_upgraded(tensors, about), device, task)
        except (
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RuntimeError,
            ModelFileError,
        ) as error:
            raise ModelFileError(f"{path} does not hold a whole model ({reason_of(error)})") from error

    @classmethod
    def _from_file(
        cls, tensors: Mapping[str, Tensor], about: dict[str, Any], device: torch.device, task: Task | None
    ) -> TrainedModel:
        check_about(about)
        config = Config().with_values(about["config"])
        task = saved_task(config, about["classes"]) if task is None else task
        edges = EdgeColumns.from_dict(about.get("edge_columns"))
        width = 0 if edges is None else edges.width
        networks = checked_networks(config, tensors, task.exclusive, width)
        return cls(
            config=config,
            networks=networks.to(device),
            edge_columns=edges,
            columns=Columns.from_dict(about["columns"]),
            encoding=Encoding.from_dict(about["encoding"]) if about.get("encoding") else None,
            classes=np.array(about["classes"]),
            task=task,
            weights=HeadWeights(**about["ensemble"]),
            threshold=Choice.from_dict(about["threshold"]),
            history=tuple(about["history"]),
            suspected_labels=tuple(SuspectedLabel(*one) for one in about["suspected_labels"]),
            **{name: about[name] for name in _PLAIN},
        )


_PREFIXES = {"reader.": "hopwise.", "convolutions.": "gcn.", "linker.": "link_predictor."}
"""Names of networks in files of format 3 and 4, and their names now."""


def _upgraded(tensors: dict[str, Tensor], about: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the content of a file under the names of this version; one of this version is left as it is."""
    if "ensemble" in about:
        return tensors, about
    share = float(tensors.pop("reader.share", torch.ones(()))) if "reader.weight" in tensors else 0.0
    for old, new in _PREFIXES.items():
        tensors = {
            new + name.removeprefix(old) if name.startswith(old) else name: value
            for name, value in tensors.items()
        }
    config = upgrade_settings(about["config"])
    weights = HeadWeights().with_hopwise(share)
    if "gcn.weights.0" in tensors:
        weights = weights.with_gcn(config["gcn"]["weight"])
    width = int(about["num_features"])
    columns = about.get("columns") or Columns(OWN, width).to_dict()
    if columns["width"] != width:
        raise ValueError(f"it tells of {columns['width']} and of {width} features")
    current: dict[str, Any] = {
        "config": config,
        "columns": columns,
        "ensemble": weights._asdict(),
        "history": [
            {"injected_auc" if key == "told" else key: value for key, value in epoch.items()}
            for epoch in about["history"]
        ],
        "selects": about.get("selects", True),
        "suspected_labels": about.get("doubted", []),
    }
    return tensors, about | current
