"""Reading a trained policy: a keep probability for every edge, whatever is asked for together."""

import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.inference import select as inference
from gdpnet.inference.ensemble import represent
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import select
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import roll_out
from helpers.worlds import CPU, known_policy, random_graph, random_world, star, table_view


def config_of(mode: str = "sampled", hops: int = 1, *, both_ways: bool = True, **policy) -> Config:
    return Config().with_values(
        {
            "inference": {"mode": mode, "episodes": 6, "both_ways": both_ways},
            "representation": {"width": 4, "hops": hops},
            "policy": {"hidden": [6, 5], "state": "circles"} | policy,
        }
    )


def chosen_of(config: Config, targets: torch.Tensor | None = None, seed: int = 0):
    graph = random_graph(7, nodes=12, links=30)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    everyone = torch.arange(graph.num_nodes) if targets is None else targets
    return graph, select(policy, aggregators, prepared, everyone, config, seed)


@pytest.mark.parametrize("mode", ["greedy", "sampled"])
@pytest.mark.parametrize("hops", [1, 2])
def test_every_edge_has_a_keep_probability(mode, hops):
    graph, chosen = chosen_of(config_of(mode, hops))
    assert chosen.probability.shape == (graph.num_edges,)
    assert bool(((chosen.probability > 0) & (chosen.probability < 1)).all())
    assert 0 < int(chosen.kept.sum()) < graph.num_edges


def test_a_sampled_reading_is_the_mean_over_its_episodes():
    config = config_of(early_stop=False, both_ways=False)
    graph = random_graph(7, nodes=12, links=30)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    view, targets = make_view(aggregators, prepared), torch.arange(12)
    chosen = select(policy, aggregators, prepared, targets, config, seed=5)
    (rollout,) = inference.roll_outs(
        policy, view, prepared, targets, config, Play(early_stop=False), 5, copies=6
    )
    for edge in range(graph.num_edges):
        played = rollout.keep_probability[rollout.episodes.edge == edge]
        assert played.numel() == 6
        assert float(chosen.probability[edge]) == pytest.approx(float(played.mean()), abs=1e-6)
        assert bool(chosen.kept[edge]) == (float(chosen.probability[edge]) > 0.5)
    assert torch.unique(rollout.keep_probability).numel() > 2 * graph.num_edges  # the episodes differ
    assert torch.equal(chosen.weight("sampled"), chosen.probability)


def test_a_greedy_reading_keeps_what_one_greedy_episode_selects():
    config = config_of("greedy")
    graph = random_graph(7, nodes=12, links=30)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    targets = torch.arange(12)
    chosen = select(policy, aggregators, prepared, targets, config, seed=5)
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
def test_a_nodes_edges_are_decided_alike_alone_or_in_company(mode, hops):
    config = config_of(mode, hops)
    graph, together = chosen_of(config)
    for target in range(graph.num_nodes):
        _, alone = chosen_of(config, targets=torch.tensor([target]))
        mine = graph.target == target
        assert torch.allclose(together.probability[mine], alone.probability[mine], atol=1e-5)
        assert torch.equal(together.kept[mine], alone.kept[mine])


def test_playing_in_small_parts_changes_nothing(monkeypatch):
    _, whole = chosen_of(config_of())
    monkeypatch.setattr(inference, "_CANDIDATES_AT_ONCE", 10)
    _, parts = chosen_of(config_of())
    assert torch.allclose(whole.probability, parts.probability, atol=1e-6)
    assert torch.equal(whole.kept, parts.kept)


def test_where_memory_is_short_smaller_batches_are_played_and_it_is_said(monkeypatch):
    _, whole = chosen_of(config_of())
    inference._say_that_memory_is_short.cache_clear()

    def short(policy, view, episodes, play):
        if episodes.row.numel() > 20:
            raise torch.OutOfMemoryError("too much")
        return roll_out(policy, view, episodes, play)

    monkeypatch.setattr(inference, "roll_out", short)
    with pytest.warns(UserWarning, match="memory is short: episodes are played in smaller batches"):
        _, parts = chosen_of(config_of())
    assert torch.allclose(whole.probability, parts.probability, atol=1e-6)
    assert torch.equal(whole.kept, parts.kept)
    inference._say_that_memory_is_short.cache_clear()


def test_an_episode_that_does_not_fit_by_itself_is_not_tried_again(monkeypatch):
    def never(policy, view, episodes, play):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(inference, "roll_out", never)
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
    _, aggregators, prepared = random_world(graph, config)
    chosen = select(None, aggregators, prepared, torch.arange(6), config, seed=0)
    assert chosen.probability.tolist() == [1.0] * graph.num_edges
    assert bool(chosen.kept.all())


def test_no_targets_decide_nothing():
    graph, chosen = chosen_of(config_of(hops=2), targets=torch.tensor([], dtype=torch.long))
    assert chosen.probability.tolist() == [1.0] * graph.num_edges


def first_reading(config: Config, seed: int = 0) -> tuple[Graph, torch.Tensor, torch.Tensor]:
    """Return the graph of `chosen_of`, and what its nodes decide before anyone has selected: chances and kept."""
    graph = random_graph(7, nodes=12, links=30)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    greedy = config.inference.mode == "greedy"
    play, copies = inference.play_of(config, greedy=greedy), 1 if greedy else 2
    view, everyone = make_view(aggregators, prepared), torch.arange(graph.num_nodes)
    (rollout,) = inference.roll_outs(policy, view, prepared, everyone, config, play, seed + 1, copies=copies)
    chance, kept = torch.zeros(graph.num_edges), torch.zeros(graph.num_edges)
    for place, edge in enumerate(rollout.episodes.edge.tolist()):
        chance[edge] += float(rollout.keep_probability[place]) / copies
        kept[edge] += float(rollout.selected[place]) / copies
    return graph, chance, kept


