"""GDPNet: the conventions of scikit-learn, predictions, denoising, explanations, and unusual graphs."""

from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from gdpnet.config import Config, PolicySettings, PPOSettings, TrainingSettings
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.pyg import to_pyg
from gdpnet.errors import ConfigError, GDPNetError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.representation.aggregator import Aggregators
from gdpnet.transform import DenoiseTransform
from helpers.small import FAST, fitted, noisy_graph, same_weights

pytestmark = pytest.mark.slow  # nearly every test trains a model

# steps large enough that a few epochs change what is predicted
EAGER = FAST.with_values(
    {
        "training": {"epochs": 4},
        "representation": {"learning_rate": 0.05},
        "ppo": {"learning_rate": 0.003, "kl_limit": 0.1},
    }
)
# the last epoch is the best, so that the policy and the aggregators have learned something
SETTLED = EAGER.with_values({"training": {"settle": 3}})
GREEDY = SETTLED.with_values({"inference": {"mode": "greedy"}})


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph, EAGER)


@pytest.fixture(scope="module")
def greedy(graph) -> GDPNet:
    return fitted(graph, GREEDY)


@pytest.fixture(scope="module")
def without_policy(graph) -> GDPNet:
    return fitted(graph, EAGER.with_values({"training": {"selection": False}}))


def first_aggregator(model: GDPNet) -> GDPNet:
    """Return the model with the first of its aggregators alone."""
    aggregators = model.networks_.aggregators
    one = Aggregators(
        aggregators.weight.shape[0], aggregators.width, aggregators.classes, 1, self_weight=False
    )
    one.load_state_dict(
        {name: getattr(aggregators, name)[:1] for name in ("bias", "head_weight", "head_bias")}
        | {"weight": aggregators.weight[:, : aggregators.width]}
    )
    alone, networks = copy(model), deepcopy(model.networks_)
    networks.aggregators = one
    alone._set_trained(replace(model.trained_, networks=networks))
    return alone


# --- the conventions of scikit-learn ---


def test_the_constructor_only_stores():
    ppo = PPOSettings(discount=0.5)
    model = GDPNet(ppo=ppo, seed=7, device="no such device")
    assert model.ppo is ppo
    assert model.policy is None
    assert vars(model).keys() == set(model.get_params(deep=False))
    assert (model.seed, model.device) == (7, "no such device")


def test_a_section_left_out_has_its_defaults():
    assert GDPNet(ppo=PPOSettings(discount=0.5)).config == Config(ppo=PPOSettings(discount=0.5))


def test_a_model_made_from_settings_has_these_settings():
    assert GDPNet.from_config(EAGER, seed=3, device="cpu").config == EAGER


def test_params_are_the_arguments_and_if_deep_every_single_setting():
    model = GDPNet(ppo=PPOSettings(discount=0.5), seed=4)
    shallow, deep = model.get_params(deep=False), model.get_params()
    assert shallow == {
        "features": None,
        "policy": None,
        "reward": None,
        "ppo": PPOSettings(discount=0.5),
        "representation": None,
        "training": None,
        "hopwise": None,
        "gcn": None,
        "all_edges": None,
        "trees": None,
        "linear": None,
        "ensemble": None,
        "threshold": None,
        "evidence": None,
        "self_training": None,
        "propagation": None,
        "links": None,
        "clusters": None,
        "inference": None,
        "task": None,
        "seed": 4,
        "device": "auto",
        "verbose": 0,
    }
    assert deep["ppo__discount"] == 0.5
    assert deep["policy__hidden"] == [64, 36]
    assert len(deep) == len(shallow) + sum(len(values) for values in Config().to_dict().values())


def test_params_are_set_whole_or_one_setting_at_a_time():
    model = GDPNet()
    assert model.set_params(ppo__discount=0.5, ppo__clip=0.1, policy__hidden=[3, 2], seed=9) is model
    assert model.config == Config(
        ppo=PPOSettings(discount=0.5, clip=0.1), policy=PolicySettings(hidden=(3, 2))
    )
    assert model.seed == 9
    model.set_params(training=TrainingSettings(epochs=3), training__patience=2)
    assert model.training == TrainingSettings(epochs=3, patience=2)


