"""Roll-outs: order, keeping, stopping, and their probabilities, against numbers worked by hand.

The last part plays the same episodes again with plain loops over nodes and neighbours.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gdpnet._core.random import gumbels, keys, uniforms
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared, with_neighbourhoods
from gdpnet.errors import GDPNetError
from gdpnet.inference.observation import make_view
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import ENDING, NEVER, Play
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout, decision_offsets, play_copies, roll_out
from helpers.setups import known_policy, random_graph, random_setup, star, table_view

GREEDY = Play(greedy=True)
TO_THE_END = Play(early_stop=False)


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


def play_star(scores: list[float], play: Play, *, ending: float = -9.0, copies: int = 1, seed: int = 0):
    """Play the centre of a star, whose own value is 0, with leaves of these scores."""
    values = torch.tensor([0.0, *scores])
    return roll_out(known_policy(ending), table_view(values), star(len(scores), copies, seed=seed), play)


# --- greedy ---


def test_a_greedy_episode_visits_by_descending_score_and_keeps_scores_above_zero():
    rollout = play_star([1.0, -2.0, 3.0, -1.0], GREEDY)
    assert rollout.candidate.tolist() == [2, 0, 3, 1]
    assert rollout.step.tolist() == [0, 1, 2, 3]
    assert rollout.kept.tolist() == [True, True, False, False]
    assert rollout.selected.tolist() == [True, False, True, False]
    assert rollout.visited_at.tolist() == [1, 3, 0, 2]


def test_a_score_of_zero_has_keep_probability_one_half_and_is_not_kept():
    rollout = play_star([0.0], GREEDY)
    assert rollout.kept.tolist() == [False]
    assert rollout.keep_probability.tolist() == [0.5]


def test_a_greedy_episode_ends_when_the_ending_neighbour_scores_highest():
    rollout = play_star([1.0, -2.0, 3.0, -1.0], GREEDY, ending=0.5)
    assert rollout.candidate.tolist() == [2, 0, ENDING]
    assert rollout.is_ending.tolist() == [False, False, True]
    assert rollout.kept.tolist() == [True, True, False]
    assert rollout.visited_at.tolist() == [1, NEVER, 0, NEVER]
    assert rollout.selected.tolist() == [True, False, True, False]


def test_an_ending_neighbour_above_all_ends_at_once():
    rollout = play_star([1.0, 2.0], GREEDY, ending=5.0)
    assert rollout.candidate.tolist() == [ENDING]
    assert not rollout.selected.any()


def test_without_early_stop_the_ending_neighbour_is_not_a_candidate():
    rollout = play_star([1.0, 2.0], Play(greedy=True, early_stop=False), ending=5.0)
    assert rollout.candidate.tolist() == [1, 0]


def test_a_kept_neighbour_changes_the_scores_that_follow():
    # the score is h_u + h_v, and h_v is 0 at first
    values = torch.tensor([0.0, 3.0, -4.0, 1.5])
    policy = known_policy(-19.0, target=1.0)
    rollout = roll_out(policy, table_view(values), star(3), GREEDY)
    # 3 first: kept, h_v = 1.5; then 1.5 + 1.5 = 3: kept, h_v = 4.5 / 3 = 1.5; then -4 + 1.5: dropped
    assert rollout.candidate.tolist() == [0, 2, 1]
    assert rollout.kept.tolist() == [True, True, False]
    expected = [sigmoid(3.0), sigmoid(-2.5), sigmoid(3.0)]
    assert rollout.keep_probability.tolist() == pytest.approx(expected, abs=1e-6)
    sums, counts = rollout.states
    assert sums[:, 0].tolist() == [0.0, 3.0, 4.5]
    assert counts.tolist() == [0.0, 1.0, 2.0]


# --- probabilities ---


def test_log_probabilities_are_those_of_softmax_and_sigmoid():
    rollout = play_star([1.0, -2.0, 3.0], GREEDY, ending=0.5)
    at_first = math.exp(1.0) + math.exp(-2.0) + math.exp(3.0) + math.exp(0.5)
    then = at_first - math.exp(3.0)
    last = then - math.exp(1.0)
    expected = [3.0 - math.log(at_first), 1.0 - math.log(then), 0.5 - math.log(last)]
    assert rollout.order_log_prob.tolist() == pytest.approx(expected, abs=1e-5)
    kept = [math.log(sigmoid(3.0)), math.log(sigmoid(1.0)), 0.0]
    assert rollout.keep_log_prob.tolist() == pytest.approx(kept, abs=1e-5)


def test_a_drop_has_the_log_probability_of_dropping():
    rollout = play_star([-2.0], Play(greedy=True, early_stop=False))
    assert rollout.keep_log_prob.tolist() == pytest.approx([math.log(1.0 - sigmoid(-2.0))])
    assert rollout.order_log_prob.tolist() == pytest.approx([0.0], abs=1e-6)


def test_a_visited_candidate_has_the_keep_probability_of_its_decision():
    rollout = play_star([1.0, -2.0, 3.0], TO_THE_END)
    assert rollout.keep_probability.tolist() == pytest.approx([sigmoid(1.0), sigmoid(-2.0), sigmoid(3.0)])


def test_the_keep_probability_of_an_unvisited_candidate_counts_the_ending_neighbour():
    rollout = play_star([1.0, -2.0], GREEDY, ending=0.5)
    unvisited = sigmoid(-2.0) * math.exp(-2.0) / (math.exp(-2.0) + math.exp(0.5))
    assert rollout.visited_at.tolist() == [0, NEVER]
    assert rollout.keep_probability.tolist() == pytest.approx([sigmoid(1.0), unvisited])


def test_sampled_draws_follow_the_softmax_and_keeping_the_sigmoid():
    scores, ending = [1.0, -1.0, 0.5], 0.0
    rollout = play_star(scores, Play(), ending=ending, copies=10_000)
    first = rollout.step == 0
    leaf = torch.where(
        rollout.is_ending, 3, rollout.candidate - rollout.episodes.offsets[:-1][rollout.episode]
    )
    shares = torch.bincount(leaf[first], minlength=4) / 10_000
    assert torch.allclose(shares, torch.softmax(torch.tensor([*scores, ending]), dim=0), atol=0.015)
    for number, score in enumerate(scores):
        drawn = leaf == number
        assert float(rollout.kept[drawn].float().mean()) == pytest.approx(sigmoid(score), abs=0.015)


def test_a_random_order_is_uniform_and_ignores_scores_and_the_ending_neighbour():
    rollout = play_star([6.0, -6.0, 0.0], Play(learned_order=False), ending=9.0, copies=12_000)
    assert rollout.decisions == 36_000
    leaf = (rollout.candidate - rollout.episodes.offsets[:-1][rollout.episode]).view(12_000, 3)
    orders = torch.bincount(leaf[:, 0] * 3 + leaf[:, 1], minlength=9) / 12_000
    expected = torch.tensor([0, 1, 1, 1, 0, 1, 1, 1, 0]) / 6
    assert torch.allclose(orders, expected, atol=0.015)
    first, second = rollout.step == 0, rollout.step == 1
    assert torch.allclose(rollout.order_log_prob[first], torch.tensor(1 / 3).log())
    assert torch.allclose(rollout.order_log_prob[second], torch.tensor(1 / 2).log())


def test_a_greedy_episode_in_random_order_still_keeps_by_score():
    rollout = play_star([6.0, -6.0, 0.5], Play(greedy=True, learned_order=False), copies=50)
    assert rollout.selected.view(50, 3).all(dim=0).tolist() == [True, False, True]
    assert rollout.selected.view(50, 3).any(dim=0).tolist() == [True, False, True]
    assert torch.unique(rollout.candidate[rollout.step == 0] % 3).numel() == 3


# --- properties of every episode ---


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=6),
    st.floats(-4, 4, width=32),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 100),
)
def test_candidates_are_visited_at_most_once_and_all_are_without_an_end(
    scores, ending, greedy, learned, early_stop, seed
):
    play = Play(greedy, learned, early_stop)
    rollout = play_star(scores, play, ending=ending, copies=3, seed=seed)
    drawn = rollout.candidate[~rollout.is_ending]
    assert torch.unique(drawn).numel() == drawn.numel()
    assert torch.equal(rollout.visited_at[drawn], rollout.step[~rollout.is_ending])
    assert int((rollout.visited_at != NEVER).sum()) == drawn.numel()
    assert torch.equal(rollout.selected[drawn], rollout.kept[~rollout.is_ending])
    if not play.can_end:
        assert drawn.numel() == rollout.episodes.row.numel()
    offsets = decision_offsets(rollout).tolist()
    for start, end in pairwise(offsets):
        assert rollout.step[start:end].tolist() == list(range(end - start))
        assert not rollout.is_ending[start : end - 1].any()
    assert bool((rollout.order_log_prob <= 1e-5).all())


def test_an_empty_batch_gives_an_empty_roll_out():
    values = torch.tensor([0.0])
    episodes = begin_episodes(
        torch.tensor([0, 0]),
        torch.zeros(0, dtype=torch.long),
        torch.tensor([0]),
        max_candidates=4,
        seed=0,
    )
    rollout = roll_out(known_policy(), table_view(values), episodes, Play())
    assert rollout.decisions == 0
    assert decision_offsets(rollout).tolist() == [0]
    assert rollout.states[0].shape == (0, 1)


def test_the_same_seed_gives_the_same_roll_out_and_another_seed_another():
    first, again = play_star([0.0] * 5, Play(), copies=4), play_star([0.0] * 5, Play(), copies=4)
    other = play_star([0.0] * 5, Play(), copies=4, seed=1)
    assert torch.equal(first.candidate, again.candidate)
    assert torch.equal(first.kept, again.kept)
    assert torch.equal(first.order_log_prob, again.order_log_prob)
    assert other.candidate.tolist() != first.candidate.tolist()


def test_nan_scores_raise_an_error():
    policy = known_policy()
    policy.score_bias.data.fill_(torch.nan)
    with pytest.raises(GDPNetError, match="training diverged"):
        roll_out(policy, table_view(torch.tensor([0.0, 1.0, 2.0])), star(2), Play())


# --- comparison with plain loops ---


@dataclass
class Decision:
    """One decision of a plain episode; the neighbour is None for the end."""

    neighbour: int | None
    kept: bool
    order_log_prob: float
    keep_log_prob: float
    counts: float
    sums: torch.Tensor


class PlainEpisode:
    """The neighbour-selection MDP of one target by its definition, without flat tensors and precomputation."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        policy: Policy,
        aggregators: Aggregators,
        prepared: Prepared,
        fold_model: int,
    ):
        self.graph, self.config, self.policy, self.prepared = graph, config, policy, prepared
        width = aggregators.width
        columns = slice(fold_model * width, (fold_model + 1) * width)
        self.weight = aggregators.weight[:, columns]
        self.self_weight = self.weight
        if aggregators.self_weight is not None:
            self.self_weight = aggregators.self_weight[:, columns]
        self.separate = aggregators.self_weight is not None
        self.bias = aggregators.bias[fold_model]
        self.head, self.head_bias = aggregators.head_weight[fold_model], aggregators.head_bias[fold_model]
        self.features = prepared.features

    def neighbours(self, node: int) -> list[int]:
        return self.graph.neighbour[self.graph.row_ptr[node] : self.graph.row_ptr[node + 1]].tolist()

    def edge(self, neighbour: int, target: int) -> int:
        return int(self.graph.row_ptr[target]) + self.neighbours(target).index(neighbour)

    def message(self, node: int, without: int) -> torch.Tensor:
        """Return a node's message: its features, or their weighted neighbourhood mean without one node."""
        total, whole = self.features[node], 1.0
        if self.config.representation.hops == 2:
            for other in self.neighbours(node):
                if other != without:
                    weight = float(self.prepared.mean_weight[self.edge(other, node)])
                    total, whole = total + weight * self.features[other], whole + weight
        return total / whole @ self.weight

    def embedded(self, node: int, without: int) -> torch.Tensor:
        """Return the embedding of a node without its target; a self weight adds its own features."""
        own = self.features[node] @ self.self_weight if self.separate else 0.0
        return torch.relu(own + self.message(node, without) + self.bias)

    def pairs(self, neighbour: int, target: int, encoded: torch.Tensor) -> torch.Tensor:
        """Return the pair features, with those of both neighbourhoods if the state has them."""
        known = self.prepared.pairs[self.edge(neighbour, target)]
        if self.config.policy.state not in ("neighbourhood", "trust") or self.config.representation.hops == 1:
            return known
        neighbourhood = self.embedded(target, neighbour)
        probability = self.probabilities(neighbourhood)
        length = float(neighbourhood.norm() * encoded.norm())
        cosine = float(neighbourhood @ encoded) / length if length else 0.0
        learned = [float(probability @ self.probabilities(encoded)), cosine, float(probability.max())]
        if self.config.policy.state == "trust":
            learned += [self.trusted(target, neighbour), self.trusted(neighbour, target)]
        return torch.cat([known[: -len(learned)], torch.tensor(learned)])

    def trusted(self, node: int, without: int) -> float:
        """Return the logarithm of one plus the weight of a node's edges to others."""
        edges = [self.edge(other, node) for other in self.neighbours(node) if other != without]
        return math.log1p(sum(float(self.prepared.mean_weight[edge]) for edge in edges))

    def state(self, target: int, kept: list[torch.Tensor]) -> torch.Tensor:
        """Return AGG of the target and its kept neighbours' messages."""
        own = self.features[target] @ self.self_weight
        if self.separate:
            return torch.relu(own + (torch.stack(kept).mean(dim=0) if kept else 0.0) + self.bias)
        return torch.relu(torch.stack([own, *kept]).mean(dim=0) + self.bias)

    def probabilities(self, embedded: torch.Tensor) -> torch.Tensor:
        return torch.softmax(embedded @ self.head + self.head_bias, dim=0)

    def network(self, joined: torch.Tensor, weight: torch.Tensor) -> float:
        policy = self.policy
        first = torch.relu(joined @ weight + policy.first_bias)
        second = torch.relu(first @ policy.hidden_weight + policy.hidden_bias)
        return float((second @ policy.score_weight + policy.score_bias).clamp(-30, 30))

    def scores(self, target: int, kept: list[torch.Tensor], left: list[int]) -> tuple[list[float], float]:
        """Return the scores of the remaining neighbours and of the ending neighbour."""
        policy = self.policy
        state = self.state(target, kept)
        probability = self.probabilities(state)
        extras = policy.extras
        both = [policy.target_weight, policy.neighbour_weight]
        weight = torch.cat([*both, policy.agreement_weight[None]] if extras else both)
        sure = [probability.max()[None], torch.tensor([math.log(1 + len(kept))])] if extras else []
        result = []
        for neighbour in left:
            encoded = self.embedded(neighbour, target)
            other = self.probabilities(encoded)
            pairs = (self.pairs(neighbour, target, encoded) - policy.pair_mean) / policy.pair_scale
            more = [other.max()[None], (probability @ other)[None]] if extras else []
            result.append(self.network(torch.cat([state, *sure, encoded, pairs, *more]), weight))
        end = torch.cat([state, *sure, policy.ending, *([torch.zeros(1)] if extras else [])])
        return result, self.network(end, weight)

    def play(self, target: int, play: Play, seed: int) -> list[Decision]:
        """Play one episode with the random numbers of the roll-out."""
        left, kept, decisions = self.neighbours(target), [], []
        node = torch.tensor([target])
        ending_key = keys(seed + 1, node, torch.tensor([0]), torch.tensor([0]))
        while left:
            step = len(decisions)
            scores, ending = self.scores(target, kept, left)
            regret = [score if play.learned_order else 0.0 for score in scores]
            if play.can_end:
                regret.append(ending)
            total = math.log(sum(math.exp(score) for score in regret))
            noise = []
            for other in left:
                key = keys(seed, node, torch.tensor([other]), torch.tensor([0]))
                noise.append(float(gumbels(key, 2 * step)))
            noise.append(float(gumbels(ending_key, 2 * step)))
            perturbed = [score + draw for score, draw in zip(regret, noise, strict=False)]
            place = perturbed.index(max(perturbed))
            before = torch.stack(kept).sum(dim=0) if kept else torch.zeros(self.bias.numel())
            log_prob = regret[place] - total
            if place == len(left):
                decisions.append(Decision(None, False, log_prob, 0.0, len(kept), before))
                break
            neighbour = left.pop(place)
            chance = sigmoid(scores[place])
            key = keys(seed, node, torch.tensor([neighbour]), torch.tensor([0]))
            keep = float(uniforms(key, 2 * step + 1)) < chance
            keep_log_prob = math.log(chance if keep else 1.0 - chance)
            decisions.append(Decision(neighbour, keep, log_prob, keep_log_prob, len(kept), before))
            if keep:
                kept.append(self.message(neighbour, target))
        return decisions


