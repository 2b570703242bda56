"""Explanations: the same links and probabilities as `denoise` and `predict`, contributions that add up, words."""

import copy
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference import explain, gcn_states, prefixes
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.explanation import Explanation
from gdpnet.inference.gcn_states import Convolved
from gdpnet.inference.prefixes import prefix_lengths, prefix_probabilities, prefixes_of
from gdpnet.inference.select import edges_of
from gdpnet.inference.states import Prefixes
from gdpnet.inference.threshold import Choice
from gdpnet.representation.all_edges import SharedNetwork
from gdpnet.representation.gcn import NormalisedAdjacency
from gdpnet.training import heads
from gdpnet.training.fit_gcn_head import weigh_gcn
from gdpnet.training.fit_hopwise_head import HeadScore, fit_hopwise
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model

HEADS = FAST.with_values(
    {
        "training": {"epochs": 4, "settle": 3},
        "representation": {"learning_rate": 0.05},
        "ppo": {"learning_rate": 0.003, "kl_limit": 0.1},
        "hopwise": {"use": True, "steps": 20, "evaluate_every": 10},
        "gcn": {"use": True, "epochs": 8, "min_validation": 5},
    }
)
VARIANTS = {
    "as shipped": {},
    "greedy": {"inference": {"mode": "greedy"}},
    "without policy": {"training": {"selection": False}},
    "one hop and self weights": {"representation": {"hops": 1, "self_weight": True}},
    "candidates two hops away": {"policy": {"hops": 2, "far_candidates": 4}},
    "decisions apart": {"inference": {"symmetrise": False}},
    "the paper's state": {"policy": {"state": "paper"}, "reward": {"folds": 1}},
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


def with_all_heads(graph: Graph, config: Config = HEADS, threshold: float = 0.5) -> GDPNet:
    """Fit a model in which all three heads have a weight, and decisions matter."""

    def hopwise(*arguments):
        return replace(fit_hopwise(*arguments), scores=(HeadScore(0.5, 9, 0, 0.5, margin=1.0),))

    def gcn(*arguments):
        return replace(weigh_gcn(*arguments), gains=1, losses=0, quality_before=-1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "fit_hopwise", hopwise)
        patch.setattr(heads, "weigh_gcn", gcn)
        patch.setattr(heads, "choose_threshold", lambda *_, **__: Choice(threshold))
        model = fitted(graph, config)
    assert min(model.trained_.weights[:3]) > 0
    return model


def shared_network(features: int) -> SharedNetwork:
    """Return an all-edges head of sparse features whose weights are drawn, large enough to matter."""
    network, draws = SharedNetwork(features, 6, 3, fold_models=2), torch.Generator()
    network.initialise(draws.manual_seed(0))
    with torch.no_grad():
        network.weight.mul_(6.0)
        network.bias.uniform_(-0.2, 0.2, generator=draws)
        network.head_bias.uniform_(-0.5, 0.5, generator=draws)
    return network


def with_weights(model: GDPNet, weights: HeadWeights) -> GDPNet:
    """Return the model with other weights of its heads."""
    other = GDPNet.from_config(model.config_, device="cpu")
    networks = copy.deepcopy(model.networks_)
    if weights.all_edges > 0:
        networks.all_edges = shared_network(networks.aggregators.weight.shape[0])
    other._set_trained(replace(model.trained_, networks=networks, weights=weights))
    return other


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return with_all_heads(graph)


def assert_one_story(model: GDPNet, graph: Graph, nodes) -> list[Explanation]:
    """Compare the explanations of some nodes with what `denoise` and `predict` say about the whole graph."""
    predictor = model.predictor(graph)
    cleaned, chance, predicted = predictor.denoise(), predictor.probabilities(), predictor.predict()
    apart = predictor.denoise(symmetric=False).keep_probability
    alone = model.predict_proba(Graph.build([[], []], graph.features)) if graph.has_features else None
    names, stories = graph.node_ids.astype(str), []
    for node in nodes:
        story = predictor.explain(names[node])
        number = model.classes_.tolist().index(story.explained)
        edges = slice(int(graph.row_ptr[node]), int(graph.row_ptr[node + 1]))
        told = {one.neighbour: one for one in story.decisions if one.distance == 1}
        ordered = [told[name] for name in names[graph.neighbour[edges].numpy()]]
        assert len(told) == len(ordered)
        assert [one.kept for one in ordered] == cleaned.kept[edges].tolist()
        assert [one.keep_probability for one in ordered] == cleaned.keep_probability[edges].tolist()
        assert [one.keep_by_node for one in ordered] == apart[edges].tolist()
        assert [one.predicted for one in ordered] == predicted[graph.neighbour[edges].numpy()].tolist()
        assert story.predicted == predicted[node]
        assert story.probability == pytest.approx(chance[node, number], abs=1e-6)
        total = story.probability_alone + sum(one.contribution for one in story.decisions)
        assert total == pytest.approx(story.probability, abs=1e-5)
        if alone is not None:
            assert story.probability_alone == pytest.approx(alone[node, number], abs=1e-5)
        heads = sum(head.weight * head.probability for head in story.heads)
        assert heads == pytest.approx(story.probability, abs=1e-5)
        stories.append(story)
    return stories


# --- one story ---


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_an_explanation_says_what_denoise_and_predict_say(values, graph):
    model = with_all_heads(graph, HEADS.with_values(values))
    stories = assert_one_story(model, graph, range(0, 80, 2))
    assert max(abs(one.probability - one.probability_alone) for one in stories) > 0.05
    if model.networks_.policy is not None:
        assert {one.kept for story in stories for one in story.decisions} == {True, False}


@pytest.mark.parametrize("directed", [False, True])
def test_weighted_and_directed_graphs_are_explained_too(directed):
    plain = noisy_graph()
    one_way = plain.neighbour < plain.target + 20
    graph = plain.keep_edges(one_way) if directed else plain
    weight = torch.linspace(0.2, 3.0, graph.num_edges)
    graph = replace(graph, edge_weight=weight, truth=None)
    model = with_all_heads(graph)
    stories = assert_one_story(model, graph, range(80))
    decisions = [one for story in stories for one in story.decisions]
    assert all(one.weight is not None for one in decisions)
    assert any(one.keep_by_neighbour is None for one in decisions) == directed


def test_several_labels_per_node_are_named_as_predict_names_them(graph):
    both = replace(graph, class_names=("red", "red|round", "round"))
    model = with_all_heads(both, HEADS.with_values({"task": {"kind": "multi-label"}}))
    stories = assert_one_story(model, both, range(0, 80, 4))
    assert all(story.explained in ("red", "round") for story in stories)
    assert {story.label for story in stories} <= {"red", "red|round", "round"}


@pytest.mark.parametrize(
    "weights",
    [
        HeadWeights(),
        HeadWeights(0.0, 1.0),
        HeadWeights(0.25, 0.25, 0.5),
        HeadWeights(0.0, all_edges=1.0),
        HeadWeights(0.2, 0.2, 0.2, all_edges=0.4),
    ],
)
def test_contributions_add_up_with_any_heads(weights, model, graph):
    stories = assert_one_story(with_weights(model, weights), graph, range(0, 80, 4))
    assert {head.name for head in stories[0].heads} == {
        name for name, weight in weights._asdict().items() if weight
    }


def test_decisions_do_not_depend_on_which_other_nodes_were_asked_about(model, graph):
    whole = model.predictor(graph)
    whole.denoise()
    for node in ("003", "042", "077"):
        alone, among = model.explain(graph, node), whole.explain(node)
        assert [one.neighbour for one in alone.decisions] == [one.neighbour for one in among.decisions]
        assert [one.kept for one in alone.decisions] == [one.kept for one in among.decisions]
        for one, other in zip(alone.decisions, among.decisions, strict=True):
            assert one.keep_probability == pytest.approx(other.keep_probability, abs=1e-6)
            assert one.contribution == pytest.approx(other.contribution, abs=1e-6)


def test_many_nodes_are_explained_as_each_one_alone(model, graph, monkeypatch):
    single = [model.explain(graph, name) for name in graph.node_ids]
    predictor = model.predictor(graph)
    assert_same_stories(predictor.explain_nodes(), single)
    assert_same_stories(model.explain_nodes(graph, ["042", "007"]), [single[42], single[7]])
    for module in (explain, gcn_states):
        monkeypatch.setattr(module, "_WORK_AT_ONCE", 16)  # batches of one node, states of one node apart
    assert_same_stories(predictor.explain_nodes(torch.arange(80)), single)
    assert list(predictor.explain_nodes(torch.zeros(80, dtype=torch.bool))) == []


def assert_same_stories(found, expected) -> None:
    """Compare explanations, numbers up to rounding."""
    for one, other in zip(found, expected, strict=True):
        mine, given = one.to_dict(), other.to_dict()
        for left, right in [(mine, given), *zip(mine["decisions"], given["decisions"], strict=True)]:
            numbers = [key for key, value in right.items() if isinstance(value, float)]
            assert {key: left[key] for key in numbers} == pytest.approx(
                {key: right[key] for key in numbers}, abs=1e-6
            )
            texts = [key for key, value in right.items() if isinstance(value, str | bool | int | None)]
            assert {key: left[key] for key in texts} == {key: right[key] for key in texts}


def test_an_unknown_node_is_refused_before_any_is_explained(model, graph):
    with pytest.raises(GraphError, match="the graph has no node '999'"):
        model.explain_nodes(graph, ["007", "999"])


# --- contributions ---


@pytest.mark.parametrize("layers", [2, 3, 4])
@pytest.mark.parametrize("directed", [False, True])
def test_the_gcn_head_is_evaluated_as_on_the_graph_without_the_missing_edges(layers, directed):
    plain = noisy_graph(links_per_node=3.0)
    graph = plain.keep_edges(plain.neighbour < plain.target + 20) if directed else plain
    graph = replace(graph, edge_weight=torch.linspace(0.2, 3.0, graph.num_edges), truth=None)
    values = {"training": {"selection": False}, "gcn": {"layers": layers}}
    model = with_all_heads(graph, HEADS.with_values(values), threshold=0.0)
    gcn, selected = model.trained_.networks.gcn, model.predictor(graph).select()
    convolved = gcn_states.Convolved.of(gcn, selected, 0.0)
    nodes = graph.degree.argsort(descending=True)[:20]
    edge = edges_of(selected.prepared, nodes)[1]
    prefixes = prefixes_of(nodes, edge, graph.degree[nodes])
    found = gcn_states.gcn_states(convolved, selected.prepared, prefixes)
    assert len(gcn.weights) == layers
    for state in range(0, len(found), 5):
        target = int(prefixes.target[state])
        missing = prefixes.edge[prefixes.first[target] + prefixes.length[state] : prefixes.first[target + 1]]
        reverse = selected.prepared.reverse_edge[missing]
        weight = graph.edge_weight.clone()
        weight[missing] = weight[reverse[reverse >= 0]] = 0.0
        adjacency = NormalisedAdjacency.of(graph.row_ptr, graph.neighbour, weight)
        expected = gcn.to_probabilities(selected.prepared.features, adjacency)[nodes[target]]
        np.testing.assert_allclose(found[state].numpy(), expected.detach().numpy(), atol=1e-5)


def test_every_state_is_what_the_model_predicts_with_the_neighbours_so_far(graph):
    model = with_all_heads(graph, HEADS.with_values({"training": {"selection": False}}), threshold=0.0)
    model = with_weights(model, HeadWeights(0.2, 0.2, 0.2, all_edges=0.4))
    node = int(graph.degree.argmax())
    selected = model.predictor(graph).select()
    edge = edges_of(selected.prepared, torch.tensor([node]))[1]
    length = prefix_lengths(edge.numel(), edge.device)
    prefixes = Prefixes.of(torch.tensor([node]), edge, graph.degree[[node]], [length])
    trained = model.trained_
    heads = {"gcn": trained.networks.gcn, "all_edges": trained.networks.all_edges}
    convolved = {name: Convolved.of(head, selected, 0.0) for name, head in heads.items()}
    found = prefix_probabilities(trained.ensemble, selected, prefixes, "sampled", convolved)
    for count in range(edge.numel() + 1):
        kept = torch.ones(graph.num_edges, dtype=torch.bool)
        kept[edge[count:]] = False
        kept[graph.reverse[edge[count:]]] = False
        expected = model.predict_proba(graph.keep_edges(kept), torch.tensor([node]))[0]
        np.testing.assert_allclose(found[count].numpy(), expected, atol=1e-5)
    assert edge.numel() > 3


def test_a_node_with_many_neighbours_has_them_added_in_groups(model, graph, monkeypatch):
    single = {story.node: story for story in assert_one_story(model, graph, range(0, 80, 8))}
    monkeypatch.setattr(prefixes, "MOST_STATES", 2)
    assert prefix_lengths(5, torch.device("cpu")).tolist() == [0, 2, 5]
    for story in assert_one_story(model, graph, range(0, 80, 8)):
        mine, other = story.decisions, single[story.node].decisions
        assert [one.neighbour for one in mine] == [one.neighbour for one in other]
        half = len(mine) // 2 if len(mine) > 2 else 1
        sums = [sum(one.contribution for one in some[:half]) for some in (mine, other)]
        assert sums[0] == pytest.approx(sums[1], abs=1e-6)


def test_a_hub_of_ten_thousand_neighbours_is_explained():
    leaves = 10_000
    labels = np.arange(leaves + 1) % 2
    features = np.eye(4, dtype=np.float32)[labels + 2 * (np.arange(leaves + 1) % 3 == 0)]
    hub = Graph.build([[0] * leaves, range(1, leaves + 1)], features, labels)
    config = FAST.with_values({"training": {"epochs": 1}, "inference": {"episodes": 1}})
    story = fitted(hub, config).explain(hub, 0)
    assert len({one.neighbour for one in story.decisions}) == leaves
    total = story.probability_alone + sum(one.contribution for one in story.decisions)
    assert total == pytest.approx(story.probability, abs=1e-5)
    assert "and 9,960 neighbours more" in str(story)


# --- reasons ---


def test_every_neighbour_has_a_reason(model, graph):
    node = int(graph.degree.argmax())
    story = model.explain(graph, graph.node_ids[node])
    rows = graph.features.to_scipy().toarray()
    neighbours = {
        one: set(graph.neighbour[graph.row_ptr[one] : graph.row_ptr[one + 1]].tolist()) for one in range(80)
    }
    chance, predicted = model.predict_proba(graph), model.predict(graph)
    for one in story.decisions:
        other = int(one.neighbour)
        lengths = np.linalg.norm(rows[node]) * np.linalg.norm(rows[other])
        assert one.common_neighbours == len(neighbours[node] & neighbours[other])
        assert one.cosine == pytest.approx(rows[node] @ rows[other] / lengths, abs=1e-5)
        assert one.agreement == pytest.approx(float(chance[node] @ chance[other]), abs=1e-5)
        assert one.label == graph.class_names[graph.labels[other]]
        assert one.predicted == predicted[other]
    first = replace(story.decisions[0], common_neighbours=1, cosine=0.831, agreement=0.9)
    assert first.evidence == "1 common neighbour, feature cosine 0.83, classes agree 0.90"


def test_an_explanation_reads_as_a_table(model, graph):
    story = model.explain(graph, "007")
    lines = str(story).splitlines()
    assert lines[0] == (
        f"node 007: predicted '{story.predicted}' with probability {story.probability:.3f} (label '{story.label}')"
    )
    change = story.probability - story.probability_alone
    count = len(story.decisions)
    assert f"= {story.probability_alone:.3f} alone {change:+.3f} from {count} neighbours" in lines[1]
    kept = sum(one.kept for one in story.decisions)
    assert lines[3] == f"denoise keeps {kept} of {count} edges (threshold 0.5)"
    assert all(name in lines[2] for name in ("aggregator 0.25 x", "hop-wise head 0.25 x", "GCN head 0.50 x"))
    header = next(number for number, line in enumerate(lines) if line.startswith("neighbour"))
    for line, one in zip(lines[header + 1 :], story.decisions, strict=True):
        assert line.startswith(one.neighbour)
        assert line.endswith(one.evidence)
        assert f"{one.keep_probability:.3f}  {'kept' if one.kept else 'dropped'}" in line


def test_an_unknown_label_is_no_label(model, graph):
    bare = replace(graph, labels=torch.full_like(graph.labels, -1))
    story = model.explain(bare, "007")
    assert story.label is None
    assert {one.label for one in story.decisions} == {None}
    assert "(label" not in str(story)


def test_an_explanation_is_plain_values(model, graph):
    story = model.explain(graph, "007")
    found = story.to_dict()
    assert found["probability"] == story.probability
    assert [one["evidence"] for one in found["decisions"]] == [one.evidence for one in story.decisions]
    assert [head["name"] for head in found["heads"]] == ["aggregator", "hopwise", "gcn"]


def test_an_explanation_becomes_a_data_frame_if_pandas_is_there(model, graph):
    story = model.explain(graph, "007")
    try:
        import pandas
    except ModuleNotFoundError:
        with pytest.raises(ConfigError, match="to_pandas needs pandas: pip install pandas, or use to_dict"):
            story.to_pandas()
    else:
        frame = story.to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert frame["neighbour"].tolist() == [one.neighbour for one in story.decisions]


def test_a_node_without_neighbours_is_explained_in_words(model, graph):
    kept = (graph.target != 7) & (graph.neighbour != 7)
    story = model.explain(graph.keep_edges(kept), "007")
    assert story.decisions == ()
    assert story.probability == pytest.approx(story.probability_alone, abs=1e-6)
    assert "the node has no neighbours" in str(story)
    assert "denoise" not in str(story)


def test_without_a_policy_no_steps_are_shown(graph):
    story = fitted(graph, FAST.with_values({"training": {"selection": False}})).explain(graph, "007")
    assert "step" not in story.table()[0]


def test_the_rows_shown_of_many_are_those_that_add_most(model, graph):
    story = model.explain(graph, graph.node_ids[int(graph.degree.argmax())])
    largest = sorted(story.decisions, key=lambda one: -abs(one.contribution))[:2]
    expected = [one.neighbour for one in story.decisions if one in largest]
    assert [row[0] for row in story.table(2)[1]] == expected
    left = sum(one.contribution for one in story.decisions if one not in largest)
    more = len(story.decisions) - 2
    assert story.rest(2) == [f"and {more} neighbours more, which add {left:+z.3f} together"]
    assert story.rest(len(story.decisions)) == []


def test_a_node_without_any_label_says_so(graph):
    both = replace(graph, class_names=("red", "red|round", "round"))
    story = fitted(both, FAST.with_values({"task": {"kind": "multi-label"}})).explain(both, "007")
    none = replace(story, predicted="")
    assert f"node 007: predicted no label, the likeliest label is '{story.explained}' with" in str(none)
    assert "expected common labels" in story.decisions[0].evidence


# --- real graphs ---


@pytest.mark.skipif("GDPNET_DATA" not in os.environ, reason="GDPNET_DATA does not say where the datasets are")
@pytest.mark.parametrize(("name", "every"), [("cora", 60), ("citeseer", 80), ("pubmed", 1000)])
def test_denoise_and_explain_agree_on_real_graphs(name, every):
    graph = load_dataset(name, Path(os.environ["GDPNET_DATA"]), download=False)
    config = HEADS.with_values(
        {"training": {"epochs": 2, "warmup": 1, "settle": 0}, "representation": {"width": 16}}
    )
    model = with_all_heads(graph, config, threshold=0.3)
    assert_one_story(model, graph, range(0, graph.num_nodes, every))
    if name == "cora":  # decisions do not depend on the heads, and one is faster
        assert_one_story(with_weights(model, HeadWeights()), graph, one_end_of_each_link(graph))


def one_end_of_each_link(graph: Graph) -> list[int]:
    """Return nodes, those of many links first, such that every link has one of them at its end."""
    open_links = {tuple(sorted(pair)) for pair in graph.edge_index.t().tolist()}
    chosen = []
    for node in graph.degree.argsort(descending=True).tolist():
        row = graph.neighbour[graph.row_ptr[node] : graph.row_ptr[node + 1]].tolist()
        mine = {tuple(sorted((node, other))) for other in row} & open_links
        if mine:
            chosen.append(node)
            open_links -= mine
    return chosen
