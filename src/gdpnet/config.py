"""Settings: frozen, checked where they are made, read from TOML; each carries the sentence that explains it."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from gdpnet.errors import ConfigError, nearest


def setting(
    default: Any,
    about: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one setting: its default, its sentence, and the values that it may have."""
    return field(default=default, metadata={"about": about, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True)
class Section:
    """A group of settings that checks its own values."""

    def __post_init__(self) -> None:
        """Check every value against its declaration."""
        for item in fields(self):
            object.__setattr__(self, item.name, _checked(type(self).__name__, item, getattr(self, item.name)))


@dataclass(frozen=True)
class FeaturesSettings(Section):
    """How node features are prepared; stored with the model and applied to every graph it meets."""

    normalise: str = setting("l2", "how each feature row is scaled", choices=("none", "row", "l2"))
    missing: str = setting(
        "one-hot",
        "what nodes without features get: each its own number (one-hot), which serves no other graph and no new "
        "node, or what the links around them say (structural)",
        choices=("one-hot", "structural"),
    )


@dataclass(frozen=True)
class PolicySettings(Section):
    """The policy network, what it sees, and how an episode runs."""

    hidden: tuple[int, int] = setting((64, 36), "width of the two hidden layers", low=1)
    state: str = setting(
        "trust",
        "what the policy sees beside [h_v, h_u]: nothing (paper), how features and predictions agree (pairs), "
        "that and the graph around both nodes (structure), that and what the nodes around them have selected "
        "(circles), or that and how many other links of both nodes are trusted (trust)",
        choices=("paper", "pairs", "structure", "circles", "trust"),
    )
    hops: int = setting(
        1,
        "how far away a candidate may be; beyond one hop its distance is a part of the state",
        low=1,
        high=3,
    )
    far_candidates: int = setting(
        32, "most candidates of a target beyond its direct neighbours, drawn once, each as likely", low=1
    )
    order: str = setting("learned", "how the next neighbour is drawn", choices=("learned", "random"))
    early_stop: bool = setting(True, "whether the ending neighbour is among the candidates")
    max_candidates: int = setting(
        256, "a target with more neighbours plays one episode for each part of this size", low=1
    )


@dataclass(frozen=True)
class RewardSettings(Section):
    """What a decision earns."""

    kind: str = setting(
        "marginal", "which reward a decision earns", choices=("paper", "counterfactual", "marginal")
    )
    score: str = setting(
        "probability",
        "f_c of the paper and counterfactual rewards: the hit (0 or 1) or the probability of the true class",
        choices=("hit", "probability"),
    )
    folds: int = setting(
        3, "parts that training nodes are cut into for cross-fitted scores; 1 means none", low=1, high=20
    )
    clip: float = setting(2.0, "largest size of one marginal reward", low=1e-6)


@dataclass(frozen=True)
class PPOSettings(Section):
    """How the policy is improved."""

    discount: float = setting(0.95, "weight of the next step's return", low=0.0, high=1.0)
    advantage: str = setting(
        "exact",
        "immediate part of the advantage: sampled return, or its exact expectation over keep and drop",
        choices=("sampled", "exact"),
    )
    learning_rate: float = setting(0.003, "step size of the policy's optimiser", low=0.0)
    weight_decay: float = setting(1e-3, "L2 penalty of the policy's weights", low=0.0)
    passes: int = setting(4, "passes over one roll-out", low=1)
    batch_size: int = setting(256, "targets in one policy update", low=1)
    max_targets: int = setting(4096, "most targets played in one epoch, drawn anew each time", low=1)
    rollout_targets: int = setting(2048, "targets played with one policy before it is updated", low=1)
    clip: float = setting(0.2, "clip range of the importance ratio", low=0.0)
    kl_limit: float = setting(0.05, "largest mean KL between the policy that acted and its update", low=0.0)
    entropy: float = setting(0.0, "weight of the entropy bonus", low=0.0)


@dataclass(frozen=True)
class RepresentationSettings(Section):
    """The aggregator and how it is trained."""

    width: int = setting(128, "width of a representation", low=1)
    hops: int = setting(
        2,
        "1: a neighbour gives its own features; 2: the mean over itself and its selected neighbours",
        low=1,
        high=2,
    )
    self_weight: bool = setting(False, "whether the node itself gets a weight matrix of its own")
    dropout: float = setting(0.5, "share of inputs and hidden units dropped in training", low=0.0, high=0.99)
    learning_rate: float = setting(0.003, "step size of the aggregator's optimiser", low=0.0)
    weight_decay: float = setting(5e-4, "L2 penalty of the aggregator's weights", low=0.0)
    passes: int = setting(2, "passes over the training nodes in one epoch", low=1)
    batch_size: int = setting(256, "training nodes in one step", low=1)
    max_steps: int = setting(30, "most steps in one epoch, however many passes are asked for", low=1)


@dataclass(frozen=True)
class ReaderSettings(Section):
    """The reader, which is fitted to the selected neighbours when the policy is learned."""

    use: bool = setting(
        True,
        "whether a reader is fitted, and votes with AGG or takes over where that is ahead on unseen nodes",
    )
    deep: bool = setting(
        True,
        "whether graph convolutions over the cleaned graph are fitted too, and vote where that does no worse on "
        "validation nodes",
    )
    dropout: float = setting(
        0.5, "share of inputs and hidden units dropped while the reader learns", low=0.0, high=0.99
    )
    learning_rate: float = setting(0.005, "step size of the reader's optimiser", low=0.0)
    weight_decay: float = setting(5e-5, "L2 penalty of the reader's weights", low=0.0)
    batch_size: int = setting(1024, "nodes that the reader learns from in one step", low=1)
    steps: int = setting(1000, "most steps", low=1)
    look_every: int = setting(50, "steps between two looks at nodes that it has not learned from", low=1)
    patience: int = setting(250, "steps without a better look before the reader stops", low=1)


@dataclass(frozen=True)
class TrainingSettings(Section):
    """How the two phases take turns."""

    epochs: int = setting(60, "largest number of turns of the two phases", low=1)
    warmup: int = setting(10, "representation epochs on all neighbours before the policy starts", low=0)
    settle: int = setting(0, "epochs that the policy has before the best epoch is looked for", low=0)
    patience: int = setting(
        20,
        "epochs in which neither validation nor the telling of injected links is better before training stops",
        low=1,
    )
    injected: float = setting(
        0.5,
        "random links added to the training graph for the policy to practise on, as a share of its links; "
        "each epoch then improves the policy there too",
        low=0.0,
    )
    injected_weight: float = setting(
        0.5,
        "when the best epoch is chosen, the weight of how well injected links are told from the graph's own (ROC "
        "AUC), beside validation F1",
        low=0.0,
    )
    doubt: float = setting(
        0.1,
        "labels are doubted where members that never learned them are right about training nodes less often than "
        "about validation nodes by more than this; 1 trusts all",
        low=0.0,
        high=1.0,
    )
    most_nodes: int = setting(
        100_000,
        "a graph with more nodes is trained on a part of it, labelled nodes drawn at random and what lies around "
        "them; tasks that read no label take it whole",
        low=10,
    )
    selection: bool = setting(True, "whether neighbours are selected; if not, all are kept")


@dataclass(frozen=True)
class InferenceSettings(Section):
    """How a trained policy is read."""

    mode: str = setting(
        "sampled",
        "greedy order and keep above one half, or the average over sampled episodes",
        choices=("greedy", "sampled"),
    )
    episodes: int = setting(8, "sampled episodes a target", low=1)
    both_ways: bool = setting(
        False, "whether a link's keep probability is the mean of what its two nodes decide about each other"
    )


@dataclass(frozen=True)
class TaskSettings(Section):
    """What representations are for."""

    kind: str = setting(
        "classification",
        "what is learned: one class a node, any number of labels a node, links that are missing, or clusters; the "
        "last two read no label",
        choices=("classification", "multi-label", "links", "clusters"),
    )
    clusters: int = setting(
        0,
        "clusters to find, or communities to tell partners of links apart by; 0: as many as the graph has classes, "
        "or 16 communities",
        low=0,
    )
    rank: int = setting(
        128, "columns that features are condensed to before links or clusters are learned", low=1
    )
    refresh: int = setting(
        5, "epochs after which clusters, or communities, are found anew over what is kept", low=1
    )


@dataclass(frozen=True)
class Config:
    """Every setting of a model."""

    features: FeaturesSettings = field(default_factory=FeaturesSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    representation: RepresentationSettings = field(default_factory=RepresentationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    inference: InferenceSettings = field(default_factory=InferenceSettings)
    task: TaskSettings = field(default_factory=TaskSettings)

    def with_values(self, values: Mapping[str, Mapping[str, Any]]) -> Config:
        """Return a copy with the values of a nested mapping in place."""
        sections = {item.name: getattr(self, item.name) for item in fields(self)}
        for name, changes in values.items():
            if name not in sections:
                raise ConfigError(f"there is no section '{name}' of settings{nearest(name, sections)}")
            if not isinstance(changes, Mapping):
                raise ConfigError(f"'{name}' is a section of settings and must hold keys, found {changes!r}")
            known = [item.name for item in fields(sections[name])]
            for key in changes:
                if key not in known:
                    raise ConfigError(f"there is no setting '{name}.{key}'{nearest(key, known)}")
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
            section.name: {
                item.name: list(value) if isinstance(value, tuple) else value
                for item in fields(getattr(self, section.name))
                for value in [getattr(getattr(self, section.name), item.name)]
            }
            for section in fields(self)
        }

    def to_toml(self) -> str:
        """Write the settings as TOML, each with its sentence as a comment."""
        lines = []
        for section in fields(self):
            values = getattr(self, section.name)
            lines.append(f"[{section.name}]")
            lines += [
                f"{item.name} = {_toml_text(getattr(values, item.name))}  # {item.metadata['about']}"
                for item in fields(values)
            ]
            lines.append("")
        return "\n".join(lines)


def read_config(path: Path) -> Config:
    """Read settings from a TOML file; what it leaves out has its default."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    return Config().with_values(values)


def shipped_config(name: str) -> Config:
    """Return the shipped settings of a dataset, or the defaults where none are shipped."""
    for file in (resources.files("gdpnet") / "configs").iterdir():
        if file.name == f"{name}.toml":
            return Config().with_values(tomllib.loads(file.read_text(encoding="utf-8")))
    return Config()


def task_config(kind: str) -> Config:
    """Return the settings that a task starts from: those shipped for it, or the defaults."""
    return shipped_config(kind).with_values({"task": {"kind": kind}})


_BEFORE: dict[str, dict[str, Any]] = {"training": {"injected_weight": 0.0}, "reader": {"deep": False}}
"""What a setting was before there was one, where that is not its default."""


def filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a record with what it is too old to have, as it was then."""
    if "policy" not in settings:
        return dict(settings)
    defaults = {name: values | _BEFORE.get(name, {}) for name, values in Config().to_dict().items()}
    return {name: defaults.get(name, {}) | dict(settings.get(name, {})) for name in defaults | dict(settings)}


def _toml_value(text: str) -> Any:
    """Read one TOML value; a bare word is taken as a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _toml_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_text(part) for part in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _checked(owner: str, item: dataclasses.Field[Any], value: Any) -> Any:
    """Return a value in the type of its default, or say what it must be."""
    name = f"{owner.removesuffix('Settings').lower()}.{item.name}"
    default: Any = item.default
    limits = item.metadata
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or len(value) != len(default):
            raise ConfigError(f"{name} must be a list of {len(default)} numbers, found {value!r}")
        return tuple(_number(name, part, number, limits) for part, number in zip(value, default, strict=True))
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be true or false, found {value!r}")
        return value
    if isinstance(default, str):
        if value not in limits["choices"]:
            raise ConfigError(f"{name} must be one of {', '.join(limits['choices'])}, found {value!r}")
        return value
    return _number(name, value, default, limits)


def _number(name: str, value: Any, default: int | float, limits: Mapping[str, Any]) -> int | float:
    kind = "a whole number" if isinstance(default, int) else "a number"
    allowed = int if isinstance(default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or math.isnan(value):
        raise ConfigError(f"{name} must be {kind}, found {value!r}")
    low, high = limits["low"], limits["high"]
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ConfigError(f"{name} must be {bounds}, found {value!r}")
    return type(default)(value)