def test_params_that_were_read_can_be_set_again():
    model = GDPNet.from_config(EAGER, seed=2, device="cpu")
    assert GDPNet().set_params(**model.get_params()).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"sed": 1}, "GDPNet has no parameter 'sed'; did you mean 'seed'?"),
        ({"ppo__discont": 1.0}, "there is no setting 'ppo.discont'; did you mean 'discount'?"),
        ({"pp__discount": 1.0}, "there is no section 'pp' of settings; did you mean 'ppo'?"),
        ({"ppo__discount": 2.0}, "ppo.discount must be between 0.0 and 1.0, found 2.0"),
    ],
)
def test_a_wrong_param_is_refused_with_the_nearest_name(params, sentence):
    with pytest.raises(ConfigError) as refusal:
        GDPNet().set_params(**params)
    assert str(refusal.value) == sentence


def test_a_clone_has_the_settings_and_nothing_that_was_learned(model):
    copied = clone(model)
    assert copied is not model
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "trained_")
    assert not hasattr(copied, "networks_")
    changed = clone(model).set_params(ppo__discount=0.1)
    assert changed.config.ppo.discount == 0.1
    assert model.config.ppo.discount == EAGER.ppo.discount


def test_fit_returns_the_model_and_what_was_learned_ends_in_an_underscore(graph):
    model = GDPNet.from_config(FAST, device="cpu")
    before = set(vars(model))
    assert model.fit(graph) is model
    learned = set(vars(model)) - before
    assert {"trained_", "networks_", "classes_", "n_features_in_", "history_", "best_epoch_"} <= learned
    assert all(name.endswith("_") for name in learned)
    assert model.config == FAST


