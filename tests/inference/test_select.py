"""Decisions of a trained policy: a keep probability for every edge, whichever targets are decided on together."""

from dataclasses import replace

import pytest
import torch

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.inference import select as inference
from gdpnet.inference.ensemble import aggregate
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import select
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import Rollout, play_copies, roll_out
from helpers.setups import CPU, known_policy, random_graph, random_setup, star, table_view


def config_of(mode: str = "sampled", hops: int = 1, *, symmetrise: bool = True, **policy) -> Config:
    return Config().with_values(
        {
            "inference": {"mode": mode, "episodes": 6, "symmetrise": symmetrise},
            "representation": {"width": 4, "hops": hops},
            "policy": {"hidden": [6, 5], "state": "neighbourhood"} | policy,
        }
    )


def decide_seed(seed: int) -> int:
    """Return the seed with which `select` decides on its targets."""
    return Key.of(seed).fold_in("decide").seed32


def copies_of(setup, view, config: Config, play: Play, seed: int, copies: int) -> Rollout:
    """Play the episodes of all targets several times, each copy an episode of its own."""
    policy, _, prepared = setup
    targets = torch.arange(prepared.num_nodes)
    episodes = begin_episodes(
        prepared.row_ptr,
        prepared.neighbour,
        targets.repeat_interleave(copies),
        copy=torch.arange(copies).repeat(targets.numel()),
        max_candidates=config.policy.max_candidates,
        seed=seed,
    )
    return roll_out(policy, view, episodes, play)


def chosen_of(config: Config, targets: torch.Tensor | None = None, seed: int = 0):
    graph = random_graph(7, nodes=12, links=30)
    policy, aggregators, prepared = random_setup(graph, config, seed=3)
    everyone = torch.arange(graph.num_nodes) if targets is None else targets
    return graph, select(policy, aggregators, prepared, everyone, config, Key.of(seed))


@pytest.mark.parametrize("mode", ["greedy", "sampled"])
@pytest.mark.parametrize("hops", [1, 2])
def test_every_edge_has_a_keep_probability(mode, hops):
    graph, chosen = chosen_of(config_of(mode, hops))
    assert chosen.probability.shape == (graph.num_edges,)
    assert bool(((chosen.probability > 0) & (chosen.probability < 1)).all())
    assert 0 < int(chosen.kept.sum()) < graph.num_edges


def test_a_sampled_keep_probability_is_the_mean_over_the_episodes():
    config = config_of(early_stop=False, symmetrise=False)
    graph = random_graph(7, nodes=12, links=30)
    setup = policy, aggregators, prepared = random_setup(graph, config, seed=3)
    view, targets = make_view(aggregators, prepared), torch.arange(12)
    chosen = select(policy, aggregators, prepared, targets, config, Key.of(5))
    rollout = copies_of(setup, view, config, Play(early_stop=False), decide_seed(5), copies=6)
    for edge in range(graph.num_edges):
        played = rollout.keep_probability[rollout.episodes.edge == edge]
        assert played.numel() == 6
        assert float(chosen.probability[edge]) == pytest.approx(float(played.mean()), abs=1e-6)
        assert bool(chosen.kept[edge]) == (float(chosen.probability[edge]) > 0.5)
    assert torch.unique(rollout.keep_probability).numel() > 2 * graph.num_edges  # the episodes differ
    assert torch.equal(chosen.weight("sampled"), chosen.probability)


def test_greedy_decisions_are_those_of_one_greedy_episode():
    config = config_of("greedy")
    graph = random_graph(7, nodes=12, links=30)
    policy, aggregators, prepared = random_setup(graph, config, seed=3)
    targets = torch.arange(12)
    chosen = select(policy, aggregators, prepared, targets, config, Key.of(5))
    view = make_view(aggregators, prepared)
    (rollout,) = inference.roll_outs(policy, view, prepared, targets, config, Play(greedy=True), 99)
    kept = torch.zeros(graph.num_edges, dtype=torch.bool)
    kept[rollout.episodes.edge] = rollout.selected
    assert torch.equal(chosen.kept, kept)
    assert torch.equal(chosen.weight("greedy"), kept.float())


def test_edges_of_nodes_that_were_not_asked_for_are_kept():
    graph, chosen = chosen_of(config_of(), targets=torch.tensor([3, 5]))
    asked = (graph.target == 3) | (graph.target == 5)
    assert bool((chosen.probability[~asked] == 1.0).all())
    assert bool(chosen.kept[~asked].all())
    assert bool((chosen.probability[asked] < 1.0).all())


@pytest.mark.parametrize("mode", ["greedy", "sampled"])
@pytest.mark.parametrize("hops", [1, 2])
def test_the_decisions_on_a_nodes_edges_do_not_depend_on_the_other_targets(mode, hops):
    config = config_of(mode, hops)
    graph, together = chosen_of(config)
    for target in range(graph.num_nodes):
        _, alone = chosen_of(config, targets=torch.tensor([target]))
        mine = graph.target == target
        assert torch.allclose(together.probability[mine], alone.probability[mine], atol=1e-5)
        assert torch.equal(together.kept[mine], alone.kept[mine])


