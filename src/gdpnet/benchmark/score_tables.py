"""The scores of a run as sentences and tables for commands and reports, and the names of its training curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdpnet._core.words import counted
from gdpnet.config import METRICS

NESTED = ("intervals", "per_class", "confusion", "unknown_classes", "check", "cross_validation")
"""The scores in ``metrics.json`` that are more than one number."""

CURVES = {
    "loss": "loss of the aggregators",
    "validation_f1": "micro-F1 on validation",
    "reward": "mean reward per decision",
    "kept_share": "share of neighbours kept",
    "kl": "KL of the update",
    "injected_auc": "injected-edge AUC",
}
"""What is measured in every epoch, by its name in the history of a run."""

_SCORES = {"score": "score of the task", "log_loss": "negative log loss"} | {
    name: text for name, text in METRICS.items() if name not in ("micro_f1", "log_loss")
}
"""What the validation score is called if it is no micro-F1; larger is better, so the logarithmic loss is negated."""

Table = tuple[list[str], list[tuple[Any, ...]]]
"""Names of columns, and rows."""


def curve_names(metric: str) -> dict[str, str]:
    """Return what is measured in every epoch by its name, with that of the metric that the history has."""
    if metric == "micro_f1":
        return CURVES
    return CURVES | {"validation_f1": f"{_SCORES.get(metric, metric)} on validation"}


def folds_sentence(folds: Mapping[str, Any]) -> str:
    """Return scores over the folds of a cross-validation, which are surer than those of a few test nodes."""
    scores = {name: value for name, value in folds.items() if isinstance(value, list | tuple)}
    text = ", ".join(
        f"{name.replace('_', ' ')} {mean:.3f} ± {spread:.3f}" for name, (mean, spread) in scores.items()
    )
    nodes = counted(folds["nodes"], "labelled node")
    return f"cross-validated over {folds['folds']} folds, {nodes}: {text}"


def unknown_sentence(unknown: Mapping[str, int]) -> str:
    """Return which classes of a graph a model does not know, and how often they occur."""
    names = ", ".join(f"'{name}' ({count:,})" for name, count in list(unknown.items())[:5])
    return f"classes that the model does not know count as wrong: {names}"


def per_class_table(per_class: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the scores of each class."""
    names = ("nodes", "predicted", "precision", "recall", "f1", "average_precision")
    rows = [(name, *(scores[one] for one in names)) for name, scores in per_class.items()]
    return ["class", *(name.replace("_", " ") for name in names)], rows


def confusion_table(confusion: Mapping[str, Any]) -> Table:
    """Return how often each class was predicted as each; nodes of unknown classes are the last row, if any."""
    names, counts = confusion["classes"], confusion["counts"]
    rows = [(name, *row) for name, row in zip([*names, "unknown class"], counts, strict=True)]
    return ["true class", *names], rows if any(counts[-1]) else rows[:-1]


def check_table(check: Mapping[str, Any]) -> Table:
    """Return the header and the rows of the check, with the metric of the model if it is no F1."""
    names = ["method", "micro_f1", "macro_f1"]
    if any(one.get("score") is not None for one in check["methods"]):
        names.append("score")
    header = [check["metric"] if name == "score" else name for name in names]
    rows = [
        (*(one[name] for name in names), one["remark"] or f"{one['seconds']:.1f}") for one in check["methods"]
    ]
    return [name.replace("_", " ") for name in [*header, "seconds"]], rows
