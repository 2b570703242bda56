"""The Triton engine against the reference engine on a GPU, on a full roll-out over PubMed and DBLP."""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch
from records import interleaved_seconds, make_parser, median_ratio, write_record

from gdpnet._core.random import Key
from gdpnet.config import Config, shipped_config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of
from gdpnet.selection.engines.reference import play_reference
from gdpnet.selection.engines.triton_engine import play_triton
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Slots
from gdpnet.training.data import make_training_data
from gdpnet.training.state import begin_training
from gdpnet.training.trainer import train_epochs

DATASETS = ("pubmed", "dblp")


@torch.no_grad()
def measure(name: str, config: Config, arguments: Any) -> dict[str, float]:
    """Train two epochs, then play all training nodes with both engines in turn."""
    device = torch.device("cuda")
    graph = load_dataset(name, arguments.data_dir, download=False)
    data = make_training_data(graph, config, arguments.seed, device)
    state = begin_training(data, graph.num_classes, config, Key.of(arguments.seed), device)
    with torch.enable_grad():
        train_epochs(state, data, config, Key.of(arguments.seed))
    view = make_view(state.aggregators, data.train, slice(None))
    episodes = begin_episodes(
        data.train.row_ptr,
        data.train.neighbour,
        data.targets,
        row_shift=data.fold_model[data.targets] * data.train.num_nodes,
        max_candidates=config.policy.max_candidates,
        seed=arguments.seed,
    )
    encoded, play = view.encode(episodes), play_of(config, greedy=False)

    def reference() -> Slots:
        played = play_reference(state.policy, view, episodes, encoded, play)
        torch.cuda.synchronize()
        return played

    def triton() -> Slots:
        played = play_triton(state.policy, view, episodes, encoded, play)
        torch.cuda.synchronize()
        return played

    seconds = interleaved_seconds({"reference": reference, "triton": triton}, arguments.repeats)
    return {
        "ratio": median_ratio(seconds["reference"], seconds["triton"]),
        **{f"{engine}_seconds": statistics.median(values) for engine, values in seconds.items()},
        "episodes": episodes.count,
        "candidates": episodes.row.numel(),
        "decisions": int(reference().decisions.sum()),
        "candidates_decided_alike": _alike(reference(), triton()),
    }


def _alike(one: Slots, other: Slots) -> float:
    """Return the share of candidates that both engines kept, or both did not."""
    kept = [torch.zeros_like(played.scores, dtype=torch.bool) for played in (one, other)]
    for mask, played in zip(kept, (one, other), strict=True):
        mask[played.candidate[played.kept]] = True
    return float((kept[0] == kept[1]).double().mean())


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="timed turns (default: 7)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device, and there is none")
    torch.set_num_threads(arguments.threads)
    config = shipped_config("pubmed").with_overrides(["training.epochs=2", "training.warmup=2"])
    metrics = {name: measure(name, config, arguments) for name in DATASETS}
    write_record(
        arguments.results, "engine", metrics | {"device": torch.cuda.get_device_name()}, config.to_dict()
    )


if __name__ == "__main__":
    main()
