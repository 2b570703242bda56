"""Print what a user should know about a graph before training, and about a model after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gdpnet._core.words import counted
from gdpnet.benchmark.score_tables import (
    NESTED,
    check_table,
    folds_sentence,
    per_class_table,
    unknown_sentence,
)
from gdpnet.cli.output import note, print_table, text_of

if TYPE_CHECKING:
    from gdpnet.config import Config
    from gdpnet.data.graph import Graph

MOST_CLASSES = 20
"""Tables of classes are cut after this many rows."""


def print_classes(graph: Graph) -> None:
    """Print the number of nodes per class and split, and what is likely wrong with the labels."""
    from gdpnet.data.labels import class_counts, label_warnings

    rows = class_counts(graph)
    if not rows:
        return
    header = ("class", "training", "validation", "test", "other")
    more = f", the first {MOST_CLASSES} of {len(rows)}" if len(rows) > MOST_CLASSES else ""
    print_table(f"labelled nodes per class{more}", header, rows[:MOST_CLASSES], aside=True)
    for sentence in label_warnings(graph):
        note(f"  warning: {sentence}")


def say_stopped(epoch: int, settings: Config) -> None:
    """Note that training ended early."""
    note(
        f"note: training stopped after epoch {epoch}: validation had not improved for "
        f"{counted(settings.training.patience, 'epoch')} (training.patience)"
    )


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print one line per score, with its interval if it has one, and a table of scores per class."""
    intervals = metrics.get("intervals", {})
    for name, value in metrics.items():
        if name in NESTED:
            continue
        nested = value.items() if isinstance(value, dict) else ()
        shown = ", ".join(f"{key} {text_of(one)}" for key, one in nested) or text_of(value)
        low_high = intervals.get(name)
        between = f" (95 % interval {low_high[0]:.3f} to {low_high[1]:.3f})" if low_high else ""
        print(f"  {name.replace('_', ' ')}: {shown}{between}")
    if folds := metrics.get("cross_validation"):
        print(f"  {folds_sentence(folds)}")
    if unknown := metrics.get("unknown_classes"):
        print(f"  warning: {unknown_sentence(unknown)}")
    if per_class := metrics.get("per_class"):
        _print_per_class(per_class)
    if check := metrics.get("check"):
        _print_check(check)


def _print_per_class(per_class: dict[str, dict[str, Any]]) -> None:
    header, rows = per_class_table(per_class)
    print_table("scores per class", header, rows[:MOST_CLASSES])


def _print_check(check: dict[str, Any]) -> None:
    """Print simple methods beside the model, and what to be careful about."""
    header, rows = check_table(check)
    print_table("check: simple methods on the same test nodes", header, rows)
    for sentence in check["warnings"]:
        print(f"  warning: {sentence}")
