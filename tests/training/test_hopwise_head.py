"""The reader: numbers by hand, what it learns, and when it takes over."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gdpnet import GDPNet
from gdpnet.config import Config
from gdpnet.data import features
from gdpnet.data.features import SparseRows, mix_into
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare, with_circle
from gdpnet.inference.ensemble import rings_of, see
from gdpnet.inference.networks import build_networks
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.hopwise import Reader
from gdpnet.training.data import make_scene
from gdpnet.training.hopwise_head import Reading, Verdict, _Unseen, fit_reader, is_worth_a_reader
from helpers.small import FAST, fitted, noisy_graph, same_weights

CPU = torch.device("cpu")
PLAIN = Config().with_values({"features": {"normalise": "none"}})
READS = FAST.with_values({"reader": {"use": True, "deep": False, "steps": 40, "look_every": 10}})
ONE_HOP = PLAIN.with_values({"representation": {"hops": 1}})


def path(features: torch.Tensor | SparseRows | None = None) -> Graph:
    """Return the path 0 - 1 - 2 with one feature, the number of the node squared."""
    rows = torch.tensor([[0.0], [1.0], [4.0]]) if features is None else features
    return Graph.build(torch.tensor([[0, 1], [1, 2]]), rows, torch.tensor([0, 1, 1]))


# --- the rings ---


def test_rings_are_the_features_their_mean_and_the_mean_of_means_by_hand():
    prepared = prepare(path(), PLAIN, CPU)
    own, first, second = rings_of(prepared, torch.tensor([1, 0]), torch.ones(4))
    assert own.tolist() == [[1.0], [0.0]]
    assert first.flatten().tolist() == pytest.approx([5 / 3, 1 / 2])
    # what nodes 0, 1 and 2 give: 1/2, 5/3 and 5/2
    assert second.flatten().tolist() == pytest.approx([(5 / 3 + 1 / 2 + 5 / 2) / 3, (1 / 2 + 5 / 3) / 2])


def test_a_weight_counts_in_a_ring_and_an_edge_without_weight_is_not_there():
    prepared = prepare(path(), PLAIN, CPU)
    weight = torch.tensor([1.0, 0.5, 0.0, 1.0])  # 0<-1, 1<-0, 1<-2, 2<-1
    prepared = with_circle(prepared, weight)
    _, first, second = rings_of(prepared, torch.tensor([1]), weight)
    assert first.item() == pytest.approx(1.0 / 1.5)
    assert second.item() == pytest.approx((1.0 / 1.5 + 0.5 * 0.5) / 1.5)


def test_one_hop_has_two_rings_and_a_lone_node_only_itself():
    rings = rings_of(prepare(path(), ONE_HOP, CPU), torch.tensor([2]), torch.zeros(4))
    assert [ring.tolist() for ring in rings] == [[[4.0]], [[4.0]]]


def test_sparse_rings_are_the_dense_ones():
    dense = torch.rand(3, 40, generator=torch.Generator().manual_seed(0)) * (torch.arange(40) % 13 == 0)
    weight = torch.tensor([0.3, 0.5, 0.7, 1.0])
    sparse = SparseRows.from_scipy(sp.csr_matrix(dense.numpy()))
    expected = rings_of(prepare(path(dense), PLAIN, CPU), torch.arange(3), weight)
    found = rings_of(prepare(path(sparse), PLAIN, CPU), torch.arange(3), weight)
    for ring, other in zip(expected, found, strict=True):
        assert isinstance(other, SparseRows)
        assert other.to_scipy().toarray() == pytest.approx(ring.numpy(), abs=1e-6)


def test_a_mean_may_take_its_own_rows_and_the_given_ones_from_different_places():
    own, given = torch.tensor([[2.0]]), torch.tensor([[10.0], [20.0]])
    mixed = mix_into(own, given, torch.tensor([0, 2]), torch.tensor([0, 1]), torch.tensor([1.0, 2.0]))
    assert mixed.item() == pytest.approx((2 + 10 + 40) / 4)


def test_a_device_mixes_dense_rows_as_the_host_does():
    generator = torch.Generator().manual_seed(0)
    own, given = torch.randn(3, 4, generator=generator), torch.randn(5, 4, generator=generator)
    links = torch.tensor([0, 2, 2, 5]), torch.tensor([4, 1, 0, 2, 3]), torch.rand(5, generator=generator)
    torch.testing.assert_close(features._mix_dense(own, given, *links), mix_into(own, given, *links))


def test_on_a_device_sparse_rows_are_dense_where_they_fit(monkeypatch):
    rows = SparseRows.from_scipy(
        sp.csr_matrix(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], dtype=np.float32))
    )
    assert features.on_device(rows, CPU).shape == (2, 3)
    assert isinstance(features.on_device(rows, CPU), SparseRows)
    meta = torch.device("meta")
    assert isinstance(features.on_device(rows, meta), torch.Tensor)
    monkeypatch.setattr(features, "MOST_DENSE", 5)
    assert isinstance(features.on_device(rows, meta), SparseRows)


# --- the network ---


def test_each_ring_has_a_matrix_of_its_own_and_members_vote():
    reader = Reader(1, 1, 2, members=2, rings=2)
    with torch.no_grad():
        reader.weight.copy_(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]]))
        reader.bias.copy_(torch.tensor([[0.5], [-1.0]]))
        reader.head_weight.copy_(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))
    hidden = reader.embed([torch.tensor([[2.0]]), torch.tensor([[4.0]])])
    assert hidden.tolist() == [[[2.5], [11.0]]]
    chance = torch.softmax(torch.tensor([[2.5, 0.0], [0.0, 11.0]]), dim=1).mean(dim=0)
    assert reader.votes(hidden).mean(dim=1)[0].tolist() == pytest.approx(chance.tolist())


def test_members_start_apart():
    reader = Reader(5, 3, 2, members=2, rings=2)
    reader.initialise(torch.Generator().manual_seed(0))
    assert not torch.equal(reader.weight[:, :, :3], reader.weight[:, :, 3:])
    assert not torch.equal(reader.head_weight[0], reader.head_weight[1])


# --- fitting ---


def keep_all(prepared) -> Selected:
    """Return a selection of everything."""
    ones = torch.ones(prepared.neighbour.numel())
    return Selected(ones, ones > 0, ones > 0, prepared)


def own_or_others(own: bool) -> Graph:
    """Return pairs of nodes; the class of a node shows in its own features, or only in those of its partner."""
    number = torch.arange(120)
    label = (number // 2) % 2
    shows = number % 2 == 0 if own else number % 2 == 1
    features = torch.nn.functional.one_hot(label, 2).float() * shows[:, None]
    # what is not shown is filled with the wrong class half the time, so that a mean over both says little
    noise = torch.nn.functional.one_hot((number // 4) % 2, 2).float() * ~shows[:, None]
    split = torch.where(number % 2 == 1, 0, torch.where(number < 80, 1, 2))
    label = torch.where(number % 2 == 0, label, torch.full_like(label, -1))
    links = torch.stack([number[::2], number[1::2]])
    return Graph.build(links, features + 2 * noise, label, split=split, class_names=("a", "b"))


def bank_of(scene, classes: int, width: int = 8) -> Aggregators:
    """Return an untrained bank with a member for each fold of a scene."""
    bank = Aggregators(
        scene.train.features.shape[1], width, classes, int(scene.fold.max()) + 2, self_weight=False
    )
    bank.initialise(torch.Generator().manual_seed(0))
    return bank


def read(scene, config: Config, classes: int, bank: Aggregators | None = None) -> Reading:
    """Fit a reader to all neighbours."""
    bank = bank_of(scene, classes) if bank is None else bank
    return fit_reader(bank, scene, keep_all(scene.train), keep_all(scene.whole), config, 0)


@pytest.mark.parametrize("own", [True, False])
def test_the_reader_finds_the_ring_that_shows_the_class(own):
    config = ONE_HOP.with_values({"training": {"selection": False}, "reader": {"dropout": 0.0, "steps": 300}})
    scene = make_scene(own_or_others(own), config, 0, CPU)
    found = read(scene, config, 2)
    alone = found.verdicts[-1]
    assert (alone.share, alone.validation_f1, alone.losses) == (1.0, 1.0, 0)
    assert alone.is_better
    assert found.best is not None


def test_the_best_look_is_returned_and_patience_ends_the_fit(monkeypatch):
    scores = iter([(0.3, -1.0), (0.5, -1.0), (0.5, -0.9), (0.5, -0.95), (0.4, 0.0)] + [(0.0, 0.0)] * 50)
    weights = []

    def look(reader, rings, unseen):
        weights.append(reader.weight.detach().clone())
        return next(scores)

    monkeypatch.setattr("gdpnet.training.hopwise_head._score", look)
    config = READS.with_values({"reader": {"steps": 400, "look_every": 5, "patience": 20}})
    found = read(make_scene(noisy_graph(), config, 0, CPU), config, 3)
    assert found.steps == 15
    assert torch.equal(found.reader.weight, weights[2])
    assert len(weights) == 15 // 5 + 20 // 5


def test_a_member_never_learns_the_labels_that_it_leaves_out():
    config = READS.with_values({"reader": {"dropout": 0.0}})
    graph = noisy_graph()
    scene = make_scene(graph, config, 0, CPU)
    left_out = scene.targets[scene.fold[scene.targets] == 1]
    labels = scene.labels.clone()
    labels[left_out] = (labels[left_out] + 1) % 3
    other = replace(scene, labels=labels)
    # looks at validation choose the step, and all members vote there: compare after the last step
    alone = config.with_values({"reader": {"steps": 5, "look_every": 5}})
    mine, theirs = read(scene, alone, 3).reader, read(other, alone, 3).reader
    same = [
        torch.equal(mine.head_weight[number], theirs.head_weight[number]) for number in range(mine.members)
    ]
    assert same == [False, False, True, False]


def test_of_unseen_nodes_those_speak_who_never_learned_their_labels():
    graph = noisy_graph()
    scene = make_scene(graph, READS, 0, CPU)
    unseen = _Unseen.of(scene)
    count = scene.validation.numel()
    assert unseen.nodes.tolist() == graph.nodes_in("validation").tolist() + graph.nodes_in("train").tolist()
    assert torch.equal(unseen.labels, graph.labels[unseen.nodes])
    assert set(unseen.member[:count].tolist()) == {-1}
    assert set(unseen.member[count:].tolist()) == {1, 2, 3}
    votes = torch.rand(unseen.nodes.numel(), 4, 3, generator=torch.Generator().manual_seed(0))
    chance = unseen.chance(votes)
    assert torch.equal(chance[0], votes[0].mean(dim=0))
    last = int(scene.fold[scene.targets[-1]]) + 1
    assert torch.equal(chance[-1], votes[-1, last])


def test_without_folds_validation_nodes_alone_count():
    scene = make_scene(noisy_graph(), READS.with_values({"reward": {"folds": 1}}), 0, CPU)
    assert torch.equal(_Unseen.of(scene).nodes, scene.validation)


@pytest.mark.parametrize(
    ("gains", "losses", "alone", "together"),
    [
        (9, 1, True, True),
        (8, 2, False, True),
        (6, 4, False, False),
        (10, 10, False, False),
        (0, 0, False, False),
    ],
)
def test_agg_must_be_beaten_by_two_deviations_or_by_one_where_it_still_votes(gains, losses, alone, together):
    assert Verdict(1.0, gains, losses, 0.5).is_better == alone
    assert Verdict(0.5, gains, losses, 0.5).is_better == together


@pytest.mark.parametrize(
    ("both", "alone", "share"),
    [((9, 1), (20, 2), 1.0), ((20, 2), (9, 1), 0.5), ((3, 1), (9, 6), None), ((1, 9), (30, 10), 1.0)],
)
def test_the_way_to_read_that_is_furthest_ahead_has_the_say(both, alone, share):
    verdicts = (Verdict(0.5, *both, 0.5), Verdict(1.0, *alone, 0.5))
    best = Reading(Reader(1, 1, 2, 1, 1), 1, verdicts).best
    assert (best and best.share) == share


def test_a_vote_of_both_is_judged_on_the_mean_of_what_they_say():
    scene = make_scene(noisy_graph(), READS, 0, CPU)
    found = read(scene, READS, 3)
    unseen = _Unseen.of(scene)
    whole = keep_all(scene.whole)
    votes = see(bank_of(scene, 3), whole.prepared, unseen.nodes, whole.probability)[1]
    read_ = found.reader.votes(found.reader.embed(rings_of(whole.prepared, unseen.nodes, whole.probability)))
    agg, mine = unseen.chance(votes), unseen.chance(read_)
    right = [(chance.argmax(dim=1) == unseen.labels) for chance in (agg, (agg + mine) / 2)]
    both = found.verdicts[0]
    assert both.share == 0.5
    assert both.gains == int((right[1] & ~right[0]).sum())
    assert both.losses == int((right[0] & ~right[1]).sum())


# --- in the model ---


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


def with_reader(graph: Graph, lead: int, monkeypatch, share: float = 1.0) -> GDPNet:
    """Fit a model whose reader, by its share in the vote, claims to be right on so many nodes where AGG is not."""

    def claims(*arguments):
        return replace(fit_reader(*arguments), verdicts=(Verdict(share, lead, 0, 0.125),))

    monkeypatch.setattr("gdpnet.training.finalise.fit_reader", claims)
    return fitted(graph, READS)


def test_the_reader_takes_over_only_where_it_is_surely_ahead_on_unseen_nodes(graph, monkeypatch):
    agg = fitted(graph)
    assert agg.reader_ is None
    level = with_reader(graph, 0, monkeypatch)
    assert level.reader_ is None
    assert (level.predict_proba(graph) == agg.predict_proba(graph)).all()
    better = with_reader(graph, 5, monkeypatch)
    assert better.reader_ is not None
    assert better.validation_f1_ == 0.125
    assert (better.predict_proba(graph) != agg.predict_proba(graph)).any()
    assert better.embed(graph).shape == agg.embed(graph).shape
    assert (better.denoise(graph).keep_probability == agg.denoise(graph).keep_probability).all()


def test_where_both_vote_a_prediction_is_their_mean_and_representations_are_those_of_agg(graph, monkeypatch):
    agg, alone = fitted(graph), with_reader(graph, 5, monkeypatch)
    both = with_reader(graph, 5, monkeypatch, share=0.5)
    mean = (agg.predict_proba(graph) + alone.predict_proba(graph)) / 2
    assert both.predict_proba(graph) == pytest.approx(mean, abs=1e-6)
    assert (both.embed(graph) == agg.embed(graph)).all()
    assert (alone.embed(graph) != agg.embed(graph)).any()


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_reader_is_saved_loaded_and_explained(graph, monkeypatch, tmp_path, share):
    model = with_reader(graph, 5, monkeypatch, share)
    model.save(tmp_path / "model.safetensors")
    loaded = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert same_weights(model, loaded)
    assert (model.predict_proba(graph) == loaded.predict_proba(graph)).all()
    told = loaded.explain(graph, "007")
    assert 0.0 < told.probability <= 1.0
    bank = replace_reader(loaded)
    assert bank.explain(graph, "007").probability != told.probability


def test_a_reader_from_before_votes_were_shared_has_the_say_alone(graph, monkeypatch):
    model = with_reader(graph, 5, monkeypatch, share=0.5)
    weights = {name: value for name, value in model._content()[0].items() if name != "reader.share"}
    networks = build_networks(model.config_, weights, exclusive=True, device=CPU)
    assert float(networks.reader.share) == 1.0


def replace_reader(model: GDPNet) -> GDPNet:
    """Take the reader out of a model."""
    model.reader_ = None
    return model


def test_one_node_is_read_as_among_all(graph, monkeypatch):
    model = with_reader(graph, 5, monkeypatch)
    everyone = model.predict_proba(graph)
    some = torch.tensor([70, 3, 41])
    assert model.predict_proba(graph, some) == pytest.approx(everyone[some], abs=1e-6)


def test_the_reader_knows_no_test_label(graph, monkeypatch):
    labels = torch.where(graph.split == 3, (graph.labels + 1) % 3, graph.labels)
    mine = with_reader(graph, 5, monkeypatch)
    other = with_reader(replace(graph, labels=labels), 5, monkeypatch)
    assert same_weights(mine, other)


def test_a_reader_that_would_be_too_large_is_not_fitted(graph, monkeypatch):
    weights = 3 * graph.num_features * 4 * READS.representation.width
    fitted_readers = []
    monkeypatch.setattr(
        "gdpnet.training.finalise.fit_reader", lambda *given: fitted_readers.append(1) or fit_reader(*given)
    )
    for most, expected in ((weights, 1), (weights - 1, 1)):  # the second adds none
        monkeypatch.setattr("gdpnet.training.hopwise_head.MOST_WEIGHTS", most)
        fitted(graph, READS)
        assert len(fitted_readers) == expected


def test_around_a_hub_rings_of_one_hot_features_would_fill_up(monkeypatch):
    count = 40
    star = torch.stack([torch.zeros(count - 1, dtype=torch.long), torch.arange(1, count)])
    graph = Graph.build(
        star, SparseRows.identity(count), torch.arange(count) % 2, split=torch.arange(count) % 3 + 1
    )
    scene = make_scene(graph, READS, 0, CPU)
    bank = bank_of(scene, 2)
    # every leaf may hear all of the hub's circle, and the hub its leaves' circles of two
    values = (count - 1) * count + (count - 1) * 2
    monkeypatch.setattr("gdpnet.training.hopwise_head.MOST_VALUES", values)
    assert is_worth_a_reader(scene, bank, READS)
    monkeypatch.setattr("gdpnet.training.hopwise_head.MOST_VALUES", values - 1)
    assert not is_worth_a_reader(scene, bank, READS)


def test_without_validation_nodes_there_is_no_reader(graph):
    split = torch.where(graph.split == 2, torch.zeros_like(graph.split), graph.split)
    few = torch.zeros_like(split)
    few[(split == 1).nonzero().flatten()[:9]] = 1  # a tenth of nine is none
    assert fitted(replace(graph, split=few), READS).reader_ is None