def config_of(state: str = "neighbourhood", hops: int = 2, self_weight: bool = False) -> Config:
    return Config().with_values(
        {
            "policy": {"state": state, "hidden": [6, 5]},
            "representation": {"width": 4, "hops": hops, "self_weight": self_weight},
        }
    )


def decisions_of(rollout: Rollout, target: int) -> list[int]:
    return (rollout.episodes.target[rollout.episode] == target).nonzero().flatten().tolist()


def play_setup(graph, config, setup, play, seed, targets=None, fold_models=None):
    policy, aggregators, prepared = setup
    chosen = torch.arange(graph.num_nodes) if targets is None else torch.tensor(targets)
    shift = None if fold_models is None else fold_models[chosen] * graph.num_nodes
    episodes = begin_episodes(
        graph.row_ptr, graph.neighbour, chosen, row_shift=shift, max_candidates=256, seed=seed
    )
    return roll_out(policy, make_view(aggregators, prepared, slice(None)), episodes, play)


@pytest.mark.parametrize(
    ("config", "directed"),
    [
        (config_of("paper", hops=1), False),
        (config_of("pairs", hops=1, self_weight=True), False),
        (config_of("structure", hops=2), False),
        (config_of("structure", hops=2, self_weight=True), True),
        (config_of("neighbourhood", hops=1), False),
        (config_of("neighbourhood", hops=2), False),
        (config_of("neighbourhood", hops=2, self_weight=True), True),
        (config_of("trust", hops=2), False),
        (config_of("trust", hops=2), True),
    ],
    ids=[
        "paper",
        "pairs and self weight",
        "structure and two hops",
        "directed",
        "neighbourhood and one hop",
        "neighbourhood",
        "neighbourhood, directed",
        "trust",
        "trust, directed",
    ],
)
@pytest.mark.parametrize("play", [Play(), Play(learned_order=False), TO_THE_END], ids=["all", "ro", "no end"])
@torch.no_grad()
def test_a_roll_out_equals_the_mdp_in_plain_loops(config, directed, play):
    graph = random_graph(3, nodes=7, links=14, directed=directed)
    fold_models = torch.arange(graph.num_nodes) % 3
    policy, aggregators, prepared = random_setup(graph, config, fold_models=3, seed=5)
    if config.representation.hops == 2:
        chances = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1))
        prepared = with_neighbourhoods(prepared, chances)  # as if some neighbours were already selected
    setup = (policy, aggregators, prepared)
    for seed in range(4):
        rollout = play_setup(graph, config, setup, play, seed, fold_models=fold_models)
        sums, counts = rollout.states
        for target in range(graph.num_nodes):
            plain = PlainEpisode(graph, config, *setup, fold_model=int(fold_models[target]))
            expected = plain.play(target, play, seed)
            mine = decisions_of(rollout, target)
            assert len(mine) == len(expected)
            for decision, wanted in zip(mine, expected, strict=True):
                candidate = int(rollout.candidate[decision])
                drawn = (
                    None if candidate == ENDING else int(graph.neighbour[rollout.episodes.edge[candidate]])
                )
                assert drawn == wanted.neighbour
                assert bool(rollout.kept[decision]) == wanted.kept
                assert float(rollout.order_log_prob[decision]) == pytest.approx(
                    wanted.order_log_prob, abs=1e-4
                )
                assert float(rollout.keep_log_prob[decision]) == pytest.approx(wanted.keep_log_prob, abs=1e-4)
                assert float(counts[decision]) == wanted.counts
                assert torch.allclose(sums[decision], wanted.sums, atol=1e-5)


