"""Setups for the tests of selection: policies whose scores are known, and small graphs for their episodes."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.buffer import gather_batch, score_batch
from gdpnet.selection.episodes import Encoded, Episodes, View, begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.policy import Policy
from gdpnet.selection.ppo import Scored
from gdpnet.selection.rollout import Rollout

CPU = torch.device("cpu")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""Where Triton's kernels run: on a GPU, or in the interpreter."""

PLAYS = [
    Play(),
    Play(greedy=True),
    Play(learned_order=False),
    Play(early_stop=False),
    Play(greedy=True, learned_order=False),
    Play(greedy=True, early_stop=False),
]
"""Every way to play an episode."""

SHIPPED: dict = {"policy": {"hidden": [5, 4]}, "representation": {"width": 6}}
PAPER: dict = {"policy": {"hidden": [5, 4], "state": "paper"}, "representation": {"width": 6}}
OWN: dict = {"policy": {"hidden": [5, 4]}, "representation": {"width": 6, "self_weight": True, "hops": 1}}
"""Settings that the engines are compared with: as shipped, the paper's state, and a matrix of the node's own."""


def known_policy(ending: float = -5.0, target: float = 0.0) -> Policy:
    """Return a policy of one-wide layers that scores a neighbour h_u + target * h_v, and its end likewise."""
    policy = Policy(1, 0, (1, 1), extras=False)
    with torch.no_grad():
        policy.target_weight.fill_(target)
        policy.neighbour_weight.fill_(1.0)
        policy.first_bias.fill_(20.0)  # so that no relu is ever shut
        policy.hidden_weight.fill_(1.0)
        policy.score_weight.fill_(1.0)
        policy.score_bias.fill_(-20.0)
        policy.ending.fill_(ending)
    return policy


def table_view(value: Tensor) -> View:
    """Return a view in which node i simply is ``value[i]``, and a target the mean of itself and what it kept."""
    table = value[:, None]

    def encode(episodes: Episodes) -> Encoded:
        message = table[episodes.row]
        count = message.shape[0]
        return Encoded(message, message, torch.full((count, 2), 0.5), torch.zeros(count, 0))

    def observe(row: Tensor, total: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        state = (table[row] + total) / (1.0 + kept[:, None])
        return state, torch.full((row.numel(), 2), 0.5)

    return View(encode, observe)


def star(leaves: int, copies: int = 1, *, max_candidates: int = 256, seed: int = 0) -> Episodes:
    """Return the episodes of the centre, node 0, of a star with leaves 1, 2, ..., played some times."""
    row_ptr = torch.cat([torch.tensor([0]), torch.arange(leaves, 2 * leaves + 1)])
    neighbour = torch.cat([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
    return begin_episodes(
        row_ptr,
        neighbour,
        torch.zeros(copies, dtype=torch.long),
        copy=torch.arange(copies),
        max_candidates=max_candidates,
        seed=seed,
    )


def random_graph(
    seed: int, nodes: int = 6, links: int = 9, features: int = 4, classes: int = 3, *, directed: bool = False
) -> Graph:
    """Return a small random graph with dense features and labels."""
    generator = torch.Generator().manual_seed(seed)
    return Graph.build(
        torch.randint(nodes, (2, links), generator=generator),
        torch.randn(nodes, features, generator=generator),
        torch.arange(nodes) % classes,
        directed=directed,
    )


def random_setup(
    graph: Graph,
    config: Config,
    fold_models: int = 1,
    seed: int = 0,
) -> tuple[Policy, Aggregators, Prepared]:
    """Return a policy and aggregators with random weights, biases too, and the graph ready for them."""
    generator = torch.Generator().manual_seed(seed)
    prepared = prepare(graph, config, CPU)
    pairs = prepared.pairs.shape[1]
    settings = config.representation
    aggregators = Aggregators(
        graph.num_features, settings.width, graph.num_classes, fold_models, self_weight=settings.self_weight
    )
    policy = Policy(settings.width, pairs, config.policy.hidden, extras=config.policy.state != "paper")
    policy.fit_pairs(prepared.pairs)
    with torch.no_grad():
        for weight in [*aggregators.parameters(), *policy.parameters()]:
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return policy, aggregators, prepared


def padded_scores(scored: Scored, padding: float) -> Tensor:
    """Return a row a decision: the scores of its candidates, padded."""
    rows = torch.split(scored.score, torch.bincount(scored.owner, minlength=scored.ending.numel()).tolist())
    return pad_sequence(list(rows), batch_first=True, padding_value=padding)


def order_logits(scored: Scored, play: Play) -> Tensor:
    """Return a row a decision: the logits of all candidates, the ending neighbour last; padded with -inf."""
    logits = padded_scores(scored, -torch.inf)
    if not play.learned_order:
        logits = torch.where(logits.isinf(), logits, 0.0)
    ending = scored.ending if play.can_end else torch.full_like(scored.ending, -torch.inf)
    return torch.cat([logits, ending[:, None]], dim=1)


@torch.no_grad()
def score_all(policy: Policy, rollout: Rollout, view: View) -> Scored:
    """Score every decision of a roll-out, in its own order."""
    everyone = torch.arange(rollout.episodes.count)
    return score_batch(policy, gather_batch(policy, rollout, view, everyone))


def joint_logits(scored: Scored, play: Play) -> Tensor:
    """Return the logits of the joint action: keep each candidate, drop each candidate, or end."""
    order = torch.log_softmax(order_logits(scored, play), dim=1)
    score = padded_scores(scored, 0.0)
    keep, drop = score.sigmoid().log(), (-score).sigmoid().log()
    return torch.cat([order[:, :-1] + keep, order[:, :-1] + drop, order[:, -1:]], dim=1)


def assert_alike(one: object, other: object) -> None:
    """Hold what two engines played to the same decisions, and to the same scores up to rounding."""
    for name in ("decisions", "candidate", "kept"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("score", "weight", "scores", "ending"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), msg=name)