@pytest.mark.parametrize(
    "use",
    [
        lambda model, graph, path: model.predict(graph),
        lambda model, graph, path: model.predict_proba(graph),
        lambda model, graph, path: model.embed(graph),
        lambda model, graph, path: model.score(graph),
        lambda model, graph, path: model.denoise(graph),
        lambda model, graph, path: model.explain(graph, "000"),
        lambda model, graph, path: model.save(path / "model.safetensors"),
    ],
    ids=["predict", "predict_proba", "embed", "score", "denoise", "explain", "save"],
)
def test_before_fit_every_use_says_that_the_model_is_not_fitted(use, graph, tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        use(GDPNet(), graph, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_known_is_refused_when_it_is_needed(graph):
    with pytest.raises(ConfigError, match="the device must be auto, cpu or cuda, found 'gpu'"):
        GDPNet(device="gpu").fit(graph)


# --- training ---


def test_one_seed_makes_one_model_and_another_seed_another(graph):
    assert same_weights(fitted(graph, FAST), fitted(graph, FAST))
    assert not same_weights(fitted(graph, FAST), fitted(graph, FAST, seed=1))


def test_a_seed_of_numpy_makes_the_model_of_the_same_number(graph):
    models = (GDPNet.from_config(FAST, device="cpu").set_params(seed=seed) for seed in (3, np.int64(3)))
    one, same = (model.fit(graph) for model in models)
    assert same_weights(one, same)


def test_the_history_has_every_epoch_and_the_best_one_is_by_validation(graph):
    epochs = []
    model = GDPNet.from_config(EAGER, device="cpu").fit(graph, callbacks=[epochs.append])
    assert [line["epoch"] for line in model.history_] == [1, 2, 3, 4, 5]
    assert model.history_ == [vars(epoch) for epoch in epochs]
    after_warmup = model.history_[1:]
    best = max(after_warmup, key=lambda line: line["validation_f1"])
    assert (model.best_epoch_, model.validation_f1_) == (best["epoch"], best["validation_f1"])


def test_the_model_holds_the_weights_of_its_best_epoch(graph):
    labels = graph.labels.clone()
    labels[graph.nodes_in("validation")] += 1  # so that learning makes validation worse
    misled = replace(graph, labels=labels % 3)
    model = fitted(misled, EAGER.with_values({"training": {"epochs": 6}}))
    best = model.best_epoch_
    assert 1 < best < 7
    assert same_weights(model, fitted(misled, EAGER.with_values({"training": {"epochs": best - 1}})))


# --- predictions ---


def test_predictions_have_one_row_a_node_and_one_column_a_class(model, graph):
    chances = model.predict_proba(graph)
    assert chances.shape == (80, 3)
    assert np.allclose(chances.sum(axis=1), 1.0, atol=1e-5)
    assert (chances >= 0).all()
    assert model.embed(graph).shape == (80, 8)
    assert model.predict(graph).shape == (80,)


def test_predict_names_the_most_probable_class(graph):
    model = fitted(graph, SETTLED)
    assert list(model.classes_) == ["topic 0", "topic 1", "topic 2"]
    chances, predicted = model.predict_proba(graph), model.predict(graph)
    assert [model.classes_[row.argmax()] for row in chances] == list(predicted)
    assert len(set(predicted)) > 1


def test_some_nodes_are_predicted_as_among_all_in_the_order_asked_for(model, graph):
    nodes = torch.tensor([40, 3, 3, 79])
    assert np.allclose(model.predict_proba(graph, nodes), model.predict_proba(graph)[nodes], atol=1e-6)
    assert np.allclose(model.embed(graph, nodes), model.embed(graph)[nodes], atol=1e-6)
    assert model.predict(graph, torch.tensor([], dtype=torch.long)).shape == (0,)


@pytest.mark.parametrize("number", [-1, 80])
def test_a_node_number_outside_the_graph_is_refused(model, graph, number):
    with pytest.raises(GraphError, match="node numbers must lie between 0 and 79"):
        model.predict(graph, torch.tensor([0, number]))


def test_predictions_are_the_same_each_time(model, graph):
    assert np.array_equal(model.predict_proba(graph), model.predict_proba(graph))


def test_aggregators_are_averaged_for_classes_while_the_first_alone_embeds_and_selects(graph):
    folds = 2
    model = fitted(graph, EAGER.with_values({"reward": {"folds": folds}}))
    aggregators = model.networks_.aggregators
    assert aggregators.fold_models == folds + 1
    before, embedded = model.predict_proba(graph), model.embed(graph)
    kept = model.denoise(graph).keep_probability
    first = first_aggregator(model)
    assert np.array_equal(first.embed(graph), embedded)
    assert np.array_equal(first.denoise(graph).keep_probability, kept)
    with torch.no_grad():  # of three classes the others can no longer tell any apart
        aggregators.head_weight[1:] = 0.0
        aggregators.head_bias[1:] = 0.0
    assert np.array_equal(model.embed(graph), embedded)
    assert np.array_equal(model.denoise(graph).keep_probability, kept)
    expected = (first.predict_proba(graph) + folds / 3) / (folds + 1)
    assert np.allclose(model.predict_proba(graph), expected, atol=1e-6)
    assert not np.allclose(before, expected, atol=1e-2)


def test_the_score_is_the_share_of_labelled_nodes_that_are_predicted_right(model, graph):
    labels = graph.labels.clone()
    labels[graph.nodes_in("test")[::2]] = -1
    partly = replace(graph, labels=labels)
    nodes = graph.nodes_in("test")[1::2]
    truth = [graph.class_names[number] for number in graph.labels[nodes]]
    share = np.mean(model.predict(graph, nodes) == np.array(truth))
    assert model.score(partly) == pytest.approx(share)
    assert 0 < share < 1


def test_the_score_goes_by_class_names_whatever_their_order(model, graph):
    turned = replace(graph, labels=2 - graph.labels, class_names=graph.class_names[::-1])
    for split in ("train", "validation", "test"):
        assert model.score(turned, split) == model.score(graph, split)


def test_a_split_without_a_label_has_no_score(model, graph):
    bare = replace(graph, labels=torch.full_like(graph.labels, -1))
    with pytest.raises(GraphError, match="the graph has no labelled test node to score on"):
        model.score(bare)


def test_training_fits_its_own_nodes_better_than_chance(graph):
    longer = EAGER.with_values({"training": {"epochs": 10}})
    assert fitted(graph, longer).score(graph, "train") > 0.6


# --- graphs that training did not see ---


def joined(left: Graph, right: Graph) -> Graph:
    """Return both graphs as one, without a link between them."""
    return Graph.build(
        np.concatenate(
            [
                np.stack([left.neighbour, left.target]),
                np.stack([right.neighbour, right.target]) + left.num_nodes,
            ],
            axis=1,
        ),
        np.concatenate([left.features.to_scipy().toarray(), right.features.to_scipy().toarray()]),
    )


def test_an_unseen_graph_is_embedded_alike_alone_and_joined_with_another(greedy, graph):
    held_out = noisy_graph(nodes=60, seed=5)
    alone = greedy.embed(held_out)
    assert alone.shape == (60, 8)
    both = greedy.embed(joined(graph, held_out))
    assert np.allclose(both[:80], greedy.embed(graph), atol=1e-5)
    assert np.allclose(both[80:], alone, atol=1e-5)


def test_nodes_added_after_training_are_embedded_from_their_features_and_neighbours(model, graph):
    features = graph.features.to_scipy().toarray()
    grown = np.concatenate([features, features[:2]])
    edges = np.stack([graph.neighbour, graph.target])
    lonely = model.embed(Graph.build(edges, grown))
    others = np.stack([np.full(20, 80), np.arange(3, 23)])
    linked = model.embed(Graph.build(np.concatenate([edges, others], axis=1), grown), None)
    assert lonely.shape == linked.shape == (82, 8)
    single = model.embed(Graph.build([[], []], features[:1]))[0]
    assert np.allclose(lonely[80], single, atol=1e-6)
    assert not np.allclose(linked[80], single, atol=1e-3)
    assert np.allclose(lonely[81], linked[81], atol=1e-6)


def test_features_of_another_width_are_refused_with_both_widths(model):
    other = Graph.build([[0], [1]], np.eye(2))
    for use in (model.predict, model.embed, model.denoise, model.score):
        with pytest.raises(GraphError) as refusal:
            use(other)
        assert str(refusal.value) == "the model was trained on 300 features, this graph has 2"


def test_dense_features_give_what_the_same_sparse_ones_give(greedy, graph):
    dense = replace(graph, features=torch.from_numpy(graph.features.to_scipy().toarray()))
    assert isinstance(graph.features, SparseRows)
    assert np.allclose(greedy.predict_proba(dense), greedy.predict_proba(graph), atol=1e-5)


# --- cleaning ---


def test_every_edge_has_a_keep_probability_and_the_sure_ones_are_kept(model, graph):
    cleaned = model.denoise(graph, threshold=0.6)
    assert cleaned.keep_probability.shape == cleaned.kept.shape == (graph.num_edges,)
    assert (cleaned.keep_probability >= 0).all()
    assert (cleaned.keep_probability <= 1).all()
    assert np.array_equal(cleaned.kept, cleaned.keep_probability >= 0.6)
    assert 0 < cleaned.kept.sum() < graph.num_edges


def test_the_cleaned_graph_holds_the_kept_edges_with_their_probability_and_all_nodes(model, graph):
    cleaned = model.denoise(graph, threshold=0.6)
    assert 0 < cleaned.kept.sum() < graph.num_edges
    assert torch.equal(cleaned.graph.neighbour, graph.neighbour[cleaned.kept])
    assert torch.equal(cleaned.graph.target, graph.target[cleaned.kept])
    assert np.array_equal(cleaned.graph.edge_weight, cleaned.keep_probability[cleaned.kept])
    assert cleaned.graph.num_nodes == graph.num_nodes
    assert torch.equal(cleaned.graph.truth.spurious, graph.truth.spurious[cleaned.kept])


def test_both_directions_of_a_link_are_decided_together_unless_asked_one_by_one(model, graph):
    together = model.denoise(graph).keep_probability
    apart = model.denoise(graph, symmetric=False).keep_probability
    back = graph.reverse.numpy()
    assert np.array_equal(together, together[back])
    assert not np.allclose(apart, apart[back])
    assert np.allclose(together, (apart + apart[back]) / 2)


def test_an_edge_that_runs_one_way_has_its_own_probability(model, graph):
    one_way = Graph.build(
        np.stack([graph.neighbour, graph.target])[:, graph.neighbour < graph.target],
        graph.features,
        directed=True,
    )
    assert (one_way.reverse == -1).all()
    together, apart = model.denoise(one_way), model.denoise(one_way, symmetric=False)
    assert np.array_equal(together.keep_probability, apart.keep_probability)


def test_threshold_zero_keeps_every_edge(model, graph):
    cleaned = model.denoise(graph, threshold=0.0)
    assert cleaned.kept.all()
    assert torch.equal(cleaned.graph.neighbour, graph.neighbour)


def test_a_higher_threshold_keeps_a_part_of_what_a_lower_one_keeps(model, graph):
    low, high = model.denoise(graph, threshold=0.4), model.denoise(graph, threshold=0.7)
    assert not (high.kept & ~low.kept).any()
    assert high.kept.sum() < low.kept.sum()


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_that_is_no_probability_is_refused(model, graph, threshold):
    with pytest.raises(ConfigError, match="must lie between 0 and 1, found"):
        model.denoise(graph, threshold=threshold)


def test_the_cleaned_graph_becomes_torch_geometric_data_with_weights(model, graph):
    cleaned = model.denoise(graph)
    data = cleaned.to_pyg()
    assert isinstance(data, Data)
    assert torch.equal(data.edge_index, torch.stack([cleaned.graph.neighbour, cleaned.graph.target]))
    assert torch.equal(data.edge_weight, cleaned.graph.edge_weight)


def test_the_transform_changes_edges_alone(model, graph):
    data = to_pyg(graph)
    data.x = data.x.to_dense()
    data.note = "mine"
    before = data.edge_index.clone()
    result = DenoiseTransform(model)(data)
    cleaned = model.denoise(graph)
    assert result.x is data.x
    assert result.y is data.y
    assert result.note == "mine"
    assert torch.equal(result.edge_index, torch.stack([cleaned.graph.neighbour, cleaned.graph.target]))
    assert torch.allclose(result.edge_weight, cleaned.graph.edge_weight)
    assert torch.equal(data.edge_index, before)
    assert "edge_weight" not in data


def test_the_transform_drops_edge_attributes_as_they_would_no_longer_fit(model, graph):
    data = to_pyg(graph)
    data.edge_attr = torch.ones(graph.num_edges, 2)
    result = DenoiseTransform(model, threshold=1.0)(data)
    assert "edge_attr" not in result
    assert data.edge_attr.shape == (graph.num_edges, 2)
    assert result.edge_index.shape[1] < graph.num_edges


# --- explanations ---


def test_decisions_are_listed_in_order_and_those_never_reached_last(greedy, graph):
    stories = [greedy.explain(graph, name) for name in graph.node_ids[::4]]
    for story in stories:
        steps = [one.step for one in story.decisions]
        reached = [step for step in steps if step is not None]
        assert reached == list(range(1, len(reached) + 1))
        assert steps == reached + [None] * (len(steps) - len(reached))
        assert story.ended_early == (None in steps)
        assert all((one.draw_probability is None) == (one.step is None) for one in story.decisions)
    assert any(story.ended_early for story in stories)
    assert any(one.step == 2 for story in stories for one in story.decisions)


def test_every_neighbour_is_listed_once_under_its_id(greedy, graph):
    for number in (0, 17, 42):
        story = greedy.explain(graph, f"{number:03d}")
        neighbours = graph.neighbour[graph.row_ptr[number] : graph.row_ptr[number + 1]]
        assert story.node == f"{number:03d}"
        assert sorted(one.neighbour for one in story.decisions) == [f"{other:03d}" for other in neighbours]


@pytest.mark.parametrize(
    ("order", "seed"), [("learned", 0), ("random", 4)], ids=["learned order", "random order, another seed"]
)
def test_a_greedy_model_explains_what_it_predicts(order, seed, graph):
    model = fitted(graph, GREEDY.with_values({"policy": {"order": order}}), seed)
    chances = model.predict_proba(graph)
    alone = model.predict_proba(Graph.build([[], []], graph.features))
    for number in range(0, 80, 2):
        story = model.explain(graph, graph.node_ids[number])
        best = chances[number].argmax()
        assert story.predicted == model.classes_[best]
        assert story.probability == pytest.approx(chances[number, best], abs=1e-4)
        assert story.probability_alone == pytest.approx(alone[number, best], abs=1e-4)
    first = first_aggregator(model).predict_proba(graph)
    assert (
        first.argmax(axis=1) != chances.argmax(axis=1)
    ).any()  # the ensemble differs from its first aggregator


def test_a_model_without_selection_explains_what_it_predicts_with_every_neighbour_kept(without_policy, graph):
    chances = without_policy.predict_proba(graph)
    story = without_policy.explain(graph, "003")
    assert story.probability == pytest.approx(chances[3].max(), abs=1e-5)
    assert len(story.decisions) == graph.degree[3] > 0
    assert all(one.kept and one.keep_probability == 1.0 for one in story.decisions)


def test_a_node_that_is_not_there_cannot_be_explained(model, graph):
    with pytest.raises(GraphError, match="the graph has no node '3'"):
        model.explain(graph, "3")


def test_nodes_without_names_are_explained_by_their_number(model, graph):
    unnamed = replace(graph, node_ids=np.arange(80))
    assert model.explain(unnamed, 3).node == "3"


# --- saving ---


@pytest.mark.parametrize("name", ["model", "greedy", "without_policy"])
def test_a_model_read_from_its_file_is_the_same_model(name, graph, tmp_path, request):
    model = request.getfixturevalue(name)
    model.save(tmp_path / "model.safetensors")
    loaded = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert same_weights(model, loaded)
    assert loaded.config == loaded.config_ == model.config
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))
    assert list(loaded.predict(graph)) == list(model.predict(graph))
    assert np.array_equal(loaded.denoise(graph).keep_probability, model.denoise(graph).keep_probability)
    assert (loaded.history_, loaded.best_epoch_) == (model.history_, model.best_epoch_)
    assert loaded.validation_f1_ == model.validation_f1_


