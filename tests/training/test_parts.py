"""Training on parts of a large graph: what a part holds, and that runs can be resumed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet._core.beside import Beside
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.data.validation import SPLITS
from gdpnet.errors import GraphError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.training.callbacks import Callback, Steps
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.data import fold_by_number, make_training_data
from gdpnet.training.parts import Parts, draw_first
from gdpnet.training.run_epochs import run_epochs
from gdpnet.training.run_folder import create_run
from helpers.setups import CPU
from helpers.small import FAST, same_weights

LARGE = synthetic_graph(SyntheticSettings(nodes=1500, classes=3, words=200, links_per_node=1.5), seed=0)
TRAIN, VALIDATION = SPLITS.index("train"), SPLITS.index("validation")
CONFIG = FAST.with_values(
    {"training": {"max_nodes": 500, "epochs": 5, "redraw_every": 2, "injected": 0.5, "perturbed_graphs": 2}}
)


def parts_of(graph: Graph = LARGE, config: Config = CONFIG, ranks: Ranks | None = None) -> Parts:
    ranks = ranks or Ranks()
    return Parts(graph, draw_first(graph, config, 0, ranks), config, 0, ranks)


def few_labels() -> Graph:
    """Return the graph with labels for a tenth of its training nodes, so that pseudo-labels are used."""
    split = LARGE.split.clone()
    train = (split == TRAIN).nonzero().flatten()
    split[train[torch.arange(train.numel()) % 10 > 0]] = SPLITS.index("none")
    labels = torch.where(split == SPLITS.index("none"), -1, LARGE.labels)
    return replace(LARGE, split=split, labels=labels)


# --- what a part holds ---


def test_parts_have_the_same_number_of_edges_within_a_tenth():
    for parts in (parts_of(), parts_of(few_labels())):
        edges = [parts.graph.induced(parts.draw(number)).num_edges for number in range(1, 9)]
        assert max(edges) <= parts.first.edges
        assert min(edges) >= 0.9 * parts.first.edges


def test_the_parts_of_ranks_have_as_many_edges_and_other_core_nodes():
    bound = min(parts_of(ranks=Ranks(part=rank, parts=3)).first.edges for rank in range(3))
    cores = []
    for rank in range(3):
        parts = parts_of(ranks=Ranks(part=rank, parts=3))
        parts.first = replace(parts.first, edges=bound)  # as the ranks would agree on
        assert 0.9 * bound <= parts.graph.induced(parts.draw(1)).num_edges <= bound
        cores.append(set(parts._core(1).tolist()))
    assert sum(map(len, cores)) == len(set.union(*cores)) == int((LARGE.split == TRAIN).sum())


def test_no_validation_or_test_node_is_in_a_part_that_is_trained_on():
    parts = parts_of()
    held_out = {VALIDATION, SPLITS.index("test")}
    for number in range(1, 5):
        assert not held_out & set(parts.graph.split[parts.draw(number)].tolist())


def test_all_training_nodes_have_their_turn_before_one_has_it_again():
    parts = parts_of()
    core, train = parts.first.core, set((LARGE.split == TRAIN).nonzero().flatten().tolist())
    turns = len(train) // core
    begun = [parts._core(number)[:core].tolist() for number in range(turns)]
    nodes = [node for part in begun for node in part]
    assert len(nodes) == len(set(nodes)) == turns * core
    assert set(nodes) <= train
    assert parts._core(turns + 1).tolist() != parts._core(1).tolist()


def test_a_node_is_in_the_same_fold_in_every_part():
    parts = parts_of()
    home = make_training_data(parts.first.graph, CONFIG, 0, CPU, numbers=parts.first.numbers)
    every = fold_by_number(torch.arange(LARGE.num_nodes), CONFIG, 0)
    assert torch.equal(home.fold[home.targets], every[parts.first.numbers[home.seen[home.targets]]])
    part = parts.data_of(1, home)
    numbers = parts.draw(1)
    assert torch.equal(part.fold[part.targets], every[numbers[part.targets]])
    assert bool((part.fold[part.fold >= 0] == part.every_fold[part.fold >= 0]).all())
    # a third of the nodes, within five standard deviations
    shares = torch.bincount(every, minlength=3) / LARGE.num_nodes
    assert float((shares - 1 / 3).abs().max()) < 5 * np.sqrt(2 / 9 / LARGE.num_nodes)


def test_a_redrawn_part_has_its_own_graph_and_the_validation_nodes_of_the_first_one():
    parts = parts_of()
    home = make_training_data(parts.first.graph, CONFIG, 0, CPU, numbers=parts.first.numbers)
    assert home.injected == ()
    assert len(parts.data_of(0, home).injected) == 2
    part, numbers = parts.data_of(2, home), parts.draw(2)
    assert part.train.num_nodes == numbers.numel() == part.labels.numel()
    assert len(part.injected) == 2
    assert part.whole is home.whole
    assert part.held_out_graph is home.held_out_graph
    assert part.first is home
    both = part.seen >= 0
    assert torch.equal(parts.first.numbers[part.seen[both]], numbers[both])
    assert not torch.isin(numbers[~both], parts.first.numbers).any()
    assert torch.equal(part.labels[part.targets], LARGE.labels[numbers[part.targets]])


def test_nodes_of_a_transductive_graph_that_are_no_targets_have_no_label_in_a_part():
    parts = parts_of(replace(LARGE, transductive=True))
    home = make_training_data(parts.first.graph, CONFIG, 0, CPU, numbers=parts.first.numbers)
    part, numbers = parts.data_of(1, home), parts.draw(1)
    others = parts.graph.split[numbers] != TRAIN
    assert bool(others.any())
    assert set(part.labels[others].tolist()) == {-1}


def test_epochs_change_the_part_as_often_as_the_setting_says():
    assert [parts_of().number_at(epoch) for epoch in (1, 2, 3, 4, 5)] == [0, 0, 1, 1, 2]
    once = parts_of(config=CONFIG.with_values({"training": {"redraw_every": 0}}))
    assert {once.number_at(epoch) for epoch in range(1, 100)} == {0}


def test_more_ranks_than_training_nodes_are_refused():
    split = torch.where(LARGE.split == TRAIN, SPLITS.index("none"), LARGE.split)
    split[:2] = TRAIN
    labels = torch.tensor([0, 1, *LARGE.labels[2:].tolist()])
    with pytest.raises(GraphError, match="a training node of its own, found too few for 3 ranks"):
        parts_of(replace(LARGE, split=split, labels=labels), ranks=Ranks(part=2, parts=3))


# --- training ---


def train(folder, graph: Graph, config: Config = CONFIG, stop_after: int | None = None) -> GDPNet:
    def on_epoch(epoch) -> None:
        if epoch.epoch == stop_after:
            raise KeyboardInterrupt

    run = folder if folder.exists() else create_run(folder, config, "mine", graph, seed=0).path
    return GDPNet.from_config(config, device="cpu").fit(graph, callbacks=[Checkpoint(run), on_epoch])


@pytest.mark.slow
@pytest.mark.parametrize("graph", [LARGE, few_labels()], ids=["many labels", "few labels"])
def test_a_run_stopped_within_a_part_or_at_its_end_ends_with_the_same_weights(graph, tmp_path):
    whole = train(tmp_path / "whole", graph)
    assert len(whole.history_) == 6
    for epoch in (3, 4):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / f"stopped {epoch}", graph, stop_after=epoch)
        resumed = train(tmp_path / f"stopped {epoch}", graph)
        assert same_weights(resumed, whole)
        assert resumed.history_ == whole.history_


@pytest.mark.slow
def test_pseudo_labels_and_suspected_labels_are_found_anew_for_every_part():
    config = CONFIG.with_values({"training": {"label_error_gap": 0.0, "label_error_deviations": 0.0}})
    parts, sizes = [], []

    class Watch(Callback):
        def on_epoch_end(self, state, epoch) -> None:
            parts.append(state.part)
            sizes.append(state.pseudo.numel())

    steps = Steps([Watch()])
    with Beside() as beside:
        done = run_epochs(few_labels(), config, 0, CPU, steps, None, None, Ranks(), beside)
    assert parts == [0, 0, 1, 1, 2, 2]
    drawn = done.task.parts
    assert sizes[2] == drawn.draw(1).numel()
    assert sizes[4] == drawn.draw(2).numel()
    # what follows the epochs is about the first part
    assert done.state.pseudo.numel() == done.task.data.train.num_nodes


@pytest.mark.slow
def test_another_part_is_another_model_and_a_small_graph_knows_no_parts():
    first = GDPNet.from_config(CONFIG, device="cpu").fit(LARGE)
    once = CONFIG.with_values({"training": {"redraw_every": 0}})
    assert not same_weights(first, GDPNet.from_config(once, device="cpu").fit(LARGE))
    fits = CONFIG.with_values({"training": {"max_nodes": 2000}})
    one, other = (
        GDPNet.from_config(fits.with_values({"training": {"redraw_every": every}}), device="cpu").fit(LARGE)
        for every in (1, 3)
    )
    assert same_weights(one, other)


@pytest.mark.slow
def test_a_checkpoint_of_another_way_to_draw_parts_is_refused(tmp_path):
    fits = CONFIG.with_values({"training": {"max_nodes": 2000}})
    train(tmp_path / "run", LARGE, fits)
    with pytest.raises(RunFolderError, match="drew other random numbers"):
        train(tmp_path / "run", LARGE, CONFIG)
