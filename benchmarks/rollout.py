"""One full roll-out over PubMed and DBLP against the bare matrix products that it must do.

Early stop is off, so that all neighbours are decided on (88,648 on PubMed). The policy is biased to keep nearly
everything, so that nearly every decision changes its episode's state and all of its open candidates are scored again:
the most work a roll-out can be.

There are two limits. `ratio` is to the products of candidate scores alone (64-36-1), which leaves out what a state
and a candidate cost. `ratio_to_all` is to those, the policy's half of every state and of every candidate, and their
class probabilities (twice for a candidate whose neighbourhood is compared with the target's).

`engine` is the one that played, the fastest that is installed. `reference_to_all` is `ratio_to_all` of the reference
engine, which has its turn in the same run.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from records import interleaved_seconds, make_parser, median_ratio, write_record
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.inference.networks import make_policy
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of, roll_outs
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout, engine_of

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

    def play(self, *, reference: bool = False) -> list[Rollout]:
        """Lay out the episodes and play them to their end."""
        play = play_of(self.config, greedy=False)
        # other engines than the reference compute from the view's tables
        view = replace(self.view, tables=None) if reference else self.view
        return list(roll_outs(self.policy, view, self.prepared, self.targets, self.config, play, self.seed))


def score_products(candidates: int, hidden: tuple[int, int], generator: torch.Generator) -> partial[None]:
    """Return a job that scores so many candidates through 64-36-1, into memory that is already there."""
    first, second = hidden
    return partial(
        _multiply_all,
        [_product(candidates, first, second, generator), _product(candidates, second, 1, generator)],
    )


def state_products(
    states: int, candidates: int, job: Job, classes: int, generator: torch.Generator
) -> partial[None]:
    """Return a job of the other products: halves and class probabilities of so many states and candidates."""
    width, pairs, first = (
        job.config.representation.width,
        job.prepared.pairs.shape[1],
        job.config.policy.hidden[0],
    )
    looks = 1 + (job.prepared.learned_pairs > 0)
    shapes = [(states, width, first), (candidates, width + pairs, first)]
    shapes += [(states + looks * candidates, width, classes)]
    return partial(_multiply_all, [_product(*shape, generator) for shape in shapes])


def _product(
    rows: int, inner: int, columns: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Return two matrices and a place for their product."""
    return (
        torch.randn(rows, inner, generator=generator),
        torch.randn(inner, columns, generator=generator),
        torch.empty(rows, columns),
    )


def _multiply_all(products: list[tuple[Tensor, Tensor, Tensor]]) -> None:
    for left, right, out in products:
        torch.matmul(left, right, out=out)


def measure(graph: Graph, config: Config, seed: int, repeats: int, keep_bias: float) -> dict[str, Any]:
    """Time the roll-out, its view and the bare products in turn."""
    job = Job(graph, config, seed, keep_bias)
    degree = graph.row_ptr.diff()
    candidates = int((degree * (degree + 1) // 2).sum())
    rollouts = job.play()
    decisions = sum(rollout.decisions for rollout in rollouts)
    states = graph.num_nodes + sum(int(rollout.kept.sum()) for rollout in rollouts)
    draws = torch.Generator().manual_seed(seed)
    jobs = {
        "rollout": job.play,
        "scores": score_products(candidates, config.policy.hidden, draws),
        "states": state_products(states, graph.num_edges, job, graph.num_classes, draws),
        "view": job.look,
        "reference": partial(job.play, reference=True),
    }
    seconds = interleaved_seconds(jobs, repeats)
    with_view, bare = (
        [one + other for one, other in zip(seconds[left], seconds[right], strict=True)]
        for left, right in (("rollout", "view"), ("scores", "states"))
    )
    return {
        "ratio": median_ratio(seconds["rollout"], seconds["scores"]),
        "ratio_with_view": median_ratio(with_view, seconds["scores"]),
        "ratio_to_all": median_ratio(seconds["rollout"], bare),
        "engine": engine_of(job.view, rollouts[0].episodes),
        "reference_to_all": median_ratio(seconds["reference"], bare),
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
    base = Config().with_overrides(["policy.early_stop=false", *arguments.set])
    metrics = {}
    for dataset in ("pubmed", "dblp"):
        graph = load_dataset(dataset, arguments.data_dir, download=False)
        for hops in (2, 1):
            config = base.with_overrides([f"representation.hops={hops}"])
            for name, bias in (("all_kept", KEEP_BIAS), ("fresh", 1.0)):
                key = f"{dataset}_hops_{hops}_{name}"
                metrics[key] = measure(graph, config, arguments.seed, arguments.repeats, bias)
    write_record(arguments.results, "rollout", metrics, base.to_dict())


if __name__ == "__main__":
    main()
