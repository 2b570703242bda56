"""GDPNet: what users hold."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor

from gdpnet._core.device import pick_device
from gdpnet._core.version import __version__
from gdpnet.config import (
    Config,
    FeaturesSettings,
    InferenceSettings,
    PolicySettings,
    PPOSettings,
    ReaderSettings,
    RepresentationSettings,
    RewardSettings,
    TaskSettings,
    TrainingSettings,
    filled,
    task_config,
)
from gdpnet.data.edge_weight import times_weights
from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.data.link_split import Pairs, check_mutual, split_links
from gdpnet.data.prepare import prepare
from gdpnet.data.schema import ONE_HOT, OWN, Columns, as_read
from gdpnet.errors import ConfigError, GraphError, ModelFileError, nearest
from gdpnet.inference.ensemble import represent
from gdpnet.inference.explain import Explanation, explain_node
from gdpnet.inference.gcn_head import SHARE, read_deeply, within_hearing
from gdpnet.inference.model_file import checksum, read_tensors, write_tensors
from gdpnet.inference.networks import Networks, build_networks
from gdpnet.inference.result import Denoised
from gdpnet.inference.select import Selected, select
from gdpnet.inference.threshold import KEEP_ALL, Choice, edge_weights
from gdpnet.representation.gcn import Convolutions
from gdpnet.representation.hopwise import Reader
from gdpnet.representation.infomax import Encoder
from gdpnet.representation.propagation import Linker, inner_products
from gdpnet.representation.tasks import CLASSIFICATION, JOINS, MultiLabel, Task, label_names
from gdpnet.selection.policy import Policy
from gdpnet.training.checkpoint import RunFolder, read_checkpoint, write_checkpoint
from gdpnet.training.data import Scene, make_scene, part_for_training
from gdpnet.training.finalise import conclude_clusters, conclude_labelled, conclude_links
from gdpnet.training.label_noise import DoubtedLabel, name_doubted, without_doubted
from gdpnet.training.links import embed_links
from gdpnet.training.trainer import Epoch, TrainingState, begin_training, train_epochs
from gdpnet.training.unsupervised import (
    UNLABELLED,
    begin_study,
    condense,
    fit_basis,
    spread_rows,
)

SECTIONS = tuple(item.name for item in dataclasses.fields(Config))


class GDPNet(BaseEstimator):
    """Learn which neighbours of each node to trust, and represent nodes from those.

    Settings come in sections, each a frozen dataclass of `gdpnet.config`; a section left out has its defaults.
    As in scikit-learn the constructor only stores, ``fit`` returns the model, and what was learned ends in ``_``.
    Single settings are reached by ``section__key``: ``model.set_params(ppo__discount=0.9)``. The task is a kind by
    its name, its section of settings, or a `gdpnet.representation.tasks.Task` of the user's own.
    """

    config_: Config
    device_: torch.device
    policy_: Policy | None
    reader_: Reader | None
    convolutions_: Convolutions | None
    feature_names_in_: np.ndarray
    linker_: Linker | None
    encoder_: Encoder | None
    centres_: Tensor | None
    task_: Task
    doubted_: tuple[DoubtedLabel, ...]

    def __init__(
        self,
        *,
        features: FeaturesSettings | None = None,
        policy: PolicySettings | None = None,
        reward: RewardSettings | None = None,
        ppo: PPOSettings | None = None,
        representation: RepresentationSettings | None = None,
        training: TrainingSettings | None = None,
        reader: ReaderSettings | None = None,
        inference: InferenceSettings | None = None,
        task: Task | TaskSettings | str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.features = features
        self.policy = policy
        self.reward = reward
        self.ppo = ppo
        self.representation = representation
        self.training = training
        self.reader = reader
        self.inference = inference
        self.task = task
        self.seed = seed
        self.device = device

    @classmethod
    def from_config(cls, config: Config, *, seed: int = 0, device: str = "auto") -> Any:
        """Make a model from a whole configuration."""
        return cls(**{name: getattr(config, name) for name in SECTIONS}, seed=seed, device=device)

    @property
    def config(self) -> Config:
        """Return the settings of all sections."""
        task = TaskSettings(kind=self.task) if isinstance(self.task, str) else self.task
        task = task if isinstance(task, TaskSettings) else TaskSettings()
        given = {name: getattr(self, name) for name in SECTIONS if name != "task"}
        given = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(task_config(task.kind), **given, task=task)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and, if deep, every setting as ``section__key``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for section, values in self.config.to_dict().items():
                params |= {f"{section}__{key}": value for key, value in values.items()}
        return params

    def set_params(self, **params: Any) -> Any:
        """Set constructor arguments, or single settings as ``section__key``."""
        for name, value in params.items():
            section, separator, key = name.partition("__")
            if separator:
                changed = self.config.with_values({section: {key: value}})
                setattr(self, section, getattr(changed, section))
            elif name in (*SECTIONS, "seed", "device"):
                setattr(self, name, value)
            else:
                raise ConfigError(f"GDPNet has no parameter '{name}'{nearest(name, self.get_params())}")
        return self

    def fit(
        self,
        graph: Graph,
        *,
        held_out: Pairs | None = None,
        run: RunFolder | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> GDPNet:
        """Train on a graph: on its training nodes, watched on its validation nodes, blind to its test nodes.

        Without a split, a tenth of the labelled nodes is held out for validation. With a run folder a checkpoint
        is written after every epoch, and training goes on from the one that is there. Where links are foretold, the
        graph has training links alone and ``held_out`` the validation pairs; without, one link in twenty is held out.
        Of a graph with more than ``training.most_nodes`` nodes a part is trained on, so that memory stays bounded;
        tasks that read no label take it whole.
        """
        config, device = self.config, pick_device(self.device)
        if self.seed < 0:
            raise ConfigError(f"the seed must be a number from 0, found {self.seed}")
        if config.task.kind == "links" and held_out is None:
            split = split_links(graph, self.seed, test=0.0)
            graph, held_out = split.train, split.validation
        graph = self.part_of(graph)
        self.basis_: Tensor | None = None
        self.task_ = self._task_for(graph)
        read, study = graph, None
        if config.task.kind in UNLABELLED:
            graph_read = as_read(graph, config)
            self.basis_ = fit_basis(graph_read, config.task.rank)
            read = condense(graph_read, self.basis_)
            study = begin_study(read, config, self.seed, device)
        scene = study.scene if study else make_scene(graph, config, self.seed, device, self.task_)
        state = begin_training(read, scene, config, self.seed, device)
        if run is not None:
            read_checkpoint(run, state)

        def after(epoch: Epoch) -> None:
            if run is not None:
                write_checkpoint(run, state)
            if on_epoch is not None:
                on_epoch(epoch)

        renew = study.renew if study and config.training.selection else None
        train_epochs(state, scene, config, self.seed, after, renew)
        self._take_over(state, graph, config, device)
        self.doubted_ = name_doubted(graph, scene, state.best_believed)
        self._conclude(without_doubted(scene, state.best_believed), graph, held_out)
        return self

    def part_of(self, graph: Graph) -> Graph:
        """Return what of a graph `fit` trains on: all of it, or a part of one with many nodes."""
        config = self.config
        most = config.training.most_nodes
        if config.task.kind in UNLABELLED:
            return graph
        if graph.num_nodes > most and Columns.of(graph, config).kind == ONE_HOT:
            raise GraphError(
                f"a graph of more than {most:,} nodes is trained on a part of it, which one-hot features, a column a "
                "node, cannot serve: use --features structural, or raise training.most_nodes"
            )
        return part_for_training(graph, most, self.seed)

    def _task_for(self, graph: Graph) -> Task:
        """Return what representations of a graph are for, where labels say what is true."""
        if isinstance(self.task, Task):
            return self.task
        multiple = self.config.task.kind == "multi-label"
        return MultiLabel(label_names(graph)) if multiple else CLASSIFICATION

    def _take_over(self, state: TrainingState, graph: Graph, config: Config, device: torch.device) -> None:
        """Keep the best weights of training."""
        best = state.best or state.weights()
        weights = {name: value.detach().clone() for name, value in best.items()}
        names = self.task_.names if isinstance(self.task_, MultiLabel) else graph.class_names
        classes = np.array(names)
        outputs = weights["aggregators.head_bias"].shape[1]
        if outputs != len(classes) or config.task.kind in UNLABELLED:  # no class was read: numbers
            classes = np.array([str(number) for number in range(outputs)])
        self._assemble(config, weights, Columns.of(graph, config), classes, device)
        self.history_ = state.history
        self.best_epoch_ = state.best_epoch
        self.validation_f1_: float = state.best_f1

    def _conclude(self, scene: Scene, graph: Graph, pairs: Pairs | None) -> None:
        """Choose and fit what the task needs beside the networks that were trained."""
        config, seed = self.config_, self.seed
        if config.task.kind not in UNLABELLED:
            found = conclude_labelled(self.policy_, self.aggregators_, scene, config, seed)
        elif pairs is None:
            found = conclude_clusters(self.policy_, self.aggregators_, scene, config, seed)
        else:
            read = as_read(graph, config)
            found = conclude_links(self.policy_, self.aggregators_, scene, config, seed, read, pairs)
        self.threshold_, self.selects_ = found.threshold, found.selects
        self.reader_, self.convolutions_ = found.reader, found.convolutions
        self.linker_, self.encoder_, self.centres_ = found.linker, found.encoder, found.centres
        if found.score is not None:
            self.validation_f1_ = found.score

    def _assemble(
        self,
        config: Config,
        weights: dict[str, Tensor],
        columns: Columns,
        classes: np.ndarray,
        device: torch.device,
    ) -> None:
        networks = build_networks(config, weights, exclusive=self.task_.exclusive, device=device)
        read = networks.aggregators.weight.shape[0] if self.basis_ is None else self.basis_.shape[0]
        if (read, networks.aggregators.classes) != (columns.width, len(classes)):
            raise ValueError(f"weights are not of {columns.width} features and {len(classes)} classes")
        self.policy_ = networks.policy
        self.aggregators_ = networks.aggregators
        self.reader_, self.convolutions_ = networks.reader, networks.convolutions
        self.linker_, self.encoder_, self.centres_ = networks.linker, networks.encoder, networks.centres
        self.selects_ = True
        self.config_ = config
        self.classes_ = classes
        self.columns_ = columns
        self.n_features_in_ = columns.width
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        self.device_ = device

    def embed(self, graph: Graph, nodes: Tensor | None = None) -> np.ndarray:
        """Return the representations of some nodes (all by default) of any graph with the same feature columns."""
        self._check_fitted()
        if self.linker_ is None and self.centres_ is None:
            return self._represent(graph, nodes)[0].cpu().numpy()
        return self._spread(graph).cpu().numpy()[_numbers(graph, nodes).numpy()]

    def _spread(self, graph: Graph) -> Tensor:
        """Return the representations of all nodes, where no label was read."""
        self.check_graph(graph)
        chosen = self._select(graph, torch.arange(graph.num_nodes))
        weight = chosen.prepared.both_ways(chosen.probability)
        if self.linker_ is None:
            return spread_rows(chosen.prepared, weight, self.encoder_)
        graph = as_read(graph, self.config_)
        return embed_links(self.linker_, graph, weight if self.selects_ else torch.ones_like(weight))

    def predict_links(self, graph: Graph, ends: Any) -> np.ndarray:
        """Return how likely each pair of nodes (two rows of node numbers) is linked, given the links there are."""
        self.check_graph(graph)
        if self.linker_ is None:
            raise ConfigError(f"links are foretold by a model of task links, found {self.config_.task.kind}")
        check_mutual(graph)
        pairs = torch.as_tensor(ends).long()
        if pairs.dim() != 2 or pairs.shape[0] != 2:
            raise GraphError(f"pairs must be two rows of node numbers, found shape {tuple(pairs.shape)}")
        if pairs.numel() and not (int(pairs.min()) >= 0 and int(pairs.max()) < graph.num_nodes):
            raise GraphError(f"node numbers must lie between 0 and {graph.num_nodes - 1}")
        return torch.sigmoid(inner_products(self._spread(graph), pairs.to(self.device_))).cpu().numpy()

    def predict_proba(self, graph: Graph, nodes: Tensor | None = None) -> np.ndarray:
        """Return the class probabilities of some nodes, columns in the order of ``classes_``."""
        self._check_labelled("class probabilities")
        return self._believe(graph, nodes).cpu().numpy()

    def predict(self, graph: Graph, nodes: Tensor | None = None) -> np.ndarray:
        """Return the class names that some nodes most probably have; their labels or clusters, by the task."""
        self._check_fitted()
        if self.centres_ is not None:
            rows = torch.from_numpy(self.embed(graph, nodes)).to(self.device_)
            return self.classes_[torch.cdist(rows, self.centres_).argmin(dim=1).cpu().numpy()]
        chances = self.predict_proba(graph, nodes)
        if isinstance(self.task_, MultiLabel):
            return np.array([JOINS.join(self.classes_[one > 0.5]) for one in chances], dtype=str)
        return self.classes_[chances.argmax(axis=1)]

    def _check_labelled(self, what: str) -> None:
        self._check_fitted()
        if self.config_.task.kind in UNLABELLED:
            raise ConfigError(f"a model of task {self.config_.task.kind} learned no labels and has no {what}")

    def score(self, graph: Graph, split: str = "test") -> float:
        """Return micro-F1 on the labelled nodes of a split."""
        self._check_labelled("score on a split")
        self.check_graph(graph)
        nodes = graph.nodes_in(split)
        label = (self.labels_of(graph) if self.task_ is CLASSIFICATION else graph.labels)[nodes]
        known = label != UNKNOWN
        if not bool(known.any()):
            raise GraphError(f"the graph has no labelled {split} node to score on")
        beliefs = self._believe(graph, nodes[known]).cpu()
        if self.task_ is CLASSIFICATION:
            return CLASSIFICATION.quality(beliefs, label[known])
        return self.task_.quality(beliefs, self.task_.truth(graph)[nodes[known]])

    def denoise(self, graph: Graph, *, threshold: float | None = None, symmetric: bool = True) -> Denoised:
        """Decide on every edge and return the cleaned graph, its edges weighted by their keep probability.

        Where edges had weights, each is multiplied by its keep probability.

        The threshold is by default the one that did best on the validation nodes when the model was fitted
        (``threshold_``); where keeping everything did best, the graph comes back as it was. A decision belongs to its
        target: u may be kept for v and v dropped for u. With ``symmetric`` both directions of a link have the mean
        of their two probabilities, so that a link stays or goes as a whole.
        """
        asked = threshold
        threshold, reason = self.cleaning_threshold(asked)
        chosen = self._select(graph, torch.arange(graph.num_nodes))
        probability = chosen.prepared.both_ways(chosen.probability) if symmetric else chosen.probability
        probability = chosen.prepared.on_edges(probability).cpu()
        kept = probability >= threshold
        share = edge_weights(probability, threshold) if asked is None else probability
        cleaned = graph.keep_edges(kept, times_weights(graph, share))
        return Denoised(cleaned, probability.numpy(), kept.numpy(), threshold, reason)

    def cleaning_threshold(self, asked: float | None = None) -> tuple[float, str]:
        """Return the least keep probability of a kept edge, and why: as asked for, or as chosen on validation."""
        self._check_fitted()
        if asked is None:
            return self.threshold_.threshold, self.threshold_.reason
        if not 0.0 <= asked <= 1.0:
            raise ConfigError(f"the threshold of a keep probability must lie between 0 and 1, found {asked}")
        return asked, f"threshold {asked:g}, as asked for"

    def explain(self, graph: Graph, node: int | str) -> Explanation:
        """Say how a node's neighbours were decided on, in order; a node is named by its id."""
        self.check_graph(graph)
        number = graph.node_number(str(node))
        story = explain_node(
            self.policy_,
            self.aggregators_,
            prepare(self.as_read(graph), self.config_, self.device_),
            graph,
            number,
            self.config_,
            self.classes_,
            self.seed,
            self.reader_,
            self._read_deeply(graph, number),
        )
        if self.centres_ is None:
            return story
        return dataclasses.replace(story, cluster=str(self.predict(graph, torch.tensor([number]))[0]))

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        write_tensors(Path(path), "model", *self._content())

    def fingerprint(self) -> str:
        """Return a short sum of all that decides what this model says of a graph."""
        tensors, about = self._content()
        said = {key: about[key] for key in ("config", "classes", "seed", "threshold")}
        return checksum(tensors, json.dumps(said, sort_keys=True))[:16]

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what was learned, on the host, and what is known about it."""
        self._check_fitted()
        networks = (self.policy_, self.aggregators_, self.reader_, self.convolutions_)
        tensors = Networks(*networks, self.linker_, self.encoder_, self.centres_).tensors()
        if self.basis_ is not None:
            tensors["basis"] = self.basis_
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, {
            "config": self.config_.to_dict(),
            "classes": [str(name) for name in self.classes_],
            "num_features": self.n_features_in_,
            "columns": self.columns_.to_dict(),
            "seed": self.seed,
            "version": __version__,
            "history": self.history_,
            "best_epoch": self.best_epoch_,
            "validation_f1": self.validation_f1_,
            "threshold": self.threshold_.to_dict(),
            "selects": self.selects_,
            "doubted": [list(one) for one in self.doubted_],
        }

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", task: Task | None = None) -> GDPNet:
        """Read a model from its file; one of a task of the user's own is given that task again."""
        tensors, about = read_tensors(Path(path), "model")
        where = pick_device(device)
        try:
            config = Config().with_values(filled(about["config"]))
            model = cls.from_config(config, seed=about["seed"], device=device)
            model.task = config.task if task is None else task
            model.basis_ = tensors.get("basis")
            multiple = config.task.kind == "multi-label"
            model.task_ = task or (MultiLabel(tuple(about["classes"])) if multiple else CLASSIFICATION)
            columns = _columns_in(about)
            model._assemble(config, tensors, columns, np.array(about["classes"]), where)
            model.history_, model.best_epoch_ = about["history"], about["best_epoch"]
            model.validation_f1_ = about["validation_f1"]
            model.threshold_ = Choice.from_dict(about["threshold"])
            model.selects_ = about.get("selects", True)
            model.doubted_ = tuple(DoubtedLabel(*one) for one in about.get("doubted", ()))
        except (KeyError, ValueError, TypeError, AttributeError, RuntimeError, ConfigError) as error:
            reason = " ".join(str(error).split())
            raise ModelFileError(f"{path} does not hold a whole model ({reason})") from error
        return model

    def _select(self, graph: Graph, targets: Tensor, *, deeply: bool = False) -> Selected:
        """Decide on the edges of some nodes, and on those of all whose decisions convolutions hear if asked for.

        Where the cleaned graph keeps everything, convolutions hear all links alike, whatever was decided.
        """
        self.check_graph(graph)
        prepared = prepare(self.as_read(graph), self.config_, self.device_)
        targets = targets.to(self.device_)
        deeply = deeply and self.threshold_.threshold != KEEP_ALL
        targets = within_hearing(prepared, targets) if deeply else torch.unique(targets)
        return select(self.policy_, self.aggregators_, prepared, targets, self.config_, self.seed)

    def as_read(self, graph: Graph) -> Graph:
        """Return the graph as the model reads it: with structural features where it has none and they are asked for,
        and with condensed ones where no label was read.
        """
        graph = as_read(graph, self.config_)
        return graph if self.basis_ is None else condense(graph, self.basis_)

    def _represent(self, graph: Graph, nodes: Tensor | None) -> tuple[Tensor, Tensor]:
        targets = _numbers(graph, nodes)
        return self._say(self._select(graph, targets), targets)

    def _say(self, chosen: Selected, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the representations of some nodes and their log-probabilities, without those of convolutions."""
        weight = chosen.weight(self.config_.inference.mode)
        return represent(self.aggregators_, chosen.prepared, targets.to(self.device_), weight, self.reader_)

    def _believe(self, graph: Graph, nodes: Tensor | None) -> Tensor:
        """Return the class probabilities of some nodes, by all who have a say."""
        targets = _numbers(graph, nodes)
        chosen = self._select(graph, targets, deeply=self.convolutions_ is not None)
        found = self._say(chosen, targets)[1]
        chance = torch.softmax(found, dim=1) if self.task_.exclusive else found.exp()
        if self.convolutions_ is None:
            return chance
        threshold = self.threshold_.threshold
        return torch.lerp(
            chance, read_deeply(self.convolutions_, chosen, threshold, targets.to(self.device_)), SHARE
        )

    def _read_deeply(self, graph: Graph, node: int) -> tuple[Tensor, Tensor] | None:
        """Return what convolutions believe of a node without its links and with them, where they have a say."""
        if self.convolutions_ is None:
            return None
        target = torch.tensor([node], device=self.device_)
        chosen = self._select(graph, target, deeply=True)
        threshold = self.threshold_.threshold
        alone, final = (
            read_deeply(self.convolutions_, chosen, threshold, target, apart)[0] for apart in (node, None)
        )
        return alone, final

    def labels_of(self, graph: Graph) -> Tensor:
        """Return a graph's labels in the order of this model's classes; a class it never saw is unknown."""
        known = {str(name): number for number, name in enumerate(self.classes_)}
        place = torch.tensor([*(known.get(name, UNKNOWN) for name in graph.class_names), UNKNOWN])
        return place[graph.labels]

    def check_graph(self, graph: Graph) -> None:
        """Refuse a graph that does not fit what was learned, or any before something was."""
        self._check_fitted()
        self.columns_.check(graph)

    def _check_fitted(self) -> None:
        if not hasattr(self, "aggregators_"):
            raise NotFittedError("this GDPNet is not fitted yet: call fit, or load a model")


def _columns_in(about: dict[str, Any]) -> Columns:
    """Return the columns of a model file; one that is too old to say knows their number alone."""
    width = int(about["num_features"])
    columns = Columns.from_dict(about["columns"]) if "columns" in about else Columns(OWN, width)
    if columns.width != width:
        raise ValueError(f"it tells of {columns.width} and of {width} features")
    return columns


def _numbers(graph: Graph, nodes: Tensor | None) -> Tensor:
    """Return the numbers of the nodes asked for, all if none are named."""
    numbers = torch.arange(graph.num_nodes) if nodes is None else torch.as_tensor(nodes).long()
    if numbers.numel() and not (int(numbers.min()) >= 0 and int(numbers.max()) < graph.num_nodes):
        raise GraphError(f"node numbers must lie between 0 and {graph.num_nodes - 1}")
    return numbers
