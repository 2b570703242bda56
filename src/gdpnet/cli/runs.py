"""The run folder of ``gdpnet train``: continue a run, and write what a trained model found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdpnet.cli.options import GraphSource
    from gdpnet.config import Config
    from gdpnet.data.graph import Graph
    from gdpnet.estimator import GDPNet
    from gdpnet.training.checkpoint import RunFolder


def continue_run(out: Path, graph: str, source: GraphSource) -> tuple[RunFolder, Config, Graph, int]:
    """Open a run to continue and its graph; return both with the settings and the seed."""
    from gdpnet.cli.inputs import open_named
    from gdpnet.training.checkpoint import check_same_graph, open_run

    run, settings, about = open_run(out)
    source = source.or_from(about.get("source", {}))
    loaded = open_named(graph, source, about.get("split", "paper"), about["seed"])
    check_same_graph(about, loaded)
    return run, settings, loaded, about["seed"]


def part_to_score(graph: Graph, part: Graph, settings: Config, seed: int) -> Graph:
    """Return the graph to score on: a sampled part if training uses one, which is said."""
    from gdpnet.training.data import part_for_scoring

    if part is graph:
        return graph
    train, validation = (part.nodes_in(name).numel() for name in ("train", "validation"))
    print(
        f"  note: training uses a sampled part of {part.num_nodes:,} nodes, with {train:,} training and "
        f"{validation:,} validation nodes (training.max_nodes)"
    )
    return part_for_scoring(graph, settings.training.max_nodes, settings.training.part_fan_out, seed)


def save_run(model: GDPNet, graph: Graph, run: RunFolder) -> dict[str, Any]:
    """Write the model, its scores on a graph, its figures and suspected label errors; return the scores."""
    from gdpnet._core.files import write_json
    from gdpnet.benchmark.evaluation import evaluate
    from gdpnet.benchmark.figures import draw_run

    model.save(run.model)
    kind, predictor = model.config_.task.kind, model.predictor(graph)
    validation = "validation_score" if kind == "links" else "validation_f1"
    metrics: dict[str, Any] = {"best_epoch": model.best_epoch_, validation: model.validation_f1_}
    metrics |= _report_suspected(model, run)
    if kind in ("links", "clusters") or bool((graph.labels[graph.nodes_in("test")] >= 0).any()):
        metrics |= evaluate(predictor)
    write_json(run.metrics, metrics)
    draw_run(predictor, run.figures)
    return metrics


def _report_suspected(model: GDPNet, run: RunFolder) -> dict[str, int]:
    """Write and count the suspected label errors, if there are any."""
    import pyarrow as pa

    from gdpnet.data.io.csv_parquet import write_table
    from gdpnet.inference.model import SuspectedLabel

    if not model.suspected_labels_:
        return {}
    columns = zip(*model.suspected_labels_, strict=True)
    table = {name: list(column) for name, column in zip(SuspectedLabel._fields, columns, strict=True)}
    write_table(pa.table(table), run.suspected)
    count = len(model.suspected_labels_)
    print(
        f"note: {count:,} training labels are suspected to be wrong and were not used after the warm-up, see "
        f"{run.suspected} (training.label_error_gap)"
    )
    return {"suspected_labels": count}