def test_candidates_are_encoded_once_however_often_their_episodes_are_played(monkeypatch):
    encoded, made = [], inference.make_view

    def watched(*given):
        view = made(*given)

        def encode(episodes):
            encoded.append(episodes.row.numel())
            return view.encode(episodes)

        return replace(view, encode=encode)

    monkeypatch.setattr(inference, "make_view", watched)
    graph, _ = chosen_of(config_of(symmetrise=False))
    assert encoded == [graph.num_edges]


def test_the_batch_size_does_not_change_decisions(monkeypatch):
    _, whole = chosen_of(config_of())
    monkeypatch.setattr(inference, "_CANDIDATES_AT_ONCE", 10)
    _, parts = chosen_of(config_of())
    assert torch.allclose(whole.probability, parts.probability, atol=1e-6)
    assert torch.equal(whole.kept, parts.kept)


def test_if_memory_is_short_smaller_batches_are_used_with_a_warning(monkeypatch):
    _, whole = chosen_of(config_of())
    inference._say_that_memory_is_short.cache_clear()

    def short(policy, view, episodes, play, copies):
        if episodes.row.numel() > 20:
            raise torch.OutOfMemoryError("too much")
        return play_copies(policy, view, episodes, play, copies)

    monkeypatch.setattr(inference, "play_copies", short)
    with pytest.warns(UserWarning, match="memory is short: episodes are played in smaller batches"):
        _, parts = chosen_of(config_of())
    assert torch.allclose(whole.probability, parts.probability, atol=1e-6)
    assert torch.equal(whole.kept, parts.kept)
    inference._say_that_memory_is_short.cache_clear()


def test_a_single_episode_that_does_not_fit_raises_the_memory_error(monkeypatch):
    def never(policy, view, episodes, play, copies):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(inference, "play_copies", never)
    with pytest.raises(torch.OutOfMemoryError), pytest.warns(UserWarning, match="memory is short"):
        chosen_of(config_of())
    inference._say_that_memory_is_short.cache_clear()


def test_another_seed_samples_other_episodes():
    assert not torch.equal(
        chosen_of(config_of())[1].probability, chosen_of(config_of(), seed=1)[1].probability
    )


def test_without_a_policy_every_neighbour_is_kept():
    graph = random_graph(7)
    config = config_of(hops=2)
    _, aggregators, prepared = random_setup(graph, config)
    chosen = select(None, aggregators, prepared, torch.arange(6), config, Key.of(0))
    assert chosen.probability.tolist() == [1.0] * graph.num_edges
    assert bool(chosen.kept.all())


def test_without_targets_no_edge_is_decided_on():
    graph, chosen = chosen_of(config_of(hops=2), targets=torch.tensor([], dtype=torch.long))
    assert chosen.probability.tolist() == [1.0] * graph.num_edges


def context_decisions(config: Config, seed: int = 0) -> tuple[Graph, torch.Tensor, torch.Tensor]:
    """Return the graph of `chosen_of`, and the decisions of the context pass: keep probabilities and shares kept."""
    graph = random_graph(7, nodes=12, links=30)
    setup = _, aggregators, prepared = random_setup(graph, config, seed=3)
    greedy = config.inference.mode == "greedy"
    play, copies = inference.play_of(config, greedy=greedy), 1 if greedy else 2
    context_seed = Key.of(seed).fold_in("context").seed32
    rollout = copies_of(setup, make_view(aggregators, prepared), config, play, context_seed, copies)
    chance, kept = torch.zeros(graph.num_edges), torch.zeros(graph.num_edges)
    for place, edge in enumerate(rollout.episodes.edge.tolist()):
        chance[edge] += float(rollout.keep_probability[place]) / copies
        kept[edge] += float(rollout.selected[place]) / copies
    return graph, chance, kept


