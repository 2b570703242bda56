"""The settings of every baseline, searched per graph on validation nodes and recorded.

The search is small and the same for every network, so that no method is at a disadvantage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.device import pick_device
from gdpnet._core.fit import fit_each
from gdpnet.benchmark.ablations import CLEANED, cleaner_of, variant_of
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task
from gdpnet.benchmark.baselines.methods import METHODS, method_of, run_task
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.records import Record, of_content, read_records
from gdpnet.benchmark.sweep import Sweep, record_of
from gdpnet.config import Config
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet

CANDIDATES: tuple[dict[str, Any], ...] = (
    *(
        {"width": 64, "learning_rate": 0.01, "dropout": dropout, "weight_decay": decay}
        for dropout in (0.0, 0.3, 0.5, 0.7)
        for decay in (5e-4, 5e-5)
    ),
    {"width": 64, "learning_rate": 0.003, "dropout": 0.5, "weight_decay": 5e-4},
    {"width": 128, "learning_rate": 0.01, "dropout": 0.5, "weight_decay": 5e-4},
)
"""The ten settings tried first: dropout by weight decay, then a smaller learning rate, then a wider layer."""

DEPTHS = (1, 3)
"""Numbers of layers, in place of two, that are then tried with the best of those."""

SELF_TRAINING: tuple[dict[str, Any], ...] = (
    {"pseudo_shares": [0.5]},
    {"pseudo_shares": [0.8]},
    {"pseudo_shares": [0.5, 0.8, 0.9]},
    {"pseudo_weight": 1.0},
    {"pseudo_balanced": True},
)
"""Rounds, shares and weights of pseudo-labels that are then tried with the best, for methods with self-training."""

Scored = tuple[dict[str, Any], float]
"""The settings that a candidate changes, and its mean validation micro-F1."""

SWEEP = Sweep("search", ("graph", "method", "noise", "rates"), settings=lambda record: record.get("cleaner"))


@dataclass(frozen=True)
class Search:
    """A trial: the search for the settings of one method on one graph, perturbed at several rates."""

    method: str
    settings: tuple[Setting, ...]
    device: str
    known: tuple[Scored, ...] = ()
    """Candidates that an earlier search has scored."""
    config: Config = field(default_factory=Config)
    """Settings of GDPNet, if it cleans the graph."""

    @property
    def network(self) -> str:
        """Return the baseline that is trained: the method, or the network on the cleaned graph."""
        return CLEANED.get(self.method, self.method)

    @property
    def stub(self) -> Record:
        """Return the record without its metrics; it names the settings of the GDPNet that cleans, if any."""
        first, rates = self.settings[0], [setting.rate for setting in self.settings]
        about = {"kind": SWEEP.kind, **first.to_record(), "rates": rates, "method": self.method}
        del about["rate"]
        if self.method in CLEANED:
            about["cleaner"] = variant_of(self.config, cleaner_of(self.method)).to_dict()
        return about | {"seed": first.seed, "config": asdict(METHODS[self.network].settings)}

    def run(self) -> list[Record]:
        """Return the record of the search."""
        return [record_of(self.stub, self.device, self._metrics)]

    def _metrics(self) -> Record:
        tasks = [(self._task(setting), setting.seed) for setting in self.settings]
        best, tried = search_tasks(self.network, tasks, pick_device(self.device), self.known)
        return {
            "candidates": [candidate for candidate, _ in tried],
            "validation_f1": [score for _, score in tried],
            "config": asdict(best),
        }

    def _task(self, setting: Setting) -> Task:
        if self.method in CLEANED:
            return cleaned_task(setting, cleaner_of(self.method), self.config, self.device)
        return make_task(noisy_graph(setting, self.device), setting.seed)


@lru_cache(maxsize=4)
def cleaned_task(setting: Setting, variant: str, config: Config, device: str) -> Task:
    """Fit a variant of GDPNet to a perturbed graph; return the task of a network on the graph that it cleaned.

    The last results are cached: a search needs the same graphs for one network after another.
    """
    graph = noisy_graph(setting, device)
    model = GDPNet.from_config(variant_of(config, variant), seed=setting.seed, device=device).fit(graph)
    return make_task(graph, setting.seed, model.denoise)


def check_tunable(methods: Iterable[str]) -> None:
    """Raise an error for a method that does not exist, and for an empty list."""
    names = list(methods)
    if not names:
        raise ConfigError(
            "--methods must name at least one baseline, or gdpnet; variants have the settings of gdpnet"
        )
    for name in names:
        method_of(CLEANED.get(name, name))


def searches_left(
    wanted: Iterable[tuple[tuple[Setting, ...], Config]], methods: Iterable[str], device: str, path: Path
) -> list[Search]:
    """Return the searches that a file of records does not hold completely; a method without a network needs none.

    A search that was made when there were fewer candidates continues with the new ones.
    """
    done = {key: _scored(record["metrics"]) for key, record in SWEEP.ended(path).items()}
    names = list(methods)
    every = [Search(name, settings, device, config=config) for settings, config in wanted for name in names]
    every = [replace(one, known=done.get(SWEEP.key(one.stub), ())) for one in every]
    return [one for one in every if method_of(one.network).network and not is_whole(one.known, one.network)]


def _scored(metrics: Record) -> tuple[Scored, ...]:
    every = zip(metrics["candidates"], metrics["validation_f1"], strict=True)
    return tuple((candidate, score) for candidate, score in every if score is not None)


def searched_settings(
    path: Path, contents: Mapping[str, str | None] | None = None
) -> dict[tuple[str, str], Settings]:
    """Return the settings that the newest searches found, by graph and method; on the given contents of graphs."""

    def settings_of(method: str, config: dict[str, Any]) -> Settings:
        usual = METHODS[CLEANED.get(method, method)].settings
        known = {item.name for item in fields(usual)}
        return type(usual)(**{name: value for name, value in config.items() if name in known})

    return {
        place: settings_of(place[1], record["config"])
        for place, record in SWEEP.latest(of_content(read_records(path), contents or {})).items()
        if CLEANED.get(place[1], place[1]) in METHODS
    }


def search_tasks(
    name: str,
    tasks: Iterable[tuple[Task, int]],
    device: torch.device | str = "cpu",
    known: Iterable[Scored] = (),
) -> tuple[Settings, tuple[Scored, ...]]:
    """Return the settings of best mean validation micro-F1 over some tasks, and every candidate with its score.

    Each task comes with its seed; of equal candidates the first counts. Test nodes are not scored. A method that
    chooses a parameter on validation (a share of edges, a rank) does so once per task with its default settings, and
    all candidates are compared at that choice; the returned settings leave it open. A method without a network has
    nothing to search. ``known`` are candidates that an earlier search on the same tasks has scored; they are not
    tried again.
    """
    method = method_of(name)
    scorers = [_scorer(name, task, seed, device) for task, seed in tasks]
    if not scorers:
        raise ConfigError("a search needs at least one task, found none")
    if not method.network:
        return method.settings, ()
    scored = list(known)
    while new := _left(scored, name):
        # one task after the other: scores of its edges are computed once
        each = fit_each([partial(fit_each, [partial(score, one) for one in new]) for score in scorers])
        scored += [(one, sum(scores) / len(scorers)) for one, *scores in zip(new, *each, strict=True)]
    tried = tuple(one for candidate in _wanted(scored, name) for one in scored if one[0] == candidate)
    return replace(method.settings, **_best_of(tried)), tried


def _scorer(
    name: str, task: Task, seed: int, device: torch.device | str
) -> Callable[[dict[str, Any]], float]:
    """Return a function from a candidate to its validation micro-F1 on one task."""
    method, run = method_of(name), partial(run_task, name, task, seed, device)

    @cache
    def choice() -> float | None:
        """Return the parameter that the method chooses with its default settings, if any."""
        return next(iter(run().chosen.values()), None) if method.chooses else None

    def score(candidate: dict[str, Any]) -> float:
        return run(replace(method.settings, **candidate, choice=choice())).validation_f1

    return score


def is_whole(scored: Sequence[Scored], name: str = "gcn") -> bool:
    """Return whether every candidate of a method has been scored."""
    return not _left(scored, name)


def _left(scored: Sequence[Scored], name: str) -> list[dict[str, Any]]:
    return [one for one in _wanted(scored, name) if all(one != candidate for candidate, _ in scored)]


def _wanted(scored: Sequence[Scored], name: str) -> list[dict[str, Any]]:
    """Return the candidates that are tried first and, once all of these have a score, changes of the best.

    The first changes are other depths; then other rounds of self-training, of a method that has some.
    """
    wanted, changes = list(CANDIDATES), [tuple({"layers": layers} for layers in DEPTHS)]
    for stage in [*changes, SELF_TRAINING] if method_of(name).self_trained else changes:
        known = [one for candidate in wanted for one in scored if one[0] == candidate]
        if len(known) < len(wanted):
            break
        wanted += [_best_of(known) | change for change in stage]
    return wanted


def _best_of(tried: Iterable[Scored]) -> dict[str, Any]:
    return max(tried, key=lambda one: one[1])[0]
