"""The settings of every baseline, searched per graph on validation nodes and recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gdpnet._core.device import pick_device
from gdpnet.benchmark.ablations import CLEANED, cleaner_of, variant_of
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task
from gdpnet.benchmark.baselines.methods import METHODS, method_of
from gdpnet.benchmark.baselines.search import Scored, is_whole, search_tasks
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.records import Record, read_records
from gdpnet.benchmark.sweep import Sweep, record_of
from gdpnet.config import Config
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet

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
        return _network_of(self.method)

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
        found = search_tasks(self.network, tasks, pick_device(self.device), self.known)
        candidates, scores = zip(*found.tried, strict=True) if found.tried else ((), ())
        return {
            "candidates": list(candidates),
            "validation_f1": list(scores),
            "config": asdict(found.settings),
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
    task = make_task(graph, setting.seed)
    return task.with_graphs(model.denoise(task.train).graph, model.denoise(graph).graph)


def check_tunable(methods: Iterable[str]) -> None:
    """Raise an error for a method that does not exist, and for an empty list."""
    names = list(methods)
    if not names:
        raise ConfigError("--methods must name at least one baseline; the settings of GDPNet are TOML files")
    for name in names:
        method_of(_network_of(name))


def _network_of(method: str) -> str:
    return CLEANED.get(method, method)


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
    return [one for one in every if method_of(one.network).network and not is_whole(one.known)]


def _scored(metrics: Record) -> tuple[Scored, ...]:
    every = zip(metrics["candidates"], metrics["validation_f1"], strict=True)
    return tuple((candidate, score) for candidate, score in every if score is not None)


def searched_settings(path: Path) -> dict[tuple[str, str], Settings]:
    """Return the settings that the newest searches found, by graph and method."""
    known = {item.name for item in fields(Settings)}

    def settings_of(config: dict[str, Any]) -> Settings:
        return Settings(**{name: value for name, value in config.items() if name in known})

    return {
        place: settings_of(record["config"])
        for place, record in SWEEP.latest(read_records(path)).items()
        if _network_of(place[1]) in METHODS
    }