@pytest.mark.parametrize("symmetrise", [False, True], ids=["one way", "symmetrised"])
@pytest.mark.parametrize("mode", ["greedy", "sampled"])
def test_with_two_hops_the_message_of_a_neighbour_is_the_mean_over_its_selected_neighbours(mode, symmetrise):
    config = config_of(mode, hops=2, symmetrise=symmetrise)
    graph, chosen = chosen_of(config)
    _, chance, kept = context_decisions(config)
    weight = kept if mode == "greedy" else chance
    if symmetrise:
        weight = (weight + weight[graph.reverse]) / 2
    found = chosen.prepared.mean_weight
    assert torch.allclose(found, weight, atol=1e-6)
    if mode == "greedy":
        assert set(found.tolist()) == ({0.0, 0.5, 1.0} if symmetrise else {0.0, 1.0})
    features = prepare(graph, config, CPU).features
    for node in range(graph.num_nodes):
        edges = range(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
        total = sum(weight[edge] * features[graph.neighbour[edge]] for edge in edges) + features[node]
        whole = 1.0 + sum(float(weight[edge]) for edge in edges)
        assert torch.allclose(chosen.prepared.neighbourhood[node], total / whole, atol=1e-6)


# --- symmetrised decisions ---


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("mode", ["greedy", "sampled"])
def test_if_symmetrised_a_keep_probability_is_averaged_with_the_context_decision_of_the_reverse_edge(
    mode, hops
):
    config = config_of(mode, hops)
    graph, chosen = chosen_of(config)
    _, first, _ = context_decisions(config)
    policy, aggregators, _ = random_setup(graph, config, seed=3)
    alone = inference.decide(policy, aggregators, chosen.prepared, torch.arange(12), config, decide_seed(0))
    for edge in range(graph.num_edges):
        reverse_edge = int(graph.reverse[edge])
        mean = (float(alone.probability[edge]) + float(first[reverse_edge])) / 2
        assert float(chosen.probability[edge]) == pytest.approx(mean, abs=1e-6)
    assert not torch.allclose(chosen.probability, alone.probability, atol=1e-2)
    assert torch.equal(chosen.kept, alone.kept)


def test_if_not_symmetrised_a_keep_probability_is_that_of_the_target_alone():
    config = config_of(symmetrise=False)
    graph, chosen = chosen_of(config)
    policy, aggregators, prepared = random_setup(graph, config, seed=3)
    alone = inference.decide(policy, aggregators, prepared, torch.arange(12), config, decide_seed(0))
    assert torch.equal(chosen.probability, alone.probability)
    # no context pass is needed
    first, same = inference.select_context(
        policy, aggregators, prepared, torch.tensor([3]), config, Key.of(0)
    )
    assert first is None
    assert same is prepared


@pytest.mark.parametrize("hops", [1, 2])
def test_an_edge_without_a_reverse_edge_keeps_the_probability_of_its_target(hops):
    graph = random_graph(7, nodes=12, links=30, directed=True)
    one_way = graph.reverse < 0
    assert 0 < int(one_way.sum()) < graph.num_edges
    config = config_of(hops=hops)
    policy, aggregators, prepared = random_setup(graph, config, seed=3)
    everyone = torch.arange(12)
    chosen = select(policy, aggregators, prepared, everyone, config, Key.of(0))
    alone = inference.decide(policy, aggregators, chosen.prepared, everyone, config, decide_seed(0))
    assert torch.equal(chosen.probability[one_way], alone.probability[one_way])
    assert not bool(torch.isclose(chosen.probability[~one_way], alone.probability[~one_way]).all())


@pytest.mark.parametrize("mode", ["greedy", "sampled"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("symmetrise", [False, True])
def test_decisions_and_probabilities_of_distant_nodes_do_not_depend_on_the_other_targets(
    mode, directed, symmetrise
):
    # sparse, so that most nodes lie more than three links apart
    graph = random_graph(4, nodes=40, links=48, directed=directed)
    config = config_of(mode, hops=2, symmetrise=symmetrise)
    policy, aggregators, prepared = random_setup(graph, config, seed=3)
    everyone = torch.arange(40)
    together = select(policy, aggregators, prepared, everyone, config, Key.of(5))
    _, chances = aggregate(aggregators, together.prepared, everyone, together.weight(mode))
    for targets in (everyone[::7], everyone[3:5], everyone[20:21]):
        some = select(policy, aggregators, prepared, targets, config, Key.of(5))
        asked = torch.isin(graph.target, targets)
        assert torch.allclose(some.probability[asked], together.probability[asked], atol=1e-5)
        assert bool((some.probability[~asked] == 1.0).all())
        _, few = aggregate(aggregators, some.prepared, targets, some.weight(mode))
        assert torch.allclose(few, chances[targets], atol=1e-5)


def test_symmetrise_gives_both_directions_of_an_edge_the_mean_of_their_values():
    # 0 - 1 both ways, 2 -> 1 one way
    graph = Graph.build([[0, 1, 2], [1, 0, 1]], torch.eye(3), [0, 1, 0], directed=True)
    prepared = prepare(graph, config_of(), CPU)
    assert list(zip(graph.neighbour.tolist(), graph.target.tolist(), strict=True)) == [(1, 0), (0, 1), (2, 1)]
    assert prepared.symmetrise(torch.tensor([0.2, 0.6, 0.9])).tolist() == pytest.approx([0.4, 0.4, 0.9])


def test_a_hub_split_into_parts_has_each_edge_decided_on_once_per_copy():
    values = torch.cat([torch.tensor([0.0]), torch.linspace(-3.0, 3.0, 20)])
    rollout = roll_out(
        known_policy(-9.0), table_view(values), star(20, 3, max_candidates=6), Play(early_stop=False)
    )
    assert torch.bincount(rollout.episodes.row).tolist() == [0] + [3] * 20
    expected = torch.sigmoid(values[rollout.episodes.row])
    assert torch.allclose(rollout.keep_probability, expected, atol=1e-5)
