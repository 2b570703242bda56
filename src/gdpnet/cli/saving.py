"""Write what a trained model found to its run folder. Imports torch, so commands import this module when they run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from gdpnet._core.files import write_json
from gdpnet._core.words import counted
from gdpnet.cli.output import note
from gdpnet.cli.progress import doing
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.data.validation import SPLITS, id_text
from gdpnet.estimator import GDPNet
from gdpnet.inference.predictor import Predictor
from gdpnet.training.run_folder import RunFolder

_SUSPECTED = (
    "training label is suspected to be wrong and was not",
    "training labels are suspected to be wrong and were not",
)


def save_run(
    model: GDPNet,
    graph: Graph,
    run: RunFolder,
    fit_seconds: float | None = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the model, its scores on a graph, its figures and suspected label errors; return the scores.

    With the seconds of the fit, simple methods are scored beside the model; ``more`` are further scores.
    """
    from gdpnet.benchmark.evaluation import evaluate
    from gdpnet.benchmark.figures import draw_run

    with doing("saving the model"):
        model.save(run.model)
    kind, predictor = model.config_.task.kind, model.predictor(graph)
    metrics: dict[str, Any] = {"best_epoch": model.best_epoch_} | _validation_score(model)
    metrics |= _report_suspected(model, run) | (more or {})
    if kind in ("links", "clusters") or bool(graph.labelled[graph.nodes_in("test")].any()):
        with doing("scoring the model"):
            metrics |= evaluate(predictor)
        if kind == "classification" and fit_seconds is not None:
            with doing("scoring simple methods beside the model"):
                metrics["check"] = _check(model, predictor, metrics, fit_seconds)
    _write_split(graph, run)
    with doing("drawing figures"):
        draw_run(predictor, run.figures)
    write_json(run.metrics, metrics)  # last: a run with its metrics is finished
    return metrics


def _check(
    model: GDPNet, predictor: Predictor, metrics: dict[str, Any], fit_seconds: float
) -> dict[str, Any]:
    """Return simple methods beside the model, and what to be careful about."""
    from gdpnet.benchmark.sanity import check_model, verdict

    rows = check_model(model, predictor, "test", fit_seconds)
    metric = model.config_.training.metric
    said = verdict(rows, metrics, metric)
    return {"metric": metric, "methods": [asdict(row) for row in rows], "warnings": said}


def _write_split(graph: Graph, run: RunFolder) -> None:
    """Write the split of the labelled nodes, so that the run is always scored on the same ones."""
    chosen = graph.split.bool()
    if bool(chosen.any()):
        names = np.array(SPLITS)[graph.split[chosen].numpy()]
        write_table(pa.table({"id": id_text(graph.node_ids[chosen.numpy()]), "split": names}), run.split)


def _validation_score(model: GDPNet) -> dict[str, float]:
    """Return the validation score that the model was chosen by, under the name of its metric."""
    metric, value = model.config_.training.metric, model.validation_f1_
    names = {"links": "score", "regression": "r2"}
    name = names.get(model.config_.task.kind, metric.removeprefix("micro_"))
    return {f"validation_{name}": -value if metric == "log_loss" else value}


def _report_suspected(model: GDPNet, run: RunFolder) -> dict[str, int]:
    """Write and count the suspected label errors, if there are any."""
    if not model.suspected_labels_:
        return {}
    table = pa.Table.from_pylist([one._asdict() for one in model.suspected_labels_])
    write_table(table, run.suspected)
    count = len(model.suspected_labels_)
    note(
        f"note: {counted(count, *_SUSPECTED)} used after the warm-up, see "
        f"{run.suspected} (training.label_error_gap)"
    )
    return {"suspected_labels": count}