def test_a_loaded_model_draws_with_the_seed_that_it_was_trained_with(graph, tmp_path):
    model = fitted(graph, FAST, seed=3)
    model.save(tmp_path / "model.safetensors")
    loaded = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert loaded.seed == 3
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_loading_onto_a_gpu_that_is_not_there_blames_the_device_and_not_the_file(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match="torch finds no CUDA GPU on this machine"):
        GDPNet.load(tmp_path / "model.safetensors", device="cuda")


# --- variants and unusual graphs ---


def test_without_selection_every_edge_is_kept_for_sure(without_policy, graph):
    assert without_policy.networks_.policy is None
    assert (without_policy.denoise(graph).keep_probability == 1.0).all()
    assert without_policy.predict(graph).shape == (80,)


@pytest.mark.parametrize(
    "values",
    [
        {"reward": {"kind": "paper"}, "policy": {"state": "paper"}},
        {"reward": {"kind": "counterfactual"}, "policy": {"order": "random"}},
        {
            "representation": {"hops": 1, "self_weight": True},
            "policy": {"state": "pairs", "early_stop": False},
        },
    ],
    ids=["paper", "random order", "one hop"],
)
def test_every_variant_trains_predicts_cleans_explains_and_comes_back_from_its_file(values, graph, tmp_path):
    model = fitted(graph, FAST.with_values(values))
    model.save(tmp_path / "model.safetensors")
    loaded = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))
    assert model.denoise(graph).kept.any()
    assert len(model.explain(graph, "003").decisions) == graph.degree[3]


