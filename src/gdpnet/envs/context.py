"""What episodes are played on: a graph as a fitted classifier sees it, and the nodes that may be targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.config import Config, RewardSettings
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.data.graph import SPLITS, UNKNOWN, Graph
from gdpnet.data.io.open import open_graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import look_around
from gdpnet.selection.episodes import View
from gdpnet.training.data import make_scene, split_for_training

QUICK = Config().with_values(
    {
        "training": {"selection": False, "epochs": 20, "warmup": 0},
        "representation": {"width": 32},
        "reader": {"use": False},
    }
)
"""Settings of the classifier that is fitted where none is given: two seconds on the generated graph."""

PLAYED = ("train", "validation", "test")
"""Splits whose nodes may be targets."""


@dataclass(frozen=True)
class World:
    """A graph, what is seen of it, its targets, and what a decision earns."""

    graph: Graph
    prepared: Prepared
    view: View
    targets: Int[Tensor, "targets"]
    """Nodes that an episode may be about: labelled, with neighbours."""
    labels: Int[Tensor, "nodes"]
    row_shift: Int[Tensor, "nodes"]
    """What is added to a target's number, and its neighbours', to give the rows of the member that speaks of it."""
    reward: RewardSettings
    extras: bool
    """Whether more is shown than [h_v, h_u]."""
    split: str = "train"

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        """Return the world itself: it never changes, and Gymnasium copies the arguments of an environment often."""
        return self

    def number_of(self, node_id: Any) -> int:
        """Return the number of a target from its id, or say why it cannot be one."""
        number = self.graph.node_number(str(node_id))
        if int(self.graph.degree[number]) == 0:
            raise GraphError(
                f"a target must have a neighbour to decide on, found none of node '{node_id}' in what the split "
                f"'{self.split}' sees"
            )
        if not bool((self.targets == number).any()):
            raise GraphError(
                f"a target must be a labelled node of the split '{self.split}', found '{node_id}'"
            )
        return number


def wanted_target(options: dict[str, Any] | None) -> Any:
    """Return the target that the options of a reset name, nothing if they name none."""
    unknown = set(options or {}) - {"target"}
    if unknown:
        raise ConfigError(f"options of a reset may name a target, found '{min(unknown, key=str)}'")
    return (options or {}).get("target")


def make_world(
    model: GDPNet, graph: Graph, *, split: str = "train", reward: RewardSettings | None = None
) -> World:
    """Make what episodes are played on from a fitted model and a graph.

    For ``train`` it is what training plays: the graph of the training nodes, each target as seen by the member
    that never learned its label; the graph must then be the one that the model was fitted on. Nodes of the other
    splits are played on the whole graph as the first member sees them. With two hops neighbours give the mean over
    what the model's own policy selects for them, or over all theirs where it has none.
    """
    if split not in PLAYED:
        raise ConfigError(f"split must be one of {', '.join(PLAYED)}, found '{split}'")
    model.check_graph(graph)
    if model.config_.task.kind != "classification":
        raise ConfigError(f"an environment is of task classification, found {model.config_.task.kind}")
    # a model without selection prepares no pair features; here somebody selects
    config = model.config_.with_values({"training": {"selection": True, "injected": 0.0}})
    played, prepared, targets, member = _cut(model, graph, split, config)
    labels = model.labels_of(played).to(model.device_)
    targets = targets[(labels[targets] != UNKNOWN) & (prepared.row_ptr.diff()[targets] > 0)]
    if targets.numel() == 0:
        raise GraphError(f"a labelled node of the split '{split}' must have a neighbour, found none that has")
    if model.policy_ is not None:
        prepared = look_around(
            model.policy_, model.aggregators_, prepared, targets, config, model.seed, member
        )[1]
    return World(
        graph=played,
        prepared=prepared,
        view=make_view(model.aggregators_, prepared, slice(None)),
        targets=targets,
        labels=labels,
        row_shift=member * prepared.num_nodes,
        reward=config.reward if reward is None else reward,
        extras=config.policy.state != "paper",
        split=split,
    )


def _cut(
    model: GDPNet, graph: Graph, split: str, config: Config
) -> tuple[Graph, Prepared, Int[Tensor, "targets"], Int[Tensor, "nodes"]]:
    """Return the graph that a split is played on, made ready, its nodes, and the member that speaks of each."""
    if split == "train":
        graph = model.part_of(graph)
        scene = make_scene(graph, config, model.seed, model.device_)
        return graph.induced(scene.seen.cpu()), scene.train, scene.targets, scene.member
    code = split_for_training(graph, model.seed)
    targets = (code == SPLITS.index(split)).nonzero().flatten().to(model.device_)
    member = torch.zeros(graph.num_nodes, dtype=torch.long, device=model.device_)
    return graph, prepare(model.as_read(graph), config, model.device_), targets, member


def open_world(
    world: World | None,
    model: GDPNet | str | Path | None,
    graph: Graph | str | Path | None,
    split: str,
    reward: RewardSettings | None,
) -> World:
    """Return the world that was given, or make one; without model and graph, of the generated graph."""
    if world is not None:
        if model is not None or graph is not None or reward is not None:
            raise ConfigError("an environment is made of a world, or of a model and a graph, found both")
        return world
    if model is None and graph is None:
        return _default_world(split, reward)
    if graph is None:
        raise ConfigError("an environment of a model must have a graph to be played on, found none")
    graph = graph if isinstance(graph, Graph) else open_graph(str(graph))
    if model is None:
        model = _quick_model(graph)
    elif not isinstance(model, GDPNet):
        model = GDPNet.load(model)
    return make_world(model, graph, split=split, reward=reward)


def _quick_model(graph: Graph) -> GDPNet:
    return GDPNet.from_config(QUICK, device="cpu").fit(graph)


@lru_cache(maxsize=1)
def _default_model() -> tuple[GDPNet, Graph]:
    graph = synthetic_graph(seed=0)
    return _quick_model(graph), graph


@lru_cache(maxsize=8)
def _default_world(split: str, reward: RewardSettings | None) -> World:
    model, graph = _default_model()
    return make_world(model, graph, split=split, reward=reward)
