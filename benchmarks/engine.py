"""The fused engine against the stepwise one on a GPU: one full roll-out over PubMed and DBLP, decisions compared."""

from __future__ import annotations

import statistics
import sys
from typing import Any

import torch
from records import interleaved_seconds, make_parser, median_ratio, write_record

from gdpnet.config import Config, shipped_config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of
from gdpnet.selection.engines.reference import play_stepwise
from gdpnet.selection.engines.triton_engine import play_fused
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Played
from gdpnet.training.data import make_scene
from gdpnet.training.trainer import begin_training, train_epochs

DATASETS = ("pubmed", "dblp")


@torch.no_grad()
def measure(name: str, config: Config, arguments: Any) -> dict[str, float]:
    """Train two epochs, then play all training nodes with both engines in turn."""
    device = torch.device("cuda")
    graph = load_dataset(name, arguments.data_dir, download=False)
    scene = make_scene(graph, config, arguments.seed, device)
    state = begin_training(graph, scene, config, arguments.seed, device)
    with torch.enable_grad():
        train_epochs(state, scene, config, arguments.seed, lambda _: None)
    view = make_view(state.aggregators, scene.train, slice(None))
    episodes = begin_episodes(
        scene.train.row_ptr,
        scene.train.neighbour,
        scene.targets,
        row_shift=scene.member[scene.targets] * scene.train.num_nodes,
        max_candidates=config.policy.max_candidates,
        seed=arguments.seed,
    )
    met, play = view.meet(episodes), play_of(config, greedy=False)

    def stepwise() -> Played:
        played = play_stepwise(state.policy, view, episodes, met, play)
        torch.cuda.synchronize()
        return played

    def fused() -> Played:
        played = play_fused(state.policy, view, episodes, met, play)
        torch.cuda.synchronize()
        return played

    seconds = interleaved_seconds({"stepwise": stepwise, "fused": fused}, arguments.repeats)
    return {
        "ratio": median_ratio(seconds["stepwise"], seconds["fused"]),
        **{f"{engine}_seconds": statistics.median(values) for engine, values in seconds.items()},
        "episodes": episodes.count,
        "candidates": episodes.row.numel(),
        "decisions": stepwise().episode.numel(),
        "candidates_decided_alike": _alike(stepwise(), fused()),
    }


def _alike(one: Played, other: Played) -> float:
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