def test_a_graph_without_edges_is_predicted_from_each_nodes_own_features(graph):
    bare = Graph.build([[], []], graph.features, graph.labels, split=graph.split)
    model = fitted(bare)
    assert model.predict(bare).shape == (80,)
    cleaned = model.denoise(bare)
    assert cleaned.keep_probability.shape == (0,)
    assert cleaned.graph.num_edges == 0
    story = model.explain(bare, "3")
    assert story.decisions == ()
    assert story.probability == story.probability_alone


def test_a_hub_with_more_neighbours_than_an_episode_holds_works():
    leaves = 3000
    labels = np.arange(leaves + 1) % 2
    features = np.eye(4, dtype=np.float32)[labels + 2 * (np.arange(leaves + 1) % 3 == 0)]
    hub = Graph.build([[0] * leaves, range(1, leaves + 1)], features, labels)
    config = FAST.with_values(
        {"training": {"epochs": 1}, "policy": {"max_candidates": 64}, "representation": {"passes": 1}}
    )
    model = fitted(hub, config)
    cleaned = model.denoise(hub, symmetric=False)
    assert cleaned.keep_probability.shape == (2 * leaves,)
    assert np.isfinite(cleaned.keep_probability).all()
    # the first 3000 edges are those that the hub decided on, in 47 episodes; none is left at the untouched 1
    assert (cleaned.keep_probability[:leaves] < 1).all()
    story = model.explain(hub, 0)
    assert len({one.neighbour for one in story.decisions}) == leaves
    assert max(one.step or 0 for one in story.decisions) <= 64


def test_isolated_nodes_are_predicted_from_their_own_features(greedy, graph):
    features = graph.features.to_scipy().toarray()
    lonely = Graph.build([[0], [1]], features[:3])
    alone = Graph.build([[], []], features[2:3])
    assert np.allclose(greedy.predict_proba(lonely)[2], greedy.predict_proba(alone)[0], atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            [-1] * 80,
            "at least one training node must have a label, found none in the graph; --task links and --task clusters "
            "need no labels",
        ),
        ([0] * 80, "training nodes must be of two classes or more, found one class alone"),
    ],
)
def test_training_nodes_must_show_two_classes(labels, sentence, graph):
    plain = Graph.build([[0], [1]], graph.features, labels, split=graph.split)
    with pytest.raises(GraphError) as refusal:
        fitted(plain)
    assert str(refusal.value) == sentence


def test_training_that_diverges_says_so(graph):
    wild = FAST.with_values({"representation": {"learning_rate": 1e30}})
    with pytest.raises(GDPNetError, match=r"training diverged: .*; lower the learning rates"):
        fitted(graph, wild)