@pytest.mark.parametrize("both_ways", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("mode", ["greedy", "sampled"])
def test_with_two_hops_neighbours_give_the_mean_over_what_they_selected(mode, both_ways):
    config = config_of(mode, hops=2, both_ways=both_ways)
    graph, chosen = chosen_of(config)
    _, chance, kept = first_reading(config)
    weight = kept if mode == "greedy" else chance
    if both_ways:
        weight = (weight + weight[graph.reverse]) / 2
    found = chosen.prepared.edge_weight
    assert torch.allclose(found, weight, atol=1e-6)
    if mode == "greedy":
        assert set(found.tolist()) == ({0.0, 0.5, 1.0} if both_ways else {0.0, 1.0})
    features = prepare(graph, config, CPU).features
    for node in range(graph.num_nodes):
        edges = range(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
        total = sum(weight[edge] * features[graph.neighbour[edge]] for edge in edges) + features[node]
        whole = 1.0 + sum(float(weight[edge]) for edge in edges)
        assert torch.allclose(chosen.prepared.circle[node], total / whole, atol=1e-6)


# --- both ways ---


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("mode", ["greedy", "sampled"])
def test_a_links_probability_is_the_mean_of_its_targets_and_of_what_the_neighbour_first_decided(mode, hops):
    config = config_of(mode, hops)
    graph, chosen = chosen_of(config)
    _, first, _ = first_reading(config)
    policy, aggregators, _ = random_world(graph, config, seed=3)
    alone = inference.decide(policy, aggregators, chosen.prepared, torch.arange(12), config, seed=0)
    for edge in range(graph.num_edges):
        back = int(graph.reverse[edge])
        mean = (float(alone.probability[edge]) + float(first[back])) / 2
        assert float(chosen.probability[edge]) == pytest.approx(mean, abs=1e-6)
    assert not torch.allclose(chosen.probability, alone.probability, atol=1e-2)
    assert torch.equal(chosen.kept, alone.kept)


def test_without_both_ways_a_link_is_its_targets_own_affair():
    config = config_of(both_ways=False)
    graph, chosen = chosen_of(config)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    alone = inference.decide(policy, aggregators, prepared, torch.arange(12), config, seed=0)
    assert torch.equal(chosen.probability, alone.probability)
    # nobody else is played: what the neighbours of one target decide is not asked for
    first, same = inference.look_around(policy, aggregators, prepared, torch.tensor([3]), config, 0)
    assert first is None
    assert same is prepared


@pytest.mark.parametrize("hops", [1, 2])
def test_an_edge_without_a_way_back_keeps_its_targets_own_probability(hops):
    graph = random_graph(7, nodes=12, links=30, directed=True)
    one_way = graph.reverse < 0
    assert 0 < int(one_way.sum()) < graph.num_edges
    config = config_of(hops=hops)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    everyone = torch.arange(12)
    chosen = select(policy, aggregators, prepared, everyone, config, seed=0)
    alone = inference.decide(policy, aggregators, chosen.prepared, everyone, config, seed=0)
    assert torch.equal(chosen.probability[one_way], alone.probability[one_way])
    assert not bool(torch.isclose(chosen.probability[~one_way], alone.probability[~one_way]).all())


@pytest.mark.parametrize("mode", ["greedy", "sampled"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("both_ways", [False, True])
def test_a_node_far_from_the_others_is_decided_alike_whoever_is_asked_with_it(mode, directed, both_ways):
    # sparse, so that most nodes lie more than three links apart
    graph = random_graph(4, nodes=40, links=48, directed=directed)
    config = config_of(mode, hops=2, both_ways=both_ways)
    policy, aggregators, prepared = random_world(graph, config, seed=3)
    everyone = torch.arange(40)
    together = select(policy, aggregators, prepared, everyone, config, seed=5)
    _, chances = represent(aggregators, together.prepared, everyone, together.weight(mode))
    for targets in (everyone[::7], everyone[3:5], everyone[20:21]):
        some = select(policy, aggregators, prepared, targets, config, seed=5)
        asked = torch.isin(graph.target, targets)
        assert torch.allclose(some.probability[asked], together.probability[asked], atol=1e-5)
        assert bool((some.probability[~asked] == 1.0).all())
        _, few = represent(aggregators, some.prepared, targets, some.weight(mode))
        assert torch.allclose(few, chances[targets], atol=1e-5)


def test_both_directions_of_a_link_get_the_mean_of_their_two_values():
    # 0 - 1 both ways, 2 -> 1 one way
    graph = Graph.build([[0, 1, 2], [1, 0, 1]], torch.eye(3), [0, 1, 0], directed=True)
    prepared = prepare(graph, config_of(), CPU)
    assert list(zip(graph.neighbour.tolist(), graph.target.tolist(), strict=True)) == [(1, 0), (0, 1), (2, 1)]
    assert prepared.both_ways(torch.tensor([0.2, 0.6, 0.9])).tolist() == pytest.approx([0.4, 0.4, 0.9])


def test_a_hub_of_many_parts_has_each_edge_decided_once_an_episode():
    values = torch.cat([torch.tensor([0.0]), torch.linspace(-3.0, 3.0, 20)])
    rollout = roll_out(
        known_policy(-9.0), table_view(values), star(20, 3, max_candidates=6), Play(early_stop=False)
    )
    assert torch.bincount(rollout.episodes.row).tolist() == [0] + [3] * 20
    expected = torch.sigmoid(values[rollout.episodes.row])
    assert torch.allclose(rollout.keep_probability, expected, atol=1e-5)
