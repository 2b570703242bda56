"""The threshold of the cleaned graph: chosen on validation nodes, saved with the model, explained in a sentence."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet._core.random import Key
from gdpnet._core.significance import Lead, gains_and_losses, lead_of_counts
from gdpnet.config import Config, ThresholdSettings
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet
from gdpnet.inference.networks import make_policy
from gdpnet.inference.select import Selected, select
from gdpnet.inference.threshold import (
    KEEP_ALL,
    Choice,
    cleaning_sentence,
    edge_weights,
    guarded,
    share_kept,
    threshold_of_share,
)
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import CLASSIFICATION
from gdpnet.selection.policy import Policy
from gdpnet.training import choose_threshold as threshold
from gdpnet.training.choose_threshold import candidates_for, choose_threshold, removing_noise
from gdpnet.training.data import TrainingData, make_training_data
from helpers.setups import CPU
from helpers.small import FAST, fitted, noisy_graph

PLAIN = Config().with_values({"features": {"normalise": "none"}, "representation": {"width": 2}})

SETTINGS = ThresholdSettings()
CANDIDATES = (KEEP_ALL, *SETTINGS.candidates)


def blocks(shows_class: bool, wrong: int = 0) -> Graph:
    """Return 40 triangles of one class each; one node of a triangle may show nothing, and be linked to wrong ones."""
    number = torch.arange(120)
    label = (number // 3) % 2
    features = torch.nn.functional.one_hot(label, 2).float()
    hidden = number % 3 == 0
    if not shows_class:
        features[hidden] = 0.0
    first = number[hidden]
    links = [torch.stack([first, first + 1]), torch.stack([first, first + 2])]
    # the next triangle has the other class, and so has every second one after it
    links += [torch.stack([first, (first + 4 + 6 * step) % 120]) for step in range(wrong)]
    split = torch.where(number < 60, 1, torch.where(hidden, 2, 3))
    return Graph.build(torch.cat(links, dim=1), features, label, split=split)


def choose(graph: Graph, chance_of, genuine_of=None) -> tuple[Choice, TrainingData]:
    """Choose where the policy gives each edge this chance, by whether it joins two nodes of one class.

    ``genuine_of`` returns genuine probabilities given those of the policy.
    """

    def by_class(prepared) -> Selected:
        target = torch.arange(prepared.num_nodes).repeat_interleave(prepared.row_ptr.diff())
        same = labels_by_size[prepared.num_nodes]
        chance = chance_of(same[target] == same[prepared.neighbour])
        return Selected(chance, chance > 0.5, torch.ones_like(chance) > 0, prepared)

    data = make_training_data(graph, PLAIN, 0, CPU)
    labels_by_size = {data.train.num_nodes: data.labels, graph.num_nodes: graph.labels}
    aggregators = Aggregators(2, 2, 2, 1, self_weight=False)
    with torch.no_grad():
        aggregators.weight.copy_(torch.eye(2))
    train, whole = by_class(data.train), by_class(data.whole)
    genuine = None if genuine_of is None else genuine_of(whole.probability)
    given = (aggregators, data, train, whole, ThresholdSettings())
    return choose_threshold(*given, selection=True, genuine=genuine), data


# --- the choice ---


def test_of_equal_thresholds_the_one_that_keeps_most_is_chosen(monkeypatch):
    chosen, _ = choose(blocks(shows_class=True), lambda same: torch.where(same, 0.45, 0.01))
    enough = [one for one in CANDIDATES if one <= 0.45]  # the others keep nothing
    assert dict(chosen.scores) == dict.fromkeys(enough, 1.0)
    assert chosen.threshold == KEEP_ALL


def test_if_dropping_hurts_every_edge_is_kept(monkeypatch):
    # a node that shows nothing is known by its two neighbours alone; the policy drops both
    chosen, _ = choose(blocks(shows_class=False), lambda same: torch.full(same.shape, 0.02))
    assert dict(chosen.scores) == {KEEP_ALL: 1.0}  # every candidate would remove all edges
    assert chosen.threshold == KEEP_ALL


def test_heavy_noise_that_the_policy_recognises_is_dropped(monkeypatch):
    graph = blocks(shows_class=False, wrong=6)
    chosen, data = choose(graph, lambda same: torch.where(same, 0.55, 0.35))
    scores = dict(chosen.scores)
    assert list(scores) == list(CANDIDATES[:-1])  # 0.6 would remove all edges
    # 0.4 and 0.5 leave the two links of each triangle
    assert scores[0.4] == scores[0.5] == 1.0
    assert max(scores[KEEP_ALL], scores[0.05], scores[0.3]) < 1.0
    assert chosen.threshold == 0.4
    assert chosen.reason == (
        "threshold 0.4: validation F1 of a plain two-hop classifier is 1.000 there and "
        f"{scores[KEEP_ALL]:.3f} with everything kept"
    )
    assert data.validation.numel() == 20


@pytest.mark.parametrize(
    ("gains", "losses", "ahead"), [(1, 0, False), (2, 0, True), (5, 2, True), (4, 2, False)]
)
def test_a_threshold_must_beat_keeping_every_edge_by_one_standard_deviation(gains, losses, ahead):
    mine = torch.tensor([1.0] * gains + [0.0] * losses + [1.0, 0.0])
    other = torch.tensor([0.0] * gains + [1.0] * losses + [1.0, 0.0])
    assert gains_and_losses(mine, other) == (gains, losses)
    assert lead_of_counts(gains, losses).exceeds(1.0) == ahead


def test_a_candidate_that_is_ahead_by_chance_is_not_chosen(monkeypatch):
    graph = blocks(shows_class=False, wrong=6)
    monkeypatch.setattr(threshold, "compare", lambda *_: Lead(1.0, 1.0))
    chosen, _ = choose(graph, lambda same: torch.where(same, 0.55, 0.35))
    assert dict(chosen.scores)[0.4] == 1.0
    assert chosen.threshold == KEEP_ALL


def test_both_directions_of_an_edge_are_kept_or_dropped_together(monkeypatch):
    # kept with 0.9 one way and 0.1 the other: 0.5 both ways, so that 0.4 keeps and 0.6 does not
    seen = []
    plain = threshold.edge_weights

    def watched(probability, level):
        seen.append((level, sorted(set(plain(probability, level).tolist()))))
        return plain(probability, level)

    monkeypatch.setattr(threshold, "edge_weights", watched)
    graph = blocks(shows_class=True)

    def one_way(prepared) -> Selected:
        target = torch.arange(prepared.num_nodes).repeat_interleave(prepared.row_ptr.diff())
        chance = torch.where(target < prepared.neighbour, 0.9, 0.1)
        return Selected(chance, chance > 0.5, torch.ones_like(chance) > 0, prepared)

    data = make_training_data(graph, PLAIN, 0, CPU)
    aggregators = Aggregators(2, 2, 2, 1, self_weight=False)
    choose_threshold(
        aggregators, data, one_way(data.train), one_way(data.whole), ThresholdSettings(), selection=True
    )
    assert {weights[0] for level, weights in seen if level == 0.4} == {0.5}
    assert not [weights for level, weights in seen if level == 0.6]
    assert all(len(weights) == 1 for _, weights in seen)


def test_an_edge_weight_is_zero_below_the_threshold_and_its_probability_above():
    chances = torch.tensor([0.1, 0.4, 0.5, 0.9])
    assert edge_weights(chances, 0.5).tolist() == pytest.approx([0.0, 0.0, 0.5, 0.9])
    assert edge_weights(chances, KEEP_ALL).tolist() == [1.0] * 4


def test_features_are_propagated_twice_by_hand():
    # the path 0 - 1, its only link with weight 1/2 and values 0 and 3
    graph = Graph.build([[0], [1]], [[0.0], [3.0]], [0, 1])
    prepared = make_training_data(replace(graph, split=torch.tensor([1, 1])), PLAIN, 0, CPU).whole
    mixed = threshold._propagate(torch.tensor([[0.0], [3.0]]), prepared, torch.tensor([0.5, 0.5]))
    # first (0 + 1.5) / 1.5 = 1 and 3 / 1.5 = 2; then (1 + 1) / 1.5 and (2 + 0.5) / 1.5
    assert mixed.flatten().tolist() == pytest.approx([4 / 3, 5 / 3])


def test_the_classifier_learns_linearly_separable_classes():
    rows = torch.tensor([[0.0, 1.0], [1.0, 1.0], [4.0, 1.0], [5.0, 1.0]])
    asked = torch.tensor([[-1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    labels = torch.tensor([1, 1, 0, 0])
    found = threshold._Probe(labels, 2, 2, CLASSIFICATION, ThresholdSettings()).fit(rows, asked)
    assert found.argmax(dim=1).tolist() == [1, 1, 0]


# --- saturated probabilities ---


@pytest.mark.parametrize("scale", [1e-3, 1e-6], ids=["small", "tiny"])
def test_noise_is_dropped_even_if_all_probabilities_are_close_to_zero(scale):
    graph = blocks(shows_class=False, wrong=6)
    chosen, _ = choose(graph, lambda same: torch.where(same, 2.0 * scale, scale))
    kept = edge_share(graph, same_class=True)
    assert 0.1 < kept < 0.5
    assert dict(chosen.scores)[chosen.threshold] == 1.0
    assert chosen.threshold == pytest.approx(2.0 * scale)
    # so small a probability is no weight: a kept edge would not count beside the node itself
    chance = torch.tensor([scale, 2.0 * scale])
    assert edge_weights(chance, chosen.threshold).tolist() == [0.0, 1.0]


def test_noise_is_dropped_even_if_all_probabilities_are_close_to_one():
    chosen, _ = choose(blocks(shows_class=False, wrong=6), lambda same: torch.where(same, 0.9999, 0.999))
    assert chosen.threshold == pytest.approx(0.9999)
    assert dict(chosen.scores)[chosen.threshold] == 1.0


def edge_share(graph: Graph, same_class: bool) -> float:
    same = graph.labels[graph.target] == graph.labels[graph.neighbour]
    return float((same == same_class).float().mean())


def test_shares_of_edges_are_tried_where_no_candidate_keeps_about_as_many():
    settings = ThresholdSettings(candidates=(0.3, 0.5), shares=(0.9, 0.8, 0.4, 0.2))
    chance = torch.arange(1, 11) / 1000  # all below every candidate
    assert candidates_for(chance, settings) == pytest.approx((KEEP_ALL, 0.002, 0.003, 0.007, 0.009))
    spread = torch.arange(1, 11) / 10  # 0.3 keeps 80 %, and 0.5 keeps 60 %
    assert candidates_for(spread, settings) == pytest.approx((KEEP_ALL, 0.2, 0.3, 0.5, 0.7, 0.9))


@pytest.mark.parametrize(("least", "tried"), [(0.0, True), (0.09, True), (0.11, False)])
def test_a_candidate_that_keeps_too_few_edges_is_not_tried(least, tried):
    settings = ThresholdSettings(candidates=(0.5,), shares=(), min_kept=least)
    chance = torch.tensor([0.9] + [0.1] * 9)
    assert (0.5 in candidates_for(chance, settings)) == tried


def test_equal_probabilities_give_no_further_candidate():
    assert candidates_for(torch.full((8,), 1e-5), ThresholdSettings()) == (KEEP_ALL,)
    assert candidates_for(torch.ones(8), ThresholdSettings(candidates=())) == (KEEP_ALL,)
    assert candidates_for(torch.zeros(0), ThresholdSettings(candidates=())) == (KEEP_ALL,)


def test_without_validation_nodes_a_threshold_that_removes_nearly_everything_is_lowered():
    chance = torch.arange(1, 101) / 1000
    choice = guarded(chance, 0.5, 0.1)
    assert choice == Choice(threshold_of_share(chance, 0.1), lowered_from=0.5)
    assert share_kept(chance, choice.threshold) == pytest.approx(0.1)
    assert choice.reason == (
        "threshold 0.091: there was no validation node to choose it on, and 0.5 would remove nearly every edge "
        "(threshold.min_kept)"
    )
    assert Choice.from_dict(choice.to_dict()) == choice
    assert guarded(10 * chance, 0.5, 0.1) == Choice(0.5)
    assert guarded(torch.zeros(4), 0.5, 0.1).threshold == KEEP_ALL


def test_a_sentence_says_how_many_edges_are_kept_and_whether_these_are_few():
    assert cleaning_sentence(600, 1000, "threshold 0.5, as asked for", 0.1) == (
        "600 of 1,000 directed edges are kept (60.0%); threshold 0.5, as asked for"
    )
    assert cleaning_sentence(0, 1000, "threshold 0.5, as asked for", 0.1) == (
        "0 of 1,000 directed edges are kept (0.0%); threshold 0.5, as asked for; this is less than 10% of them "
        "(threshold.min_kept): set a lower threshold to keep more"
    )
    assert "less than" not in cleaning_sentence(0, 0, "everything is kept", 0.1)


# --- with a model ---


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph)


def cosine_policy(config: Config, pairs: int) -> Policy:
    """Return a policy that scores a neighbour by the cosine of features alone, 20 (cosine - 1/5); it never ends."""
    policy = make_policy(config, pairs)
    with torch.no_grad():
        policy.neighbour_weight[config.representation.width, 0] = 20.0
        policy.hidden_weight[0, 0] = policy.score_weight[0] = 1.0
        policy.first_bias[0] = 30.0  # so that no relu is ever shut
        policy.score_bias.fill_(-34.0)
    return policy


@pytest.mark.parametrize(("spurious", "cleans"), [(4.0, True), (0.0, False)], ids=["heavy noise", "clean"])
def test_a_graph_with_heavy_planted_noise_is_cleaned_and_a_clean_one_left_alone(spurious, cleans):
    graph = synthetic_graph(
        SyntheticSettings(
            nodes=600,
            classes=3,
            topics_per_class=4,
            words=300,
            spurious_links=spurious,
            homophily=1.0,
            wrong_labels=0.0,
            corrupted_features=0.0,
        )
    )
    config = Config().with_values(
        {"representation": {"width": 32}, "policy": {"early_stop": False}, "inference": {"episodes": 1}}
    )
    data = make_training_data(graph, config, 0, CPU)
    aggregators = Aggregators(graph.num_features, 32, 3, 1, self_weight=False)
    aggregators.initialise(torch.Generator().manual_seed(0))
    policy = cosine_policy(config, data.train.pairs.shape[1])
    train, whole = (
        select(policy, aggregators, prepared, torch.arange(prepared.num_nodes), config, Key.of(0))
        for prepared in (data.train, data.whole)
    )
    chosen = choose_threshold(aggregators, data, train, whole, ThresholdSettings(), selection=True)
    scores = dict(chosen.scores)
    assert scores[chosen.threshold] == max(scores.values())
    assert (chosen.threshold > KEEP_ALL) == (scores[chosen.threshold] > scores[KEEP_ALL]) == cleans


def test_the_choice_does_not_depend_on_test_labels(graph, model):
    labels = torch.where(graph.split == 3, (graph.labels + 1) % 3, graph.labels)
    assert fitted(replace(graph, labels=labels)).threshold_ == model.threshold_


def test_without_a_validation_node_it_is_one_half_and_says_so(graph):
    blind = replace(graph, labels=torch.where(graph.split == 2, -1, graph.labels))
    model = fitted(blind)
    assert model.threshold_ == Choice(0.5)
    cleaned = model.denoise(blind)
    assert cleaned.threshold == 0.5
    assert cleaned.reason == "threshold 0.5: there was no validation node to choose it on"
    assert np.array_equal(cleaned.kept, cleaned.keep_probability >= 0.5)


def test_without_a_policy_every_edge_is_kept_and_the_reason_says_why(graph, tmp_path):
    model = fitted(graph, FAST.with_values({"training": {"selection": False}}))
    model.save(tmp_path / "model.safetensors")
    for one in (model, GDPNet.load(tmp_path / "model.safetensors", device="cpu")):
        cleaned = one.denoise(graph)
        assert (cleaned.threshold, cleaned.kept.all()) == (KEEP_ALL, True)
        assert cleaned.reason == "everything is kept: the model was trained without selection"
        assert cleaned.graph.edge_weight.tolist() == [1.0] * graph.num_edges


def test_a_chosen_threshold_is_saved_and_loaded_with_its_reason(graph, model, tmp_path):
    scores = tuple((candidate, 0.5 + candidate / 10) for candidate in CANDIDATES)
    model.save(tmp_path / "own.safetensors")
    assert GDPNet.load(tmp_path / "own.safetensors", device="cpu").threshold_ == model.threshold_
    loaded = GDPNet.load(tmp_path / "own.safetensors", device="cpu")
    loaded._set_trained(replace(loaded.trained_, threshold=Choice(0.6, scores)))
    loaded.save(tmp_path / "other.safetensors")
    again = GDPNet.load(tmp_path / "other.safetensors", device="cpu")
    assert again.threshold_ == Choice(0.6, scores)
    cleaned = again.denoise(graph)
    assert cleaned.threshold == 0.6
    assert cleaned.reason == (
        "threshold 0.6: validation F1 of a plain two-hop classifier is 0.560 there and 0.500 with everything kept"
    )
    assert np.array_equal(cleaned.kept, cleaned.keep_probability >= 0.6)
    assert np.array_equal(cleaned.graph.edge_weight, cleaned.keep_probability[cleaned.kept])


def test_if_keeping_every_edge_was_chosen_all_come_back_with_weight_one(graph, model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    loaded = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    choice = Choice(KEEP_ALL, ((KEEP_ALL, 0.75), (0.5, 0.7)))
    loaded._set_trained(replace(loaded.trained_, threshold=choice))
    cleaned = loaded.denoise(graph)
    assert cleaned.reason == "everything is kept: no threshold did clearly better on validation (F1 0.750)"
    assert cleaned.kept.all()
    assert torch.equal(cleaned.graph.neighbour, graph.neighbour)
    assert cleaned.graph.edge_weight.tolist() == [1.0] * graph.num_edges
    assert cleaned.keep_probability.min() < 0.9  # keep probabilities are still reported


@pytest.mark.parametrize("asked", [0.0, 0.3, 0.6])
def test_a_threshold_that_is_asked_for_replaces_the_chosen_one(asked, graph, model):
    cleaned = model.denoise(graph, threshold=asked)
    assert cleaned.threshold == asked
    assert cleaned.reason == f"threshold {asked:g}, as asked for"
    assert np.array_equal(cleaned.kept, cleaned.keep_probability >= asked)
    assert np.array_equal(cleaned.graph.edge_weight, cleaned.keep_probability[cleaned.kept])


def test_without_a_better_threshold_the_one_that_removes_most_noise_is_used():
    # edges 0 to 3 look genuine and 4 to 7 like noise; the policy is right about all but edge 3
    probability = torch.tensor([0.9, 0.8, 0.7, 0.1, 0.3, 0.2, 0.1, 0.1])
    genuine = torch.tensor([0.95, 0.95, 0.95, 0.95, 0.05, 0.05, 0.05, 0.05])
    # the sums of 2g - 1 are 0.0, 0.9, 1.8 and 2.7
    found = removing_noise(probability, genuine, KEEP_ALL, [KEEP_ALL, 0.15, 0.25, 0.5], SETTINGS)
    assert found == (0.5, pytest.approx(0.5))
    # without 0.5 none tells much, as edge 3 weighs more
    some = [KEEP_ALL, 0.15, 0.25]
    assert removing_noise(probability, genuine, KEEP_ALL, some, SETTINGS)[0] == KEEP_ALL
    easy = ThresholdSettings(min_lift=1.0)
    assert removing_noise(probability, genuine, KEEP_ALL, some, easy)[0] == 0.25


def test_where_little_looks_like_noise_everything_is_kept():
    probability, genuine = torch.tensor([0.9, 0.9, 0.9, 0.1]), torch.tensor([1.0, 1.0, 1.0, 0.45])
    little = ThresholdSettings(min_noise=0.15)
    assert removing_noise(probability, genuine, KEEP_ALL, [KEEP_ALL, 0.5], little) == (KEEP_ALL, None)
    assert removing_noise(probability, genuine, KEEP_ALL, [KEEP_ALL, 0.5], SETTINGS)[0] == 0.5


def test_a_policy_that_drops_genuine_edges_does_not_remove_the_noise():
    probability, genuine = torch.tensor([0.9, 0.9, 0.1, 0.1]), torch.tensor([0.2, 0.9, 0.9, 0.9])
    assert removing_noise(probability, genuine, KEEP_ALL, [KEEP_ALL, 0.5], SETTINGS) == (KEEP_ALL, None)


def test_edges_are_not_removed_where_the_policy_hardly_tells_noise_from_genuine_edges():
    # most edges look like noise, but the dropped ones hardly more than the kept ones
    probability, genuine = torch.tensor([0.1, 0.1, 0.9, 0.9]), torch.tensor([0.3, 0.4, 0.4, 0.4])
    assert removing_noise(probability, genuine, KEEP_ALL, [KEEP_ALL, 0.5], SETTINGS) == (KEEP_ALL, None)
    easy = ThresholdSettings(min_lift=1.0)
    assert removing_noise(probability, genuine, KEEP_ALL, [KEEP_ALL, 0.5], easy)[0] == 0.5


@pytest.mark.parametrize(("right", "expected"), [(17, 0.2), (12, 0.4)])
def test_of_thresholds_that_are_about_as_good_the_one_that_keeps_most_is_used(right, expected, monkeypatch):
    graph = blocks(shows_class=True, wrong=1)
    truth, number = graph.labels[graph.split == 2], torch.arange(20)
    # 10 hits with every edge, 17 or 12 at 0.2, and 18 at 0.4 and 0.6, not those of the nodes before
    hits = iter([number < 10, number < right, number >= 2, number >= 2])
    monkeypatch.setattr(threshold, "candidates_for", lambda *_: (KEEP_ALL, 0.2, 0.4, 0.6))
    monkeypatch.setattr(
        threshold._Probe,
        "fit",
        lambda *_: torch.nn.functional.one_hot(torch.where(next(hits), truth, 1 - truth), 2).float(),
    )
    chosen, _ = choose(graph, lambda same: torch.where(same, 0.9, 0.1))
    assert chosen.scores == ((KEEP_ALL, 0.5), (0.2, right / 20), (0.4, 0.9), (0.6, 0.9))
    assert chosen.threshold == expected


def test_noise_is_removed_where_validation_nodes_do_not_tell():
    graph = blocks(shows_class=True, wrong=1)  # features say the class, whatever the edges are

    def chance_of(same):
        return torch.where(same, 0.9, 0.1)

    assert choose(graph, chance_of)[0].threshold == KEEP_ALL
    chosen, _ = choose(graph, chance_of, lambda chance: chance)
    assert chosen.threshold > 0.1
    assert chosen.noise_share == pytest.approx(0.1 + 0.8 / 3)  # one edge of three is wrong
    assert choose(graph, chance_of, lambda chance: 1.0 - 0.1 * chance)[0].threshold == KEEP_ALL


def test_a_choice_by_noise_says_so_and_is_saved():
    choice = Choice(0.3, ((KEEP_ALL, 0.75), (0.3, 0.75)), noise_share=0.31)
    assert "31% of the edges look like noise" in choice.reason
    assert Choice.from_dict(choice.to_dict()) == choice
