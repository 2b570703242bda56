"""GDPNet, the estimator that users hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from os import PathLike, fsencode
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from gdpnet._core.device import pick_device
from gdpnet._core.log import check_verbose, shown
from gdpnet.config import (
    AllEdgesSettings,
    ClustersSettings,
    Config,
    EnsembleSettings,
    EvidenceSettings,
    FeaturesSettings,
    GCNSettings,
    HopwiseSettings,
    InferenceSettings,
    LinearSettings,
    LinksSettings,
    PolicySettings,
    PPOSettings,
    PropagationSettings,
    RepresentationSettings,
    RewardSettings,
    SelfTrainingSettings,
    TaskSettings,
    ThresholdSettings,
    TrainingSettings,
    TreesSettings,
    checked_seed,
    setting_name,
    setting_place,
    task_config,
)
from gdpnet.data.io.open import as_graph
from gdpnet.data.link_split import Pairs
from gdpnet.errors import ConfigError, ModelFileError, check_type, refusing
from gdpnet.inference.denoised import Denoised
from gdpnet.inference.explain import Explanation
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.predictor import Predictor
from gdpnet.inference.predictors import make_predictor
from gdpnet.representation.tasks import Task
from gdpnet.training.callbacks import Callback, Progress, checked_callbacks
from gdpnet.training.fit_model import Ranks, fit_model
from gdpnet.training.state import Epoch

SECTIONS = tuple(item.name for item in fields(Config))


class GDPNet(BaseEstimator):
    """Learn which neighbours of each node to trust, and embed and classify nodes from those.

    Settings come in sections, each a frozen dataclass of `gdpnet.config`; a section left out has its defaults. Single
    settings are given as ``section__key``, or as ``key`` if the section is ``training`` or no other section
    has it: ``GDPNet(epochs=20)``, ``model.set_params(ppo__discount=0.9)``. As in scikit-learn, ``fit`` returns the
    model, and learned attributes end in ``_``.

    A graph is a `Graph`, a torch_geometric ``Data``, a NetworkX graph, a path or the name of a dataset. Nodes are
    named by id or by number, see `gdpnet.data.node_numbers.node_numbers`.

    Args:
        task: the name of a task, its section of settings, or a `gdpnet.representation.tasks.Task` of your own.
        seed: one seed gives one result.
        device: ``auto``, ``cpu`` or ``cuda``.
        verbose: 1 logs a line per epoch, 2 every metric; on stderr if logging has no handler.
        settings: single settings.
    """

    def __init__(
        self,
        *,
        features: FeaturesSettings | None = None,
        policy: PolicySettings | None = None,
        reward: RewardSettings | None = None,
        ppo: PPOSettings | None = None,
        representation: RepresentationSettings | None = None,
        training: TrainingSettings | None = None,
        self_training: SelfTrainingSettings | None = None,
        hopwise: HopwiseSettings | None = None,
        gcn: GCNSettings | None = None,
        all_edges: AllEdgesSettings | None = None,
        trees: TreesSettings | None = None,
        linear: LinearSettings | None = None,
        ensemble: EnsembleSettings | None = None,
        threshold: ThresholdSettings | None = None,
        evidence: EvidenceSettings | None = None,
        inference: InferenceSettings | None = None,
        task: Task | TaskSettings | str | None = None,
        propagation: PropagationSettings | None = None,
        links: LinksSettings | None = None,
        clusters: ClustersSettings | None = None,
        seed: int = 0,
        device: str = "auto",
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        self.features, self.policy, self.reward, self.ppo = features, policy, reward, ppo
        self.representation, self.training, self.task = representation, training, task
        self.self_training = self_training
        self.hopwise, self.gcn, self.threshold, self.inference = hopwise, gcn, threshold, inference
        self.all_edges, self.trees, self.linear, self.ensemble = all_edges, trees, linear, ensemble
        self.propagation, self.links, self.clusters = propagation, links, clusters
        self.evidence = evidence
        self.seed, self.device, self.verbose = seed, device, verbose
        self.set_params(**settings)

    @classmethod
    def from_config(cls, config: Config, *, seed: int = 0, device: str = "auto") -> GDPNet:
        """Make a model from a whole configuration."""
        check_type(config, Config, "the configuration", "a Config")
        return cls(**{name: getattr(config, name) for name in SECTIONS}, seed=seed, device=device)

    @property
    def config(self) -> Config:
        """Return the settings of all sections."""
        task = TaskSettings(kind=self.task) if isinstance(self.task, str) else self.task
        if not (task is None or isinstance(task, TaskSettings | Task)):
            raise ConfigError(f"the task must be a name, its settings or a Task, found {type(task).__name__}")
        task = task if isinstance(task, TaskSettings) else TaskSettings()
        given = {name: getattr(self, name) for name in SECTIONS if name != "task"}
        given = {name: value for name, value in given.items() if value is not None}
        return replace(task_config(task.kind), **given, task=task)

    def __repr__(self) -> str:
        return summary_of(self)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and, if deep, every setting as ``section__key``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for section, values in self.config.to_dict().items():
                params |= {f"{section}__{key}": value for key, value in values.items()}
        return params

    def set_params(self, **params: Any) -> GDPNet:
        """Set constructor arguments, then single settings as ``section__key`` or ``key``."""
        own = self._get_param_names()
        for name in (name for name in params if name in own):
            setattr(self, name, params[name])
        for name in (name for name in params if name not in own):
            section, key = setting_place(name)
            changed = self.config.with_values({section: {key: params[name]}})
            setattr(self, section, getattr(changed, section))
        return self

    def fit(
        self,
        graph: Any,
        *,
        held_out: Pairs | None = None,
        callbacks: Iterable[Callback | Callable[[Epoch], object]] = (),
        ranks: Ranks | None = None,
    ) -> GDPNet:
        """Train on a graph: on its training nodes, evaluated on its validation nodes; test nodes are not used.

        Without a split, a tenth of the labelled nodes is held out for validation. A graph with more than
        ``training.max_nodes`` nodes is trained on sampled parts; tasks without labels use the whole graph.

        Args:
            graph: the graph to train on, or what can be read as one.
            held_out: for link prediction, validation pairs that are not edges of the graph. If left out, one edge
                in twenty is held out.
            callbacks: `gdpnet.training.callbacks.Callback` objects, or functions called with every epoch.
                ``Checkpoint(run)`` writes checkpoints to a run folder and resumes from it.
            ranks: the processes that train the model with this one, the first of them; the others call
                `gdpnet.training.run_epochs.help_fit`. ``torchrun -m gdpnet train`` does both.
        """
        seed = checked_seed(self.seed)
        check_verbose(self.verbose)
        check_type(held_out, (Pairs, type(None)), "the validation pairs held_out", "Pairs or None")
        check_type(ranks, (Ranks, type(None)), "ranks", "Ranks or None")
        each = [*([Progress()] if self.verbose else []), *checked_callbacks(callbacks)]
        objective, device = self.task if isinstance(self.task, Task) else None, pick_device(self.device)
        with shown(self.verbose):
            trained = fit_model(
                replace(as_graph(graph), encoding_settings=self.config.features),
                self.config,
                seed,
                device,
                objective=objective,
                held_out=held_out,
                callbacks=each,
                ranks=ranks,
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

    def predictor(self, graph: Any) -> Predictor:
        """Apply the model to a graph with the same feature columns.

        The predictor decides on the graph's edges once and then answers several questions: ``embeddings``,
        ``probabilities``, ``predict``, ``denoise``, ``explain``.
        """
        return make_predictor(self._fitted(), as_graph(graph))

    def _fitted(self) -> TrainedModel:
        if not hasattr(self, "trained_"):
            raise NotFittedError("this GDPNet is not fitted yet: call fit, or load a model")
        return self.trained_

    def embed(self, graph: Any, nodes: Any = None) -> np.ndarray:
        """Return the embeddings of some nodes, named by id or by number; of all nodes by default."""
        return self.predictor(graph).embeddings(nodes)

    def predict(self, graph: Any, nodes: Any = None) -> np.ndarray:
        """Return the classes of some nodes, all by default; or labels, numbers or clusters, depending on the task."""
        return self.predictor(graph).predict(nodes)

    def predict_proba(self, graph: Any, nodes: Any = None) -> np.ndarray:
        """Return the class probabilities of some nodes, columns in the order of ``classes_``."""
        return self.predictor(graph).probabilities(nodes)

    def predict_links(self, graph: Any, ends: Any) -> np.ndarray:
        """Return the probability that each pair of nodes is linked.

        Pairs are a list of tuples, ``[("ann", "bob"), ("ann", "cid")]``, a frame or array with a row per pair, or two
        rows of ids or of numbers as in ``edge_index``; two by two values in lists or arrays are two rows.
        """
        return self.predictor(graph).link_probabilities(ends)

    def score(self, graph: Any, split: str = "test") -> float:
        """Return micro-F1 on the labelled nodes of a split, or ``training.metric``; R2 for regression."""
        return self.predictor(graph).score(split)

    def denoise(self, graph: Any, *, threshold: float | None = None, symmetric: bool = True) -> Denoised:
        """Decide on every edge and return the cleaned graph, its edges weighted by their keep probability.

        Edge weights of the graph are multiplied by the keep probability. The threshold is by default the one that
        did best on the validation nodes when the model was fitted (``threshold_``). If keeping every edge did best,
        the graph is returned unchanged. A decision belongs to its target: u may be kept for v and v dropped for u.
        With ``symmetric`` both directions of an edge get the mean of their two probabilities.
        """
        return self.predictor(graph).denoise(threshold=threshold, symmetric=symmetric)

    def explain(self, graph: Any, node: int | str) -> Explanation:
        """Explain the prediction of a node, named by its id: what each of its neighbours adds to the probability.

        The explanation says what `predict_proba` and `denoise` say. ``print`` shows it as a table.
        """
        return self.predictor(graph).explain(node)

    def explain_nodes(self, graph: Any, nodes: Any = None) -> Iterator[Explanation]:
        """Explain the predictions of some nodes, all by default, one after the other.

        The policy decides once, and nodes are evaluated many at a time, which is much faster than one by one.
        """
        return self.predictor(graph).explain_nodes(nodes)

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        self._fitted().save(_checked_path(path))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", task: Task | None = None) -> GDPNet:
        """Read a model from its file or run folder; a model trained for a task of your own needs that task again."""
        with refusing(f"the model {path}", ModelFileError):
            trained = TrainedModel.load(_checked_path(path), pick_device(device), task)
        model = cls.from_config(trained.config, seed=trained.seed, device=device)
        model.task = trained.config.task if task is None else task
        model._set_trained(trained)
        return model


def _checked_path(path: Any) -> Path:
    """Return the path of a model; refuse what is none."""
    if not isinstance(path, str | PathLike):
        raise ModelFileError(f"a model file must be named by its path, found {type(path).__name__}")
    try:
        usable = b"\0" not in fsencode(path)
    except ValueError:  # half a character
        usable = False
    if not usable:
        raise ModelFileError(f"the path of a model file must be one that a file can have, found '{path}'")
    return Path(path)


def summary_of(model: GDPNet) -> str:
    """Return the parameters of a model that differ from their defaults and, if it is fitted, what was learned."""
    config, task = model.config, model.task
    usual = task_config(config.task.kind)
    set_ = {} if task is None or isinstance(task, TaskSettings) else {"task": task}
    for section, values in config.to_dict().items():
        defaults = usual.to_dict()[section]
        changed = {key: value for key, value in values.items() if value != defaults[key]}
        set_ |= {setting_name(section, key): value for key, value in changed.items()}
    defaults = {"seed": 0, "device": "auto", "verbose": 0}
    set_ |= {
        name: getattr(model, name) for name, usually in defaults.items() if getattr(model, name) != usually
    }
    text = f"GDPNet({', '.join(f'{name}={value!r}' for name, value in set_.items())})"
    return f"{text}\n  {_learned(model.trained_)}" if hasattr(model, "trained_") else text


def _learned(trained: TrainedModel) -> str:
    classes, epochs = len(trained.classes), len(trained.history)
    learned = f"{classes} classes, " if trained.config.task.kind != "regression" and classes else ""
    heads = [f"{name} {weight:.2f}" for name, weight in trained.weights._asdict().items() if weight > 0]
    return (
        f"fitted: {learned}{epochs} epoch{'' if epochs == 1 else 's'} (best {trained.best_epoch}), "
        f"validation score {trained.validation_f1:.3f}, threshold {trained.threshold.threshold:.3f}, "
        f"heads {', '.join(heads)}"
    )
