"""Settings: frozen, checked where they are made, read from TOML; each carries the sentence that explains it."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from numbers import Integral
from pathlib import Path
from typing import Any

from gdpnet._core.files import read_some
from gdpnet._core.limits import MOST_SEED, MOST_TOML_BYTES, MOST_TOML_LINE
from gdpnet.errors import ConfigError, nearest, reason_of

METRICS = {
    "micro_f1": "F1",
    "macro_f1": "macro-F1",
    "average_precision": "average precision",
    "roc_auc": "ROC AUC",
    "log_loss": "log loss",
    "r2": "R2",
}
"""Scores that models are chosen by, and how they are called in text; ``training.metric`` names all but R2."""

TASKS = ("classification", "multi-label", "regression", "links", "clusters")
"""What a model can learn."""

_LARGEST = (1 << 63) - 1
"""The largest whole number of a setting, which arrays of 64 bits can hold."""


def checked_seed(seed: Any) -> int:
    """Return a seed as an int, as the same seed of another type would draw others; refuse what is none of 64 bits."""
    whole = isinstance(seed, Integral) and not isinstance(seed, bool)
    if not whole or not 0 <= int(seed) <= MOST_SEED:
        raise ConfigError(f"the seed must be a whole number from 0 to {MOST_SEED:,}, found {_shown(seed)}")
    return int(seed)


def setting(
    default: Any,
    about: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    any_length: bool = False,
) -> Any:
    """Declare one setting: its default, its description, and its valid values.

    Unless ``low`` says otherwise, a whole number is at least 1 and any other number at least 0.
    """
    first = default[0] if isinstance(default, tuple) else default
    if low is None and not isinstance(first, bool | str):
        low = 1 if isinstance(first, int) else 0.0
    limits = {"low": low, "high": high, "choices": choices, "any_length": any_length}
    return field(default=default, metadata={"about": about, **limits})


@dataclass(frozen=True)
class Section:
    """A group of settings that checks its own values."""

    def __post_init__(self) -> None:
        """Check every value against its declaration."""
        for item in fields(self):
            object.__setattr__(self, item.name, _checked(type(self).__name__, item, getattr(self, item.name)))


@dataclass(frozen=True)
class FeaturesSettings(Section):
    """Preparation of node features, saved with the model and applied to every graph that it is used on."""

    normalise: str = setting(
        "l2",
        "scaling of each feature row: none, to absolute sum 1 (row) or to Euclidean length 1 (l2)",
        choices=("none", "row", "l2"),
    )
    missing: str = setting(
        "one-hot",
        "features of a graph that has none: one-hot, which works for neither new nodes nor other graphs, or "
        "structural, computed from the edges around each node",
        choices=("one-hot", "structural"),
    )
    max_categories: int = setting(
        30,
        "categories per column of a table with a feature each, the most frequent ones; the others share one",
    )
    max_words: int = setting(
        2000, "words per text column (--text) with a feature each, the most frequent ones"
    )
    unlike_spread: float = setting(
        10.0,
        "columns of numbers are centred and scaled if the standard deviation of one is more than this many times "
        "another's",
        low=1.0,
    )
    off_centre: float = setting(
        3.0,
        "columns of numbers are also centred and scaled if the mean of one is more than this many of its standard "
        "deviations away from zero",
    )
    bound: float = setting(
        3.0,
        "bound of a number of a scaled column: z becomes z / sqrt(1 + (z / bound)^2); inf for none",
        low=0.1,
    )
    edge_bound: float = setting(3.0, "the same bound for numbers in edge features", low=0.1)


@dataclass(frozen=True)
class PolicySettings(Section):
    """The policy network, its observation, and how an episode runs."""

    hidden: tuple[int, int] = setting((64, 36), "widths of the two hidden layers")
    state: str = setting(
        "trust",
        "input of the policy beside the representations of both nodes: nothing (paper), agreement of features and "
        "predictions (pairs), also graph structure around both nodes (structure), also the selections of nearby "
        "nodes (neighbourhood), also the number of trusted edges of both nodes (trust)",
        choices=("paper", "pairs", "structure", "neighbourhood", "trust"),
    )
    hops: int = setting(
        1,
        "greatest distance of a candidate from its target; if above 1, the distance is part of the observation",
        high=3,
    )
    far_candidates: int = setting(
        32, "maximum number of candidates per target beyond its direct neighbours, sampled uniformly once"
    )
    order: str = setting(
        "learned", "order of the decisions: drawn by the policy, or at random", choices=("learned", "random")
    )
    early_stop: bool = setting(True, "let the policy end an episode before all neighbours are decided on")
    max_candidates: int = setting(
        256, "maximum number of candidates per episode; a target with more gets several episodes"
    )


@dataclass(frozen=True)
class RewardSettings(Section):
    """The reward of a decision."""

    kind: str = setting(
        "marginal",
        "reward for keeping a neighbour: equation (5) of the paper (paper), the same relative to no neighbour "
        "(counterfactual), or the gain in log-probability of the true class (marginal)",
        choices=("paper", "counterfactual", "marginal"),
    )
    score: str = setting(
        "probability",
        "score in the paper and counterfactual rewards: 0 or 1 for a wrong or right class (hit), or the probability "
        "of the true class",
        choices=("hit", "probability"),
    )
    folds: int = setting(
        3, "number of folds for cross-fitted scores of training nodes; 1 switches cross-fitting off", high=20
    )
    clip: float = setting(2.0, "largest absolute value of a marginal reward", low=1e-6)


@dataclass(frozen=True)
class PPOSettings(Section):
    """Training of the policy with proximal policy optimisation."""

    discount: float = setting(0.95, "discount factor of future rewards", high=1.0)
    advantage: str = setting(
        "exact",
        "immediate part of the advantage: from the sampled action, or the exact expectation over keep and drop",
        choices=("sampled", "exact"),
    )
    learning_rate: float = setting(0.003, "learning rate")
    weight_decay: float = setting(1e-3, "L2 penalty")
    passes: int = setting(3, "passes over each rollout")
    batch_size: int = setting(256, "targets per update")
    max_targets: int = setting(2048, "maximum number of targets per epoch, sampled anew in each")
    rollout_targets: int = setting(2048, "targets per rollout, played before the policy is updated")
    clip: float = setting(0.2, "clip range of the importance ratio")
    kl_limit: float = setting(
        0.05, "largest mean KL divergence between the policy of the rollout and its update"
    )
    entropy: float = setting(0.0, "weight of the entropy bonus")


@dataclass(frozen=True)
class RepresentationSettings(Section):
    """The aggregator and its training."""

    width: int = setting(128, "width of the representations")
    hops: int = setting(
        2,
        "message of a neighbour: its own features (1), or the mean over itself and its selected neighbours (2)",
        high=2,
    )
    self_weight: bool = setting(False, "use a separate weight matrix for the node itself")
    dropout: float = setting(0.5, "dropout rate of inputs and hidden units", high=0.99)
    learning_rate: float = setting(0.003, "learning rate")
    weight_decay: float = setting(5e-4, "L2 penalty")
    passes: int = setting(2, "passes over the training nodes per epoch")
    batch_size: int = setting(256, "training nodes per step")
    max_steps: int = setting(30, "maximum number of steps per epoch")


@dataclass(frozen=True)
class HopwiseSettings(Section):
    """The hop-wise head: a network with one weight matrix per hop, fitted after the policy is trained."""

    use: bool = setting(
        True,
        "fit the head, and add it to the ensemble if that improves accuracy on nodes held out of training",
    )
    dropout: float = setting(0.5, "dropout rate of inputs and hidden units", high=0.99)
    learning_rate: float = setting(0.01, "learning rate")
    weight_decay: float = setting(5e-5, "L2 penalty")
    batch_size: int = setting(1024, "nodes per step")
    steps: int = setting(400, "maximum number of steps")
    evaluate_every: int = setting(10, "steps between two evaluations on held-out nodes")
    patience: int = setting(50, "steps without improvement before fitting stops")
    usual_nodes: int = setting(
        6144,
        "training nodes above which both numbers of steps grow in proportion, since a step sees few of them",
    )
    max_evaluated: int = setting(4096, "maximum number of held-out nodes that such an evaluation looks at")
    margin_alone: float = setting(
        2.0, "standard deviations by which the head must beat the aggregator to replace it"
    )
    margin_together: float = setting(
        1.0, "standard deviations by which the mean of both must beat the aggregator to be used"
    )
    shares: tuple[float, ...] = setting(
        (0.5, 1.0),
        "shares of the aggregator's weight that are tried for the head; 1 replaces the aggregator",
        high=1.0,
        any_length=True,
    )
    max_weights: int = setting(20_000_000, "a head with more weights than this is not fitted")
    max_values: int = setting(
        100_000_000, "the head is not fitted if the features of one hop hold more values than this"
    )


@dataclass(frozen=True)
class GCNSettings(Section):
    """The GCN head: graph convolutions over the cleaned graph, fitted after the policy is trained."""

    use: bool = setting(
        True, "fit the head, and add it to the ensemble if validation accuracy does not get worse"
    )
    layers: int = setting(3, "number of convolutions", low=2)
    weight: float = setting(0.5, "weight of the head in the ensemble", high=1.0)
    dropout: float = setting(0.5, "dropout rate of every layer's inputs", high=0.99)
    learning_rate: float = setting(0.01, "learning rate")
    weight_decay: float = setting(5e-4, "L2 penalty")
    epochs: int = setting(300, "maximum number of epochs")
    patience: int = setting(50, "epochs without improvement before fitting stops")
    evaluate_every: int = setting(10, "epochs between two checks of the patience")
    score_every: int = setting(5, "epochs between two evaluations on validation nodes")
    min_validation: int = setting(
        100, "minimum number of validation nodes; with fewer the head is not fitted"
    )
    max_edges: int = setting(500_000, "the head is not fitted to a graph with more edges than this")
    max_weights: int = setting(20_000_000, "a head with more weights than this is not fitted")


@dataclass(frozen=True)
class AllEdgesSettings(Section):
    """The all-edges head: a small network over the graph as it is, whatever the policy decides."""

    use: bool = setting(True, "fit the head; nodes held out of training decide on its weight")
    width: int = setting(64, "width of the hidden layer")
    dropout: float = setting(0.5, "dropout rate of inputs and hidden units", high=0.99)
    learning_rate: float = setting(0.01, "learning rate")
    weight_decay: float = setting(5e-4, "L2 penalty")
    epochs: int = setting(300, "maximum number of epochs")
    evaluate_every: int = setting(5, "epochs between two evaluations on held-out nodes")
    patience: int = setting(60, "epochs without improvement before fitting stops")
    prior: float = setting(0.3, "weight of the head before any held-out node is looked at", high=0.5)
    max_edges: int = setting(500_000, "the head is not fitted to a graph with more edges than this")
    max_features: int = setting(512, "the head is not fitted to more dense feature columns than this")
    sparse_width: int = setting(32, "width of the hidden layer if features are sparse")
    sparse_learning_rate: float = setting(0.03, "learning rate if features are sparse")
    sparse_weight_decay: float = setting(1e-4, "L2 penalty if features are sparse")
    sparse_epochs: int = setting(60, "maximum number of epochs if features are sparse")
    separate_margin: float = setting(
        1.0,
        "standard deviations by which separate weights for a node and its neighbourhood must beat shared ones if "
        "features are sparse",
    )
    max_values: int = setting(
        5_000_000, "the head is not fitted to more stored values of sparse features than this"
    )
    max_scores: int = setting(
        50_000_000,
        "the head is not fitted if it has more class scores, of all nodes and fold models, than this",
    )


@dataclass(frozen=True)
class TreesSettings(Section):
    """The trees head: boosted trees on a node's own features, for tables of few columns."""

    use: bool = setting(True, "fit the head; nodes held out of training decide on its weight")
    iterations: int = setting(60, "trees per class")
    learning_rate: float = setting(0.1, "learning rate", low=1e-4)
    prior: float = setting(0.25, "weight of the head before any held-out node is looked at", high=0.5)
    max_features: int = setting(
        512, "the head is not fitted to more feature columns than this, or sparse ones"
    )
    max_classes: int = setting(20, "the head is not fitted to more classes than this")


