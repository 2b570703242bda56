"""What a rank of the tests runs: it trains several times and writes down the weights that it ends with."""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from gdpnet._core.beside import Beside
from gdpnet._core.ranks import Ranks, joined_ranks
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.training.callbacks import Steps
from gdpnet.training.run_epochs import run_epochs
from helpers.small import FAST

CPU = torch.device("cpu")
LARGE = synthetic_graph(SyntheticSettings(nodes=1500, classes=3, words=200, links_per_node=1.5), seed=0)
PARTS = FAST.with_values(
    {"training": {"max_nodes": 500, "epochs": 4, "redraw_every": 2, "injected": 0.5, "perturbed_graphs": 2}}
)
FITS = PARTS.with_values({"training": {"max_nodes": 2000}})


def few_labels() -> Graph:
    """Return the graph with labels for a tenth of its training nodes, so that pseudo-labels are used."""
    split = LARGE.split.clone()
    train = (split == 1).nonzero().flatten()
    split[train[torch.arange(train.numel()) % 10 > 0]] = 0
    return replace(LARGE, split=split, labels=torch.where(split == 0, -1, LARGE.labels))


def train(config: Config, ranks: Ranks, graph: Graph = LARGE) -> str:
    """Train, and return a digest of the last and of the best weights."""
    with Beside(enabled=False) as beside:
        done = run_epochs(graph, config, 0, CPU, Steps([]), None, None, ranks, beside)
    digest = hashlib.sha256()
    for weights in (done.state.weights(), done.state.best):
        for name, value in sorted(weights.items()):
            digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    Ranks.leave = lambda self: None  # one process group for all of them
    with joined_ranks("cpu") as ranks:
        same = replace(ranks, part=0, parts=1)
        found = {
            "same part": train(PARTS, same),
            "same small graph": train(FITS, same),
            "same part, few labels": train(PARTS, same, few_labels()),
            "own parts": train(PARTS, ranks),
            "own parts again": train(PARTS, ranks),
            "own parts, few labels": train(PARTS, ranks, few_labels()),
            "shared graph": train(FITS, ranks),
        }
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
