"""One full roll-out over PubMed against the bare matrix products that it must do.

Early stop is off, so that all 88,648 neighbours are decided on. The policy is biased to keep nearly everything, so
that nearly every decision changes its episode's state and all of its open candidates are scored again: the most
work a roll-out can be.
"""

from __future__ import annotations

import statistics
from functools import partial

import torch
from records import interleaved_seconds, make_parser, median_ratio, write_record
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.datasets import load_dataset
from gdpnet.graph.graph import Graph
from gdpnet.inference import play_of, roll_outs
from gdpnet.prepared import Prepared, prepare
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout
from gdpnet.sight import make_view
from gdpnet.training import make_policy

KEEP_BIAS = 8.0


class Job:
    """A graph, fresh networks, and the roll-out to time."""

    def __init__(self, graph: Graph, config: Config, seed: int, keep_bias: float) -> None:
        self.config, self.seed = config, seed
        self.prepared: Prepared = prepare(graph, config, torch.device("cpu"))
        generator = torch.Generator().manual_seed(seed)
        self.aggregators = Aggregators(
            graph.num_features,
            config.representation.width,
            graph.num_classes,
            1,
            self_weight=config.representation.self_weight,
        )
        self.aggregators.initialise(generator)
        self.policy: Policy = make_policy(config, self.prepared.pairs.shape[1])
        self.policy.initialise(generator)
        self.policy.fit_pairs(self.prepared.pairs)
        torch.nn.init.constant_(self.policy.score_bias, keep_bias)
        self.targets = torch.arange(graph.num_nodes)
        self.view = make_view(self.aggregators, self.prepared)

    def look(self) -> None:
        """Prepare the view: project all nodes."""
        self.view = make_view(self.aggregators, self.prepared)

    def play(self) -> list[Rollout]:
        """Lay out the episodes and play them to their end."""
        play = play_of(self.config, greedy=False)
        return list(
            roll_outs(self.policy, self.view, self.prepared, self.targets, self.config, play, self.seed)
        )


def bare_products(candidates: int, hidden: tuple[int, int], generator: torch.Generator) -> partial[None]:
    """Return a job that scores so many candidates through 64-36-1, into memory that is already there."""
    first, second = hidden
    inputs = torch.randn(candidates, first, generator=generator)
    weight = torch.randn(first, second, generator=generator)
    score = torch.randn(second, 1, generator=generator)
    middle, out = torch.empty(candidates, second), torch.empty(candidates, 1)
    return partial(_multiply, inputs, weight, score, middle, out)


def _multiply(inputs: Tensor, weight: Tensor, score: Tensor, middle: Tensor, out: Tensor) -> None:
    torch.matmul(inputs, weight, out=middle)
    torch.matmul(middle, score, out=out)


def measure(graph: Graph, config: Config, seed: int, repeats: int, keep_bias: float) -> dict[str, float]:
    """Time the roll-out, its view and the bare products in turn."""
    job = Job(graph, config, seed, keep_bias)
    degree = graph.row_ptr.diff()
    candidates = int((degree * (degree + 1) // 2).sum())
    bare = bare_products(candidates, config.policy.hidden, torch.Generator().manual_seed(seed))
    seconds = interleaved_seconds({"rollout": job.play, "bare": bare, "view": job.look}, repeats)
    with_view = [one + other for one, other in zip(seconds["rollout"], seconds["view"], strict=True)]
    rollouts = job.play()
    decisions = sum(rollout.decisions for rollout in rollouts)
    return {
        "ratio": median_ratio(seconds["rollout"], seconds["bare"]),
        "ratio_with_view": median_ratio(with_view, seconds["bare"]),
        **{f"{name}_seconds": statistics.median(values) for name, values in seconds.items()},
        "decisions": decisions,
        "candidate_scores": candidates,
        "kept_share": sum(int(rollout.kept.sum()) for rollout in rollouts) / decisions,
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="timed turns (default: 15)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a setting for all"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    graph = load_dataset("pubmed", arguments.data_dir, download=False)
    base = Config().with_overrides(["policy.early_stop=false", *arguments.set])
    metrics = {}
    for hops in (2, 1):
        config = base.with_overrides([f"representation.hops={hops}"])
        for name, bias in (("all_kept", KEEP_BIAS), ("fresh", 1.0)):
            metrics[f"hops_{hops}_{name}"] = measure(graph, config, arguments.seed, arguments.repeats, bias)
    write_record(arguments.results, "rollout", metrics, base.to_dict())


if __name__ == "__main__":
    main()