@pytest.mark.parametrize("play", [Play(), Play(early_stop=False), Play(learned_order=False)])
def test_copies_of_episodes_that_are_encoded_once_are_those_of_separate_episodes(play):
    config, copies = config_of(), 5
    policy, aggregators, prepared = random_setup(random_graph(3, nodes=20, links=60), config, seed=1)
    view, targets = make_view(aggregators, prepared), torch.arange(20)

    def begin(some, **given):
        return begin_episodes(prepared.row_ptr, prepared.neighbour, some, max_candidates=4, seed=9, **given)

    once = begin(targets, shared_keys=True)
    total, times_kept = play_copies(policy, view, once, play, copies)
    number = torch.arange(copies).repeat(targets.numel())
    apart = roll_out(policy, view, begin(targets.repeat_interleave(copies), copy=number), play)
    edges = prepared.neighbour.numel()
    expected = torch.zeros(edges).index_add_(0, apart.episodes.edge, apart.keep_probability)
    kept = torch.zeros(edges).index_add_(0, apart.episodes.edge, apart.selected.float())
    assert torch.allclose(total, expected[once.edge], atol=1e-5)
    assert torch.equal(times_kept, kept[once.edge])
    assert 0 < int(times_kept.sum()) < copies * edges


def test_decisions_do_not_depend_on_the_other_targets_of_a_batch():
    graph, config = random_graph(8, nodes=30, links=80), config_of()
    setup = random_setup(graph, config, seed=2)
    together = play_setup(graph, config, setup, Play(), seed=11)
    assert bool(together.is_ending.any())
    assert 0.1 < float(together.kept.float().mean()) < 0.9
    for target in range(graph.num_nodes):
        alone = play_setup(graph, config, setup, Play(), seed=11, targets=[target])
        mine = torch.tensor(decisions_of(together, target), dtype=torch.long)
        candidate = together.candidate[mine]
        edge = torch.where(candidate == ENDING, ENDING, together.episodes.edge[candidate])
        edge_alone = torch.where(alone.is_ending, ENDING, alone.episodes.edge[alone.candidate])
        assert torch.equal(edge, edge_alone)
        assert torch.equal(together.kept[mine], alone.kept)
        assert torch.allclose(together.order_log_prob[mine], alone.order_log_prob, atol=1e-5)
        assert torch.allclose(together.keep_log_prob[mine], alone.keep_log_prob, atol=1e-5)
