"""Agreement: do `denoise`, `predict` and `explain` say the same about every link and every node of a dataset?

Fits a model per dataset, whose heads all join the ensemble, cleans and predicts the whole graph, and explains every
node; at the model's own threshold and at 0.5, which drops more links. Exits with 1 if a link is on different sides of
the threshold, a prediction differs, a node has no reason, or contributions do not add up to the predicted probability
within 1e-5.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from records import make_parser, write_record

from gdpnet.config import Config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet
from gdpnet.inference.explanation import Explanation
from gdpnet.inference.predictors import make_predictor
from gdpnet.inference.threshold import Choice
from gdpnet.training import heads
from gdpnet.training.fit_gcn_head import fit_gcn
from gdpnet.training.fit_hopwise_head import HeadScore, fit_hopwise

DATASETS = ("cora", "citeseer", "pubmed")
NO_MORE_THAN = 1e-5


class Tally:
    """Compares explanations with what is said about the whole graph, node by node."""

    def __init__(self, graph: Graph, model: GDPNet) -> None:
        self.graph, self.names = graph, graph.node_ids.astype(str)
        self.class_number = {str(name): place for place, name in enumerate(model.classes_)}
        self.links = self.different_sides = self.different_predictions = 0
        self.nodes = self.without_neighbours = self.without_reason = 0
        self.keep_difference = self.sum_difference = 0.0

    def add(
        self,
        node: int,
        story: Explanation,
        kept: np.ndarray,
        keep_probability: np.ndarray,
        chance: np.ndarray,
        predicted: str,
    ) -> None:
        """Compare one explanation."""
        row = slice(int(self.graph.row_ptr[node]), int(self.graph.row_ptr[node + 1]))
        told = {one.neighbour: one for one in story.decisions if one.distance == 1}
        listed = [told.get(name) for name in self.names[self.graph.neighbour[row].numpy()]]
        for place, one in enumerate(listed, start=row.start):
            if one is not None:
                self.links += 1
                self.different_sides += bool(one.kept != kept[place])
                difference = abs(one.keep_probability - float(keep_probability[place]))
                self.keep_difference = max(self.keep_difference, difference)
        total = story.value_alone + sum(one.contribution for one in story.decisions)
        expected = float(chance[self.class_number[story.explained]])
        self.sum_difference = max(self.sum_difference, abs(total - expected))
        self.different_predictions += bool(story.predicted != str(predicted))
        self.nodes += 1
        self.without_neighbours += not listed
        self.without_reason += not all(
            one is not None and math.isfinite(one.contribution + one.cosine + one.agreement) for one in listed
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        return plain | {"agrees": self.agrees}

    @property
    def agrees(self) -> bool:
        """Return whether all that was compared is the same."""
        differences = self.different_sides + self.different_predictions + self.without_reason
        complete = self.links == self.graph.num_edges and self.nodes == self.graph.num_nodes
        return complete and not differences and self.sum_difference <= NO_MORE_THAN


def compare(model: GDPNet, graph: Graph, threshold: float) -> dict[str, Any]:
    """Clean, predict and explain the whole graph at a threshold; return what differs, and the seconds."""
    trained = replace(model.trained_, threshold=Choice(threshold))
    predictor, tally = make_predictor(trained, graph), Tally(graph, model)
    start = time.perf_counter()
    cleaned, chance, predicted = predictor.denoise(), predictor.probabilities(), predictor.predict()
    kept, keep_probability = np.asarray(cleaned.kept), np.asarray(cleaned.keep_probability)
    middle = time.perf_counter()
    for node, story in enumerate(predictor.explain_nodes()):
        tally.add(node, story, kept, keep_probability, chance[node], predicted[node])
    end = time.perf_counter()
    seconds = {"denoise_predict_seconds": middle - start, "explain_seconds": end - middle}
    return {"threshold": threshold, "kept_links": int(kept.sum())} | tally.to_dict() | seconds


def fit_all_heads(graph: Graph, config: Config, seed: int) -> GDPNet:
    """Fit a model whose heads join the ensemble whatever they score on validation nodes."""

    def hopwise(*arguments: Any) -> Any:
        score = HeadScore(share=0.5, gains=1, losses=0, validation_f1=0.0, margin=0.0)
        return replace(fit_hopwise(*arguments), scores=(score,))

    def gcn(*arguments: Any) -> Any:
        return replace(fit_gcn(*arguments), gains=1, losses=0, quality_before=-1.0)

    with patch.object(heads, "fit_hopwise", hopwise), patch.object(heads, "fit_gcn", gcn):
        model = GDPNet.from_config(config, seed=seed, device="cpu").fit(graph)
    assert min(model.trained_.weights) > 0
    return model


def measure(name: str, folder: Path | None, config: Config, seed: int) -> dict[str, Any]:
    """Fit a model of a dataset and compare at its own threshold and at 0.5."""
    graph, start = load_dataset(name, folder, download=False), time.perf_counter()
    model = fit_all_heads(graph, config, seed)
    found: dict[str, Any] = {"nodes": graph.num_nodes, "links": graph.num_edges}
    found |= {"heads": model.trained_.weights._asdict(), "fit_seconds": time.perf_counter() - start}
    own = model.trained_.threshold.threshold
    found["passes"] = [compare(model, graph, one) for one in dict.fromkeys((own, 0.5))]
    print(name, found, flush=True)
    return found


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", default=",".join(DATASETS), help="comma-separated (default: all three)")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs (default: 5)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = Config().with_values({"training": {"epochs": arguments.epochs}})
    metrics = {
        name: measure(name, arguments.data_dir, config, arguments.seed)
        for name in arguments.datasets.split(",")
    }
    write_record(arguments.results, "agreement", metrics, config.to_dict())
    return 0 if all(one["agrees"] for found in metrics.values() for one in found["passes"]) else 1


if __name__ == "__main__":
    sys.exit(main())
