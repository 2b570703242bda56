"""The settings of every defence, searched for each graph on validation nodes and kept as records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gdpnet._core.device import pick_device
from gdpnet._core.files import plain
from gdpnet.benchmark.ablations import variant_of
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task
from gdpnet.benchmark.baselines.methods import METHODS, method_of
from gdpnet.benchmark.baselines.search import Scored, is_whole, search_tasks
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.cleaned import CLEANED, cleaned_task, cleaner_of
from gdpnet.benchmark.records import make_record, of_kind, read_records
from gdpnet.config import Config, filled
from gdpnet.errors import ConfigError, GDPNetError

KIND = "search"


@dataclass(frozen=True)
class Search:
    """One search: a method on one graph, corrupted at each of some rates."""

    method: str
    settings: tuple[Setting, ...]
    device: str
    known: tuple[Scored, ...] = ()
    """Candidates that an earlier search of the same has scored."""
    config: Config = field(default_factory=Config)
    """Settings of GDPNet, where it cleans the graph."""

    @property
    def network(self) -> str:
        """Return the defence that is trained: the method, or the network on the cleaned graph."""
        return _network_of(self.method)

    @property
    def graph(self) -> str:
        """Return the name that records give the graph."""
        return str(self.settings[0].to_record()["graph"])

    @property
    def rates(self) -> tuple[float, ...]:
        """Return the rates of the noise."""
        return tuple(setting.rate for setting in self.settings)

    @property
    def asked(self) -> str:
        """Return what tells this search from others."""
        first = self.settings[0]
        return repr([self.graph, self.method, first.noise, list(self.rates), first.seed, self.cleaner])

    @property
    def cleaner(self) -> dict[str, Any] | None:
        """Return the settings of who cleans the graph, if it is cleaned."""
        if self.method not in CLEANED:
            return None
        return filled(variant_of(self.config, cleaner_of(self.method)).to_dict())


def check_tunable(methods: Iterable[str]) -> None:
    """Refuse a method that is not known, and a list without any."""
    names = list(methods)
    if not names:
        raise ConfigError(
            "there is no defence among the methods to tune; GDPNet has its settings in TOML files"
        )
    for name in names:
        method_of(_network_of(name))


def _network_of(method: str) -> str:
    return CLEANED.get(method, method)


def searches_left(
    wanted: Iterable[tuple[tuple[Setting, ...], Config]], methods: Iterable[str], device: str, path: Path
) -> list[Search]:
    """List the searches that the file of records does not hold whole; a method without a network needs none.

    A search that was made when there were fewer candidates goes on with those that are new.
    """
    scored = {_asked(record): _scored(record["metrics"]) for record in _ended(path)}
    names = list(methods)
    every = [Search(name, settings, device, config=config) for settings, config in wanted for name in names]
    every = [replace(one, known=scored.get(one.asked, ())) for one in every]
    return [one for one in every if method_of(one.network).network and not is_whole(one.known)]


def _scored(metrics: dict[str, Any]) -> tuple[Scored, ...]:
    every = zip(metrics["candidates"], metrics["validation_f1"], strict=True)
    return tuple((candidate, score) for candidate, score in every if score is not None)


def _asked(record: dict[str, Any]) -> str:
    """Return what tells the search of a record from others, as `Search.asked` does."""
    cleaner = record.get("cleaner")
    about = [record[key] for key in ("graph", "method", "noise", "rates", "seed")]
    return repr([*about, cleaner if cleaner is None else filled(cleaner)])


def _ended(path: Path) -> list[dict[str, Any]]:
    """Return the searches that a file holds and that did not fail."""
    records = of_kind(read_records(path), KIND, ("noise", "rates"))
    return [record for record in records if "error" not in record["metrics"]]


def run_search(one: Search) -> list[dict[str, Any]]:
    """Search the settings of one method on one graph; return the record, also of a failure."""
    seed, settings = one.settings[0].seed, METHODS[one.network].settings
    metrics: dict[str, Any]
    try:
        tasks = [(_task(one, setting), seed) for setting in one.settings]
        found = search_tasks(one.network, tasks, pick_device(one.device), one.known)
        settings = found.settings
        metrics = {
            "candidates": [candidate for candidate, _ in found.tried],
            "validation_f1": [score for _, score in found.tried],
        }
    except (GDPNetError, RuntimeError, ValueError) as error:
        metrics = {"error": " ".join(str(error).split())}
    about: dict[str, Any] = {
        "graph": one.graph,
        "noise": one.settings[0].noise,
        "rates": list(one.rates),
        "method": one.method,
        "device": one.device,
    }
    if one.cleaner is not None:
        about["cleaner"] = one.cleaner
    return [make_record(KIND, asdict(settings), seed, plain(metrics), **about)]


def _task(one: Search, setting: Setting) -> Task:
    """Return what the network of a search sees of one corrupted graph."""
    if one.method in CLEANED:
        return cleaned_task(setting, cleaner_of(one.method), one.config, one.device)
    return make_task(noisy_graph(setting, one.device), setting.seed)


def searched_settings(path: Path) -> dict[tuple[str, str], Settings]:
    """Read the settings that searches found, by graph and method; the newest counts."""
    known = {item.name for item in fields(Settings)}
    return {
        (record["graph"], record["method"]): Settings(
            **{name: value for name, value in record["config"].items() if name in known}
        )
        for record in _ended(path)
        if _network_of(record["method"]) in METHODS
    }
