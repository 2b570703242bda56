"""GDPNet, the estimator that users hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from gdpnet._core.device import pick_device
from gdpnet.config import (
    ClustersSettings,
    Config,
    FeaturesSettings,
    GCNSettings,
    HopwiseSettings,
    InferenceSettings,
    LinksSettings,
    PolicySettings,
    PPOSettings,
    PropagationSettings,
    RepresentationSettings,
    RewardSettings,
    TaskSettings,
    ThresholdSettings,
    TrainingSettings,
    task_config,
)
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.errors import ConfigError, nearest
from gdpnet.inference.explain import Explanation
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.predictor import Denoised, Predictor
from gdpnet.inference.predictors import make_predictor
from gdpnet.representation.tasks import Task
from gdpnet.training.callbacks import Callback
from gdpnet.training.fit_model import fit_model
from gdpnet.training.state import Epoch

SECTIONS = tuple(item.name for item in fields(Config))


@dataclass(kw_only=True, eq=False, repr=False)
class GDPNet(BaseEstimator):
    """Learn which neighbours of each node to trust, and embed and classify nodes from those.

    Settings come in sections, each a frozen dataclass of `gdpnet.config`; a section left out has its defaults. As in
    scikit-learn the constructor only stores, ``fit`` returns the model, and learned attributes end in ``_``. Single
    settings are set by ``section__key``: ``model.set_params(ppo__discount=0.9)``.

    Args:
        task: the name of a task, its section of settings, or a `gdpnet.representation.tasks.Task` of your own.
        seed: one seed gives one result.
        device: ``auto``, ``cpu`` or ``cuda``.
    """

    features: FeaturesSettings | None = None
    policy: PolicySettings | None = None
    reward: RewardSettings | None = None
    ppo: PPOSettings | None = None
    representation: RepresentationSettings | None = None
    training: TrainingSettings | None = None
    hopwise: HopwiseSettings | None = None
    gcn: GCNSettings | None = None
    threshold: ThresholdSettings | None = None
    inference: InferenceSettings | None = None
    task: Task | TaskSettings | str | None = None
    propagation: PropagationSettings | None = None
    links: LinksSettings | None = None
    clusters: ClustersSettings | None = None
    seed: int = 0
    device: str = "auto"

    @classmethod
    def from_config(cls, config: Config, *, seed: int = 0, device: str = "auto") -> GDPNet:
        """Make a model from a whole configuration."""
        return cls(**{name: getattr(config, name) for name in SECTIONS}, seed=seed, device=device)

    @property
    def config(self) -> Config:
        """Return the settings of all sections."""
        task = TaskSettings(kind=self.task) if isinstance(self.task, str) else self.task
        task = task if isinstance(task, TaskSettings) else TaskSettings()
        given = {name: getattr(self, name) for name in SECTIONS if name != "task"}
        given = {name: value for name, value in given.items() if value is not None}
        return replace(task_config(task.kind), **given, task=task)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and, if deep, every setting as ``section__key``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for section, values in self.config.to_dict().items():
                params |= {f"{section}__{key}": value for key, value in values.items()}
        return params

    def set_params(self, **params: Any) -> GDPNet:
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
        callbacks: Iterable[Callback | Callable[[Epoch], object]] = (),
    ) -> GDPNet:
        """Train on a graph: on its training nodes, evaluated on its validation nodes; test nodes are not used.

        Without a split, a tenth of the labelled nodes is held out for validation. A graph with more than
        ``training.max_nodes`` nodes is trained on a sampled part; tasks without labels use the whole graph.

        Args:
            graph: the graph to train on.
            held_out: for link prediction, validation pairs that are not edges of the graph. If left out, one edge
                in twenty is held out.
            callbacks: `gdpnet.training.callbacks.Callback` objects, or functions called with every epoch.
                ``Checkpoint(run)`` writes checkpoints to a run folder and resumes from it.
        """
        if self.seed < 0:
            raise ConfigError(f"the seed must be a number from 0, found {self.seed}")
        objective, device = self.task if isinstance(self.task, Task) else None, pick_device(self.device)
        trained = fit_model(
            graph, self.config, self.seed, device, objective=objective, held_out=held_out, callbacks=callbacks
        )
        self._set_trained(trained)
        return self

    def _set_trained(self, trained: TrainedModel) -> None:
        """Publish what was learned under names that scikit-learn's users expect."""
        self.trained_, self.networks_ = trained, trained.networks
        self.config_, self.device_ = trained.config, trained.device
        self.classes_, self.threshold_ = trained.classes, trained.threshold
        self.history_, self.best_epoch_ = list(trained.history), trained.best_epoch
        self.validation_f1_, self.suspected_labels_ = trained.validation_f1, trained.suspected_labels
        self.n_features_in_ = trained.columns.width
        self.__dict__.pop("feature_names_in_", None)
        if trained.columns.names is not None:
            self.feature_names_in_ = np.array(trained.columns.names, dtype=object)

    def predictor(self, graph: Graph) -> Predictor:
        """Apply the model to a graph with the same feature columns.

        The predictor decides on the graph's edges once and then answers several questions: ``embeddings``,
        ``probabilities``, ``predict``, ``denoise``, ``explain``.
        """
        return make_predictor(self._fitted(), graph)

    def _fitted(self) -> TrainedModel:
        if not hasattr(self, "trained_"):
            raise NotFittedError("this GDPNet is not fitted yet: call fit, or load a model")
        return self.trained_

    def embed(self, graph: Graph, nodes: Any = None) -> np.ndarray:
        """Return the embeddings of some nodes, given by number; of all nodes by default."""
        return self.predictor(graph).embeddings(nodes)

    def predict(self, graph: Graph, nodes: Any = None) -> np.ndarray:
        """Return the classes of some nodes, all by default; or labels, numbers or clusters, depending on the task."""
        return self.predictor(graph).predict(nodes)

    def predict_proba(self, graph: Graph, nodes: Any = None) -> np.ndarray:
        """Return the class probabilities of some nodes, columns in the order of ``classes_``."""
        return self.predictor(graph).probabilities(nodes)

    def predict_links(self, graph: Graph, ends: Any) -> np.ndarray:
        """Return the probability that each pair of nodes, two rows of node numbers, is linked."""
        return self.predictor(graph).link_probabilities(ends)

    def score(self, graph: Graph, split: str = "test") -> float:
        """Return micro-F1 on the labelled nodes of a split, or ``training.metric``; R2 for regression."""
        return self.predictor(graph).score(split)

    def denoise(self, graph: Graph, *, threshold: float | None = None, symmetric: bool = True) -> Denoised:
        """Decide on every edge and return the cleaned graph, its edges weighted by their keep probability.

        Edge weights of the graph are multiplied by the keep probability. The threshold is by default the one that
        did best on the validation nodes when the model was fitted (``threshold_``). If keeping every edge did best,
        the graph is returned unchanged. A decision belongs to its target: u may be kept for v and v dropped for u.
        With ``symmetric`` both directions of an edge get the mean of their two probabilities.
        """
        return self.predictor(graph).denoise(threshold=threshold, symmetric=symmetric)

    def explain(self, graph: Graph, node: int | str) -> Explanation:
        """Explain the prediction of a node, named by its id: what each of its neighbours adds to the probability.

        The explanation says what `predict_proba` and `denoise` say. ``print`` shows it as a table.
        """
        return self.predictor(graph).explain(node)

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        self._fitted().save(Path(path))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", task: Task | None = None) -> GDPNet:
        """Read a model from its file; a model trained for a task of your own needs that task again."""
        trained = TrainedModel.load(Path(path), pick_device(device), task)
        model = cls.from_config(trained.config, seed=trained.seed, device=device)
        model.task = trained.config.task if task is None else task
        model._set_trained(trained)
        return model
