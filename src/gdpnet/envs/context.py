"""The setup of an environment: a graph encoded by a fitted classifier, and the nodes that may be targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config, RewardSettings
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.io.open import open_graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import select_context
from gdpnet.selection.episodes import View
from gdpnet.training.data import make_training_data, split_for_training
from gdpnet.training.parts import checked_labels, part_and_numbers

QUICK_CONFIG = Config().with_values(
    {
        "training": {"selection": False, "epochs": 20, "warmup": 0},
        "representation": {"width": 32},
        "hopwise": {"use": False},
        "gcn": {"use": False},
        "all_edges": {"use": False},
        "trees": {"use": False},
        "linear": {"use": False},
    }
)
"""Settings of the default classifier, which takes two seconds to fit on the synthetic graph."""


@dataclass(frozen=True)
class Context:
    """A graph, the view of its nodes, its targets, and the settings of the reward."""

    graph: Graph
    prepared: Prepared
    view: View
    targets: Int[Tensor, "targets"]
    """Possible targets: labelled nodes with neighbours."""
    labels: Int[Tensor, "nodes"]
    row_shift: Int[Tensor, "nodes"]
    """Added to the number of a target, and of its neighbours, to give their rows in the target's fold model."""
    reward: RewardSettings
    extras: bool
    """Whether observations hold more than [h_v, h_u]."""
    split: str = "train"

    def __deepcopy__(self, memo: dict[int, Any]) -> Context:
        """Return the context itself: it is immutable, and Gymnasium often copies an environment's arguments."""
        return self

    def number_of(self, node_id: Any) -> int:
        """Return the number of a target from its id; raise if it cannot be a target."""
        number = self.graph.node_number(str(node_id))
        if int(self.graph.degree[number]) == 0:
            raise GraphError(
                f"a target must have a neighbour to decide on, found none of node '{node_id}' in the graph of the "
                f"split '{self.split}'"
            )
        if not bool((self.targets == number).any()):
            raise GraphError(
                f"a target must be a labelled node of the split '{self.split}', found '{node_id}'"
            )
        return number


def make_context(
    model: GDPNet, graph: Graph, *, split: str = "train", reward: RewardSettings | None = None
) -> Context:
    """Make the context of an environment from a fitted model and a graph.

    The split ``train`` is set up as in training: on the subgraph of the training nodes, each target encoded by the
    fold model that never learned its label; the graph must be the one that the model was fitted on. Nodes of the
    other splits are targets on the whole graph, encoded by the first fold model. With two hops, the message of a
    neighbour is the mean over the neighbours that the model's policy selects for it, or over all without a policy.
    """
    if not isinstance(split, str) or split not in SPLITS[1:]:
        raise ConfigError(f"split must be one of {', '.join(SPLITS[1:])}, found '{split}'")
    model.predictor(graph)  # refuses a graph with other feature columns
    if model.config_.task.kind != "classification":
        raise ConfigError(
            f"the model of an environment must be trained for classification, found {model.config_.task.kind}"
        )
    # a model without selection prepares no pair features, which the environment observes
    config = model.config_.with_values({"training": {"selection": True, "injected": 0.0}})
    subgraph, prepared, targets, fold_model = _split_graph(model, graph, split, config)
    labels = model.trained_.labels_of(subgraph).to(model.device_)
    targets = targets[(labels[targets] != UNKNOWN) & (prepared.row_ptr.diff()[targets] > 0)]
    if targets.numel() == 0:
        raise GraphError(f"a labelled node of the split '{split}' must have a neighbour, found no such node")
    networks, key = model.networks_, Key.of(model.seed).fold_in("predict")
    if networks.policy is not None:
        prepared = select_context(
            networks.policy, networks.aggregators, prepared, targets, config, key, fold_model
        )[1]
    return Context(
        graph=subgraph,
        prepared=prepared,
        view=make_view(networks.aggregators, prepared, slice(None)),
        targets=targets,
        labels=labels,
        row_shift=fold_model * prepared.num_nodes,
        reward=config.reward if reward is None else reward,
        extras=config.policy.state != "paper",
        split=split,
    )


def _split_graph(
    model: GDPNet, graph: Graph, split: str, config: Config
) -> tuple[Graph, Prepared, Int[Tensor, "targets"], Int[Tensor, "nodes"]]:
    """Return the graph of a split, prepared, the split's nodes, and the fold model of every node."""
    if split == "train":
        graph = checked_labels(graph, model.config_)
        graph, numbers = part_and_numbers(graph, model.config_, model.seed)
        data = make_training_data(graph, config, model.seed, model.device_, numbers=numbers)
        return graph.induced(data.seen.cpu()), data.train, data.targets, data.fold_model
    code = split_for_training(graph, model.seed)
    targets = (code == SPLITS.index(split)).nonzero().flatten().to(model.device_)
    fold_model = torch.zeros(graph.num_nodes, dtype=torch.long, device=model.device_)
    return graph, prepare(model.trained_.as_read(graph), config, model.device_), targets, fold_model


def open_context(
    context: Context | None = None,
    *,
    model: GDPNet | str | Path | None = None,
    graph: Graph | str | Path | None = None,
    split: str = "train",
    reward: RewardSettings | None = None,
) -> Context:
    """Return the given context, or make one; the default graph is the synthetic one."""
    if context is not None:
        if model is not None or graph is not None or reward is not None:
            raise ConfigError("an environment takes a context, or a model and a graph, found both")
        return context
    if model is None and graph is None:
        return _default_context(split, reward)
    if graph is None:
        raise ConfigError("an environment with a model must also have a graph, found none")
    graph = graph if isinstance(graph, Graph) else open_graph(str(graph))
    if model is None:
        model = _quick_model(graph)
    elif not isinstance(model, GDPNet):
        model = GDPNet.load(model)
    return make_context(model, graph, split=split, reward=reward)


def _quick_model(graph: Graph) -> GDPNet:
    return GDPNet.from_config(QUICK_CONFIG, device="cpu").fit(graph)


@lru_cache(maxsize=1)
def _default_model() -> tuple[GDPNet, Graph]:
    graph = synthetic_graph(seed=0)
    return _quick_model(graph), graph


@lru_cache(maxsize=8)
def _default_context(split: str, reward: RewardSettings | None) -> Context:
    model, graph = _default_model()
    return make_context(model, graph, split=split, reward=reward)