@dataclass(frozen=True)
class LinearSettings(Section):
    """The linear head: softmax regression on a node's own features, for tables of few columns."""

    use: bool = setting(True, "fit the head; nodes held out of training decide on its weight")
    penalty: float = setting(1.0, "L2 penalty of a standardised column")
    steps: int = setting(60, "L-BFGS iterations")
    prior: float = setting(0.2, "weight of the head before any held-out node is looked at", high=0.5)
    max_features: int = setting(
        512, "the head is not fitted to more feature columns than this, or sparse ones"
    )


@dataclass(frozen=True)
class EnsembleSettings(Section):
    """The weights of the heads, found on nodes held out of training."""

    prior_nodes: float = setting(
        10.0, "held-out nodes that the weights of the heads before any is looked at count as"
    )
    min_weight: float = setting(0.02, "a head with less weight than this leaves the ensemble", high=0.5)
    min_held_out: int = setting(
        20, "minimum number of held-out nodes; with fewer the heads without decisions are not fitted"
    )


@dataclass(frozen=True)
class ThresholdSettings(Section):
    """The keep probability above which an edge stays in the cleaned graph, chosen on validation nodes."""

    candidates: tuple[float, ...] = setting(
        (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
        "thresholds that are tried; keeping every edge is always tried too",
        high=1.0,
        any_length=True,
    )
    shares: tuple[float, ...] = setting(
        (0.8, 0.6, 0.4, 0.2),
        "shares of the edges, those of the largest keep probabilities: the threshold that keeps as many is tried "
        "too, unless another keeps about as many",
        high=1.0,
        any_length=True,
    )
    min_kept: float = setting(
        0.1,
        "smallest share of the edges that a threshold may keep; one that keeps less is not tried, or lowered if "
        "there are no validation nodes; a threshold given to denoise is used as it is",
        high=1.0,
    )
    without_validation: float = setting(
        0.5, "threshold used if there are no validation nodes", low=0.01, high=1.0
    )
    margin: float = setting(1.0, "standard deviations by which a threshold must beat keeping every edge")
    min_noise: float = setting(
        0.05,
        "if at least this share of the edges looks like noise, by the genuine probabilities, the threshold that "
        "removes it best is used, among those that are not clearly worse on validation nodes",
        high=1.0,
    )
    min_lift: float = setting(
        3.0,
        "such a threshold must remove a share of the noise that is at least this many times the share of genuine "
        "edges that it removes, by the genuine probabilities",
    )
    spared_ratio: float = setting(
        1.4,
        "noise spares the validation nodes if its share is this many times as large around other nodes: then the "
        "all-edges head, which these nodes would weigh, is left out",
        low=1.0,
    )
    spared_deviations: float = setting(
        3.0,
        "standard deviations by which the share around other nodes must also exceed that around validation nodes",
    )
    spared_weight: float = setting(
        5.0,
        "weight of a spurious edge against a genuine one in the choice of the threshold if noise spares the "
        "validation nodes; otherwise 1",
        low=1.0,
    )
    penalty: float = setting(1e-3, "L2 penalty of the linear classifier that scores a threshold")
    steps: int = setting(60, "L-BFGS iterations of that classifier")
    max_targets: int = setting(4096, "maximum number of training nodes that it is fitted to")


@dataclass(frozen=True)
class EvidenceSettings(Section):
    """Whether an edge is genuine: boosted trees that tell a graph's own edges from injected random ones."""

    use: bool = setting(True, "fit the evidence model, so that every edge has a genuine probability")
    rounds: int = setting(
        2,
        "copies of the graph with injected edges that the trees of each of the two passes are fitted to; one is "
        "enough for a graph with more edges than evidence.rows",
        high=10,
    )
    rate: float = setting(0.5, "random edges injected into a copy, as a share of its edges", low=0.01)
    rows: int = setting(60_000, "maximum number of edges that the trees of a pass are fitted to", low=100)
    trees_per_pass: int = setting(60, "number of trees of a pass")
    learning_rate: float = setting(0.1, "learning rate of the trees", low=1e-4)
    leaves: int = setting(8, "leaves per tree", low=2)
    targets: int = setting(
        1000, "maximum number of nodes whose edges the combination of evidence and policy is fitted to"
    )
    max_noise: float = setting(
        0.8,
        "a larger estimate of the share of noise is not used: it says that scores cannot tell, not that hardly any "
        "edge is genuine",
        high=1.0,
    )
    unknown_noise: float = setting(
        0.25,
        "the share of noise that is assumed then; by default halfway between none and half of the edges",
        high=1.0,
    )


@dataclass(frozen=True)
class TrainingSettings(Section):
    """Alternation of the two phases, and the choice of the best epoch."""

    epochs: int = setting(60, "maximum number of epochs, each with both phases")
    warmup: int = setting(10, "epochs of the aggregator on all neighbours before the policy starts", low=0)
    settle: int = setting(0, "epochs of the policy before one may be chosen as the best", low=0)
    patience: int = setting(
        6, "epochs without improvement, in validation F1 or injected-edge AUC, before training stops"
    )
    patience_targets: int = setting(
        3072,
        "targets that these epochs must have played, so that training on few targets is not stopped too early",
    )
    seconds: float = setting(
        0.0,
        "seconds after which a fit ends with the best model so far; 0 for no limit; a resumed run counts its earlier "
        "epochs",
    )
    injected: float = setting(
        0.5,
        "random edges injected into a copy of the training graph, as a share of its edges; the policy is trained on "
        "the copy too",
    )
    injected_weight: float = setting(
        0.5, "weight of the injected-edge AUC relative to validation F1 in the choice of the best epoch"
    )
    injected_targets: int = setting(
        2048, "maximum number of nodes whose decisions the injected-edge AUC is measured on in an epoch"
    )
    perturbed_graphs: int = setting(
        4, "number of training graph copies with injected edges, used by the epochs in turn", high=100
    )
    label_error_gap: float = setting(
        0.1,
        "training labels are checked for errors if the cross-fitted accuracy on training nodes is lower than on "
        "validation nodes by more than this; 1 switches the check off",
        high=1.0,
    )
    label_error_deviations: float = setting(
        3.0, "smallest such gap in standard deviations of the two accuracies"
    )
    label_error_min_per_class: int = setting(
        20, "average number of training labels per class below which labels are not checked"
    )
    label_error_every: int = setting(5, "epochs between two checks once labels are suspected")
    max_nodes: int = setting(
        100_000,
        "maximum number of nodes to train on at once; of a larger graph, parts around randomly sampled labelled "
        "nodes are used; tasks without labels always use the whole graph",
        low=10,
    )
    redraw_every: int = setting(
        5, "epochs on such a part before another one is drawn; 0 trains on one part alone", low=0
    )
    part_fan_out: tuple[int, int] = setting(
        (256, 4), "neighbours sampled per node for these parts, in the first and in the second hop"
    )
    validation_episodes: int = setting(
        1, "maximum number of sampled episodes per validation node in an epoch; see inference.episodes"
    )
    selection: bool = setting(True, "train the policy; if false, all neighbours are kept")
    metric: str = setting(
        "micro_f1",
        "score on validation nodes that the best epoch, the heads and the threshold are chosen by, for the task "
        "classification; the ranking scores, average_precision and roc_auc, are of the rarer of two classes, or the "
        "mean over more; regression uses R2",
        choices=tuple(name for name in METRICS if name != "r2"),
    )


@dataclass(frozen=True)
class SelfTrainingSettings(Section):
    """Pseudo-labels: confident predictions stand for the labels of unlabelled nodes, where labels are few."""

    use: bool = setting(True, "make unlabelled nodes of the training graph targets too, where labels are few")
    max_labelled: float = setting(
        0.5, "share of labelled nodes in the training graph above which labels are not few", high=1.0
    )
    min_validation: int = setting(
        20, "validation nodes needed, since the confidence of predictions is calibrated on them"
    )
    shares: tuple[float, ...] = setting(
        (1.0, 0.8, 0.6, 0.4, 0.0),
        "shares of the edges, best-ranked first, that the GCN of the first pseudo-labels is fitted to; validation "
        "nodes choose; with a share of 0 it reads features alone",
        low=0.0,
        high=1.0,
        any_length=True,
    )
    width: int = setting(64, "width of that GCN")
    teachers: int = setting(2, "GCNs of different first weights per share, whose mean counts")
    spectral: tuple[int, ...] = setting(
        (1, 2),
        "spectral columns per class that a linear model is fitted to beside these GCNs, for each share of the edges",
        any_length=True,
    )
    spectral_penalty: float = setting(
        1.0, "L2 penalty of a standardised spectral column in that linear model"
    )
    spectral_steps: int = setting(60, "L-BFGS iterations of that linear model")
    max_spectral: int = setting(64, "maximum number of spectral columns")
    max_spectral_edges: int = setting(
        500_000, "spectral columns are not computed of a graph with more edges than this"
    )
    teacher_rounds: int = setting(
        2, "times that these models are fitted again to the labels and their own confident predictions", low=0
    )
    teacher_weight: float = setting(
        0.5,
        "weight of these models in the class probabilities that later pseudo-labels come from; aggregators have the "
        "rest",
        low=0.0,
        high=1.0,
    )
    first_share: float = setting(
        0.5,
        "largest share of the unlabelled nodes of a predicted class with a pseudo-label in the first round",
        high=1.0,
    )
    later_share: float = setting(0.8, "the same in later rounds, and for GDPNet", high=1.0)
    share_without_features: float = setting(
        1.0, "the same for GDPNet on a graph without features, where a node is a number of its own", high=1.0
    )
    settle: int = setting(
        6,
        "epochs of the policy before one may be chosen as the best, so that it has predicted labels itself",
        low=0,
    )
    min_confidence: float = setting(
        0.5, "smallest calibrated probability of a class that becomes a pseudo-label", high=1.0
    )


@dataclass(frozen=True)
class InferenceSettings(Section):
    """How a trained policy selects neighbours."""

    mode: str = setting(
        "sampled",
        "one greedy episode that keeps neighbours above probability 0.5, or the mean over sampled episodes",
        choices=("greedy", "sampled"),
    )
    episodes: int = setting(8, "sampled episodes per target")
    context_episodes: int = setting(
        2, "maximum number of sampled episodes per node for the neighbourhood means around a target"
    )
    symmetrise: bool = setting(
        False, "average the two keep probabilities of an edge, one from each end, before aggregating"
    )


@dataclass(frozen=True)
class TaskSettings(Section):
    """What the model learns."""

    kind: str = setting(
        "classification",
        "what to learn: one class per node, several labels per node, a number per node (regression), missing edges "
        "(links) or clusters; the last two use no labels",
        choices=TASKS,
    )
    clusters: int = setting(
        0,
        "number of clusters, or of communities for link prediction; 0 for the number of classes, or for "
        "links.communities",
        low=0,
    )
    rank: int = setting(128, "dimensions that features are reduced to for the tasks without labels")
    refresh: int = setting(
        5, "epochs between two updates of clusters, communities or pseudo-labels on the kept edges"
    )
    class_weight: str = setting(
        "none",
        "weight of a training node in the loss and in the rewards of the task classification: one (none), or so that "
        "all classes weigh the same (balanced)",
        choices=("none", "balanced"),
    )
    bins: int = setting(
        32, "intervals that the range of the numbers is cut into for the task regression", low=4
    )


@dataclass(frozen=True)
class PropagationSettings(Section):
    """Personalised PageRank over weighted edges, used by the tasks without labels."""

    restart: float = setting(0.15, "restart probability", high=1.0)
    steps: int = setting(10, "power iterations", low=0)


@dataclass(frozen=True)
class LinksSettings(Section):
    """Link prediction: the encoder whose inner products score pairs, and its training signal."""

    width: int = setting(64, "width of the embeddings")
    length: float = setting(1.8, "norm of the rows before propagation")
    hidden: float = setting(0.3, "share of the edges hidden per step, to be predicted", low=0.01, high=1.0)
    steps: int = setting(300, "training steps")
    evaluate_every: int = setting(10, "steps between two evaluations on validation pairs")
    learning_rate: float = setting(0.01, "learning rate")
    communities: int = setting(16, "communities if task.clusters is 0")
    supervision: float = setting(
        0.3, "share of the edges taken out of the graph to supervise the policy", high=1.0
    )


@dataclass(frozen=True)
class ClustersSettings(Section):
    """Clustering: k-means on embeddings of Deep Graph Infomax."""

    width: int = setting(256, "width of the embeddings")
    steps: int = setting(150, "training steps of the encoder")
    shuffles: int = setting(10, "shuffled copies of the features, used in turn", high=1000)
    learning_rate: float = setting(1e-3, "learning rate of the encoder")
    restarts: int = setting(10, "random starts of k-means")


@dataclass(frozen=True)
class Config:
    """Every setting of a model."""

    features: FeaturesSettings = field(default_factory=FeaturesSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    representation: RepresentationSettings = field(default_factory=RepresentationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    self_training: SelfTrainingSettings = field(default_factory=SelfTrainingSettings)
    hopwise: HopwiseSettings = field(default_factory=HopwiseSettings)
    gcn: GCNSettings = field(default_factory=GCNSettings)
    all_edges: AllEdgesSettings = field(default_factory=AllEdgesSettings)
    trees: TreesSettings = field(default_factory=TreesSettings)
    linear: LinearSettings = field(default_factory=LinearSettings)
    ensemble: EnsembleSettings = field(default_factory=EnsembleSettings)
    threshold: ThresholdSettings = field(default_factory=ThresholdSettings)
    evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    inference: InferenceSettings = field(default_factory=InferenceSettings)
    task: TaskSettings = field(default_factory=TaskSettings)
    propagation: PropagationSettings = field(default_factory=PropagationSettings)
    links: LinksSettings = field(default_factory=LinksSettings)
    clusters: ClustersSettings = field(default_factory=ClustersSettings)

    def __post_init__(self) -> None:
        """Refuse what is no section of settings, and class weights and metrics for tasks that have none."""
        for item in fields(self):
            found, wanted = getattr(self, item.name), item.default_factory
            if not isinstance(found, wanted):  # type: ignore[arg-type]  # every default factory is a class
                name = getattr(wanted, "__name__", "")
                raise ConfigError(f"'{item.name}' must be {name}, found {type(found).__name__}")
        kind, weight, metric = self.task.kind, self.task.class_weight, self.training.metric
        if kind != "classification" and (weight, metric) != ("none", "micro_f1"):
            found = f"training.metric {metric}" if metric != "micro_f1" else f"task.class_weight {weight}"
            raise ConfigError(
                f"class weights (--class-weight) and metrics (--metric) are for classification, found {found} for "
                f"the task {kind}"
            )

    def with_values(self, values: Mapping[str, Mapping[str, Any]]) -> Config:
        """Return a copy with the values of a nested mapping in place."""
        sections = dict(vars(self))
        for name, changes in values.items():
            if name not in sections:
                hint = _RENAMED_HINT.get(name) or nearest(name, sections)
                raise ConfigError(f"there is no section '{name}' of settings{hint}")
            if not isinstance(changes, Mapping):
                raise ConfigError(
                    f"'{name}' is a section of settings and must hold keys, found {_shown(changes)}"
                )
            known = [item.name for item in fields(sections[name])]
            for key in changes:
                if key not in known:
                    hint = f"; it is '{name}.{_RENAMED[key]}' now" if key in _RENAMED else nearest(key, known)
                    raise ConfigError(f"there is no setting '{name}.{key}'{hint}")
            sections[name] = dataclasses.replace(sections[name], **changes)
        return Config(**sections)

    def with_overrides(self, overrides: Iterable[str]) -> Config:
        """Return a copy with ``section.key=value`` strings in place, values written as in TOML."""
        config = self
        for override in overrides:
            path, separator, text = override.partition("=")
            section, dot, key = path.strip().partition(".")
            if not (separator and dot and key):
                raise ConfigError(f"an override has the form section.key=value, found '{override}'")
            config = config.with_values({section: {key: _toml_value(text.strip())}})
        return config

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the settings as a nested dictionary of plain values."""
        return {
            name: {key: list(value) if isinstance(value, tuple) else value for key, value in section.items()}
            for name, section in dataclasses.asdict(self).items()
        }

    def to_toml(self) -> str:
        """Write the settings as TOML, each with its sentence as a comment."""
        lines = []
        for name, section in vars(self).items():
            lines.append(f"[{name}]")
            lines += [
                f"{item.name} = {toml_text(getattr(section, item.name))}  # {item.metadata['about']}"
                for item in fields(section)
            ]
            lines.append("")
        return "\n".join(lines)


def setting_place(name: str) -> tuple[str, str]:
    """Return section and key of a setting written ``section__key`` or ``key``.

    A key alone is that of the section ``training`` if it has it (``epochs``), else of the only section that has it.
    """
    section, separator, key = name.partition("__")
    if separator:
        return section, key
    places = _sections_with(name)
    if len(places) > 1:
        choices = ", ".join(f"{section}__{name}" for section in places)
        raise ConfigError(f"several sections have a setting '{name}': choose one of {choices}")
    if not places:
        keys = (key for values in Config().to_dict().values() for key in values)
        known = {*vars(Config()), *keys, "seed", "device", "verbose"}
        raise ConfigError(f"GDPNet has no parameter '{name}'{nearest(name, known)}")
    return places[0], name


def setting_name(section: str, key: str) -> str:
    """Return the shortest name of a setting that `setting_place` reads."""
    alone = _sections_with(key) == [section] and key not in vars(Config())
    return key if alone else f"{section}__{key}"


def _sections_with(key: str) -> list[str]:
    """Return the sections that a key alone may stand for."""
    places = [section for section, values in Config().to_dict().items() if key in values]
    return ["training"] if "training" in places else places


def read_config(path: str | Path) -> Config:
    """Read settings from a TOML file; what it leaves out has its default."""
    try:
        content = read_some(Path(path), MOST_TOML_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the config file {path}: {reason_of(error)}") from error
    try:
        values = parse_toml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path} is not valid TOML: it must be text in UTF-8, found other bytes in line {line}; save it as UTF-8"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {reason_of(error)}") from error
    # a whole file of 0.1, as in a run folder, is read under its names now; single old names are refused
    old = isinstance(values.get("reader"), dict) and all(isinstance(one, dict) for one in values.values())
    return Config().with_values(upgrade_settings(values) if old else values)


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML of bounded size; raise a ValueError for any other text."""
    if len(text) > MOST_TOML_BYTES:
        raise ValueError(f"it must have at most {MOST_TOML_BYTES:,} bytes")
    if max(map(len, text.splitlines()), default=0) > MOST_TOML_LINE:
        raise ValueError(f"a line must have at most {MOST_TOML_LINE:,} characters")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def shipped_config(name: str) -> Config:
    """Return the preset of a dataset or task, or the defaults if it has none."""
    return Config().with_values(_shipped("presets.toml").get(name, {}))


def _shipped(file: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("gdpnet") / file).read_text(encoding="utf-8"))


def task_config(kind: str) -> Config:
    """Return the settings that a task starts from: its preset, or the defaults."""
    return shipped_config(kind).with_values({"task": {"kind": kind}})


_BEFORE: dict[str, dict[str, Any]] = {"training": {"injected_weight": 0.0}, "reader": {"deep": False}}
"""Values of settings before they existed, where that is not their default; older than 0.1.0's release."""

_RENAMED = {"doubt": "label_error_gap", "most_nodes": "max_nodes", "both_ways": "symmetrise"}
_RENAMED_HINT = {"reader": "; its settings are in 'hopwise' and 'gcn' now"}


def upgrade_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a model file or record of any version under the names of this version."""
    if "policy" not in settings or "hopwise" in settings:
        return dict(settings)
    for name, values in settings.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"section '{name[:60]}' must hold settings, found {type(values).__name__}")
    old = {name: _BEFORE.get(name, {}) | dict(values) for name, values in (_BEFORE | dict(settings)).items()}
    reader = old.pop("reader", {})
    new: dict[str, dict[str, Any]] = {}
    for name, values in old.items():
        new[name] = {_RENAMED.get(str(key), str(key)): value for key, value in values.items()}
    use, deep = reader.pop("use", True), reader.pop("deep")
    if "look_every" in reader:
        reader["evaluate_every"] = reader.pop("look_every")
    new["hopwise"] = {"use": use} | reader
    new["gcn"] = {"use": use and deep} | ({"dropout": reader["dropout"]} if "dropout" in reader else {})
    if new["policy"].get("state") == "circles":
        new["policy"]["state"] = "neighbourhood"
    whole, frozen = Config().to_dict(), _shipped("constants_of_0_1.toml")
    return {name: whole.get(name, {}) | frozen.get(name, {}) | new.get(name, {}) for name in whole | new}


def _toml_value(text: str) -> Any:
    """Read one TOML value; a bare word is taken as a string."""
    try:
        read = parse_toml(f"value = {text}")
    except ValueError:
        return text
    if list(read) != ["value"]:
        raise ConfigError(f"an override must have one value, found more: {_shown(text)}")
    return read["value"]


def toml_text(value: Any) -> str:
    """Write a value as in TOML, which is as in JSON but for infinity."""
    return json.dumps(value).replace("Infinity", "inf")


def _checked(owner: str, item: dataclasses.Field[Any], value: Any) -> Any:
    """Return a value in the type of its default, or say what it must be."""
    name = f"{owner.removesuffix('Settings').lower()}.{item.name}"
    default: Any = item.default
    value = value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value
    limits = item.metadata
    if isinstance(default, tuple):
        fits = isinstance(value, list | tuple) and (limits["any_length"] or len(value) == len(default))
        if not fits:
            count = "" if limits["any_length"] else f"{len(default)} "
            raise ConfigError(f"{name} must be a list of {count}numbers, found {_shown(value)}")
        return tuple(_number(name, part, default[0], limits) for part in value)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be true or false, found {_shown(value)}")
        return value
    if isinstance(default, str):
        if not isinstance(value, str) or value not in limits["choices"]:
            raise ConfigError(f"{name} must be one of {', '.join(limits['choices'])}, found {_shown(value)}")
        return value
    return _number(name, value, default, limits)


def _number(name: str, value: Any, default: int | float, limits: Mapping[str, Any]) -> int | float:
    kind = "a whole number" if isinstance(default, int) else "a number"
    allowed = int if isinstance(default, int) else (int, float)
    if (
        isinstance(value, bool)
        or not isinstance(value, allowed)
        or (type(value) is float and math.isnan(value))
    ):
        raise ConfigError(f"{name} must be {kind}, found {_shown(value)}")
    low, high = limits["low"], limits["high"]
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ConfigError(f"{name} must be {bounds}, found {_shown(value)}")
    if isinstance(value, int) and value > _LARGEST:
        raise ConfigError(f"{name} must be at most {_LARGEST:,}, found {_shown(value)}")
    return type(default)(value)


def _shown(value: Any) -> str:
    """Return a value as errors show it; Python writes no whole number of more than 4,300 digits."""
    try:
        return repr(value)
    except ValueError:
        return f"a value of type {type(value).__name__} with too many digits"
