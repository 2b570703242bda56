"""Reading a trained policy: a keep probability for every edge, whatever is asked for together."""

import pytest
import torch

from gdpnet import inference
from gdpnet.config import Config
from gdpnet.inference import make_view, prepare, select
from gdpnet.selection.rollout import Play, roll_out
from worlds import CPU, known_policy, random_graph, random_world, star, table_view


def config_of(mode: str = "sampled", hops: int = 1, **policy) -> Config:
    return Config().with_values(
        {
            "inference": {"mode": mode, "episodes": 6},
            "representation": {"width": 4, "hops": hops},
            "policy": {"hidden": [6, 5]} | policy,
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
    config = config_of(early_stop=False)
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


def test_with_two_hops_neighbours_give_the_mean_over_what_they_selected():
    config = config_of("greedy", hops=2)
    graph, chosen = chosen_of(config)
    dropped = (~(chosen.prepared.edge_weight > 0)).nonzero().flatten()
    assert dropped.numel() > 0
    assert set(chosen.prepared.edge_weight.tolist()) == {0.0, 1.0}
    plain = prepare(graph, config, CPU)
    for node in torch.unique(graph.target[dropped]).tolist():
        edges = range(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
        kept = [int(graph.neighbour[edge]) for edge in edges if chosen.prepared.edge_weight[edge] > 0]
        expected = plain.features[[node, *kept]].mean(dim=0)
        assert torch.allclose(chosen.prepared.circle[node], expected, atol=1e-6)


def test_a_hub_of_many_parts_has_each_edge_decided_once_an_episode():
    values = torch.cat([torch.tensor([0.0]), torch.linspace(-3.0, 3.0, 20)])
    rollout = roll_out(
        known_policy(-9.0), table_view(values), star(20, 3, max_candidates=6), Play(early_stop=False)
    )
    assert torch.bincount(rollout.episodes.row).tolist() == [0] + [3] * 20
    expected = torch.sigmoid(values[rollout.episodes.row])
    assert torch.allclose(rollout.keep_probability, expected, atol=1e-5)
