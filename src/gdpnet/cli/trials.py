"""Trials of the commands that compare methods: the graphs that they ask for, by content, and what is left to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdpnet.cli.options import GraphSource
from gdpnet.cli.output import note
from gdpnet.cli.progress import TrialProgress
from gdpnet.config import Config
from gdpnet.data.datasets.known import ATTACKED, NAMED, check_name

if TYPE_CHECKING:
    from gdpnet.benchmark.cases import Setting


def check_names(names: list[str]) -> None:
    """Refuse names that are neither datasets nor paths."""
    for name in names:
        check_name(name)


def reading_of(source: GraphSource) -> dict[str, Any]:
    """Return how the files of graphs are read, as `gdpnet.benchmark.cases.Setting` takes it."""
    from gdpnet.data.io.column_names import Columns

    return {
        "data_dir": source.data_dir,
        "columns": Columns(**source.columns),
        "directed": bool(source.directed),
        "weights": source.weights is not False,
        "drop_unknown": bool(source.drop_unknown),
    }


def changes_of(source: GraphSource) -> dict[str, dict[str, Any]]:
    """Return the settings that the options about a graph ask for."""
    return {} if source.missing is None else {"features": {"missing": source.missing}}


def contents_of(
    names: list[str], reading: Mapping[str, Any], *, report_only: bool = False
) -> dict[str, str | None]:
    """Return the fingerprint of each graph; of those that are on this machine if results are only reported."""
    from gdpnet.data.io.open import content_of

    known = [name for name in names if not report_only or (name not in NAMED and Path(name).exists())]
    return {name: content_of(name, **reading) for name in known}


def cases_of(
    names: list[str],
    noise: str,
    rates: Iterable[float],
    seeds: Iterable[int],
    split: str = "paper",
    contents: Mapping[str, str | None] | None = None,
    reading: Mapping[str, Any] | None = None,
    labels: str = "all",
    transductive: bool | None = None,
) -> dict[str, tuple[Setting, ...]]:
    """Return the perturbed graphs of each dataset, one per rate and seed.

    ``contents`` are the fingerprints of the graphs, and ``reading`` says how their files are read. A regime that a
    named dataset has anyway is not named.
    """
    from gdpnet.benchmark.cases import Setting

    each, how = list(product(rates, seeds)), {**(reading or {}), "labels": labels}

    def regime(name: str) -> bool | None:
        known = name in NAMED or name == "synthetic"
        return None if known and transductive == (name in ATTACKED) else transductive

    return {
        name: tuple(
            Setting(
                name,
                split,
                noise,
                rate,
                seed,
                **how,
                transductive=regime(name),
                content=(contents or {}).get(name),
            )
            for rate, seed in each
        )
        for name in names
    }


def asked_of(cases: dict[str, tuple[Setting, ...]]) -> dict[str, str | None]:
    """Return the content that is asked for by the name of its graph in records."""
    known = (some[0] for some in cases.values() if some[0].content is not None)
    return {setting.to_record()["graph"]: setting.content for setting in known}


def say_torn(paths: Iterable[Path]) -> None:
    """Note which files of records end in a line that was cut short."""
    from gdpnet.benchmark.records import torn_note

    for path in paths:
        if (sentence := torn_note(path)) is not None:
            note(f"note: {sentence}")


def say_left_alone(path: Path, contents: dict[str, str | None]) -> None:
    """Note how many records of a file are of another content than the graphs have now, and a torn last line."""
    from gdpnet.benchmark.records import of_content, read_records

    say_torn([path])
    records = read_records(path)
    if other := len(records) - len(of_content(records, contents)):
        note(
            f"note: {path} has {other:,} record{'' if other == 1 else 's'} of another content of the same graph "
            "(other edges, features, labels or split), left alone and not reported"
        )


def refuse_untrainable(cases: Iterable[tuple[Setting, ...]], device: str, *, scored: bool = False) -> None:
    """Refuse a missing device, and a graph that no method can be trained or ``scored`` on, before anything runs."""
    from gdpnet._core.device import pick_device
    from gdpnet.benchmark.cases import check_comparable, open_case, protocol_of
    from gdpnet.benchmark.evaluation import scored_nodes
    from gdpnet.training.data import cut_for_training

    pick_device(device)
    for setting, *_ in cases:
        graph = open_case(setting)
        check_comparable(graph)
        if scored:
            _say_protocol(setting, protocol_of(graph, setting))
        cut_for_training(graph, setting.seed)
        if scored:
            scored_nodes(graph)


def _say_protocol(setting: Setting, protocol: Mapping[str, Any]) -> None:
    """Note how many labels and nodes the methods are given with the first seed."""
    counts = ", ".join(f"{protocol[name]:,} {name}" for name in ("train", "validation", "test", "context"))
    note(f"{setting.to_record()['graph']}: {protocol['training']}, nodes: {counts} (without labels)")


def run_trials(
    cases: dict[str, tuple[Setting, ...]],
    methods: list[str],
    configs: dict[str, Config],
    tuned: Path,
    records: Path,
    jobs: int,
    device: str,
) -> dict[str, Any]:
    """Run the trials that a file of records lacks, each baseline with the settings that were found for it.

    Returns how many were run and why some failed.
    """
    from gdpnet.benchmark.robustness import plan
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import searched_settings

    found, units = searched_settings(tuned, asked_of(cases)), []
    for name, some in cases.items():
        graph = some[0].to_record()["graph"]
        searched = {method: one for (place, method), one in found.items() if place == graph}
        units += plan(some, methods, configs[name], device, records, searched)
    with TrialProgress(len(units)) as progress:
        run_all(units, records, jobs, progress)
    return progress.counts
