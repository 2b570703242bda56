"""A fit with limited time: it ends in time, its model predicts, and what was left out is said."""

import time

import pytest

from gdpnet.config import Config, task_config
from gdpnet.data.datasets.synthetic import synthetic_graph
from gdpnet.estimator import GDPNet
from gdpnet.training.budget import Budget
from gdpnet.training.callbacks import Callback, Step
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.state import Epoch, TrainingState
from helpers.small import FAST, noisy_graph, same_weights

GRAPH = noisy_graph(60)
HEADS = {"hopwise": {"use": True, "steps": 200}, "gcn": {"use": True, "epochs": 50, "min_validation": 5}}


class Told(Callback):
    """Keeps the results of steps, and what was said while they ran."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.progress: list[Step] = []

    def on_step(self, step: Step) -> None:
        if step.result is not None:
            self.results[step.name] = step.result

    def on_progress(self, step: Step) -> None:
        self.progress.append(step)


class Sleeper(Callback):
    """Makes every epoch take a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        time.sleep(self.seconds)


def fit(config: Config, *callbacks: Callback) -> GDPNet:
    return GDPNet.from_config(config, device="cpu").fit(GRAPH, callbacks=callbacks)


def limited(seconds: float, config: Config = FAST, **training: object) -> Config:
    return config.with_values({"training": {"seconds": seconds, **training}})


def test_a_limit_that_is_not_reached_changes_nothing():
    config, told = FAST.with_values(HEADS), Told()
    assert same_weights(fit(config), fit(limited(1000.0, config), told))
    assert "time limit" not in told.results
    assert not any("time" in one for one in told.results.values())


def test_the_smallest_budget_gives_a_model_after_one_epoch_and_says_what_was_cut():
    told = Told()
    model = fit(limited(1e-6, FAST.with_values(HEADS), warmup=3, epochs=4), told)
    assert len(model.history_) == model.best_epoch_ == 1
    assert told.results["time limit"].startswith("epochs 2 to 7 are left out")
    assert "all neighbours are kept" in told.results["best epoch"]
    assert told.results["hop-wise head"] == told.results["GCN head"] == "left out, as the time is up"
    assert set(model.predict(GRAPH)) <= set(model.classes_)
    assert bool(model.denoise(GRAPH).kept.all())  # no policy was trained
    assert not model.config_.training.selection


def test_a_model_without_its_policy_can_be_saved_and_read(tmp_path):
    model = fit(limited(1e-6, warmup=3))
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert again.predict(GRAPH).tolist() == model.predict(GRAPH).tolist()


def test_the_best_epoch_of_the_warm_up_is_used_if_there_is_no_time_for_more():
    model = fit(limited(1.0, warmup=200, epochs=1))
    scores = [line["validation_f1"] for line in model.history_]
    assert len(scores) < 200
    assert model.best_epoch_ == scores.index(max(scores)) + 1
    assert model.history_[model.best_epoch_ - 1]["validation_f1"] == max(scores)


def test_epochs_of_the_policy_end_in_time_and_the_best_of_them_is_used():
    told = Told()
    fit(FAST)  # loads what is compiled once, which may take longer than the limit
    model = fit(limited(4.0, warmup=1, epochs=1000, patience=1000), told)
    assert 1 < len(model.history_) < 1001
    assert model.best_epoch_ > 1
    assert model.config_.training.selection
    assert f"epochs {len(model.history_) + 1} to 1001 are left out" in told.results["time limit"]


def test_a_head_is_cut_short_with_its_best_weights():
    told = Told()
    steps = {"hopwise": {"use": True, "steps": 10**6, "patience": 10**6}}
    fit(limited(2.0, FAST.with_values(steps)), told)
    assert told.results["hop-wise head"].endswith("; cut short, as the time was up")
    shares = [one.done for one in told.progress if one.name == "hop-wise head"]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1


@pytest.mark.parametrize("kind", ["links", "clusters"])
def test_tasks_without_labels_end_in_time_too(kind):
    told = Told()
    small = {"training": {"epochs": 2, "warmup": 1}, "representation": {"width": 8}, "task": {"rank": 8}}
    long = {"links": {"steps": 10**6}, "clusters": {"steps": 10**6}}
    if kind == "clusters":  # the encoder that finds the first clusters is fitted before any epoch
        long = {"links": {"steps": 10}, "clusters": {"steps": 50}}
    model = fit(limited(2.0, task_config(kind).with_values(small | long)), told)
    assert model.embed(GRAPH).shape[0] == GRAPH.num_nodes
    if kind == "links":
        assert told.results["link predictor"].endswith("; cut short, as the time was up")


def test_a_resumed_run_counts_its_earlier_epochs_and_goes_further_with_more_time(tmp_path):
    slow, config = Sleeper(0.2), limited(1.0, warmup=1, epochs=50, patience=1000)
    first = fit(config, slow, Checkpoint(tmp_path))
    ended = len(first.history_)
    assert ended < 20
    again = fit(config, slow, Checkpoint(tmp_path))
    # little time is left, if any, and one epoch is always run
    assert ended < len(again.history_) <= ended + 2
    more = fit(limited(4.0, config), slow, Checkpoint(tmp_path))
    assert len(again.history_) < len(more.history_) < 51
    assert more.history_[:ended] == first.history_


def test_time_is_counted_from_the_beginning_of_the_fit():
    budget = Budget(limited(10.0))
    time.sleep(0.05)
    assert 9 < budget.left < 9.96
    assert Budget(FAST).left == float("inf")


@pytest.mark.slow
def test_a_fit_of_the_synthetic_graph_ends_within_its_budget_and_its_model_predicts():
    # may be exceeded by what cannot be interrupted: one epoch, the decisions, one step of a head
    fit(FAST)  # what is imported and compiled once
    graph, seconds = synthetic_graph(), 6.0
    start = time.perf_counter()
    model = GDPNet.from_config(limited(seconds, Config()), device="cpu").fit(graph)
    assert time.perf_counter() - start < seconds + 4.0
    assert len(model.history_) < 70
    assert model.score(graph) > 0.5
