"""Callbacks: the order of their calls, functions in their place, the state that they are handed, and steps."""

import pytest
import torch

from gdpnet.config import Config, task_config
from gdpnet.estimator import GDPNet
from gdpnet.training.callbacks import Callback, Step, Steps, change_text
from gdpnet.training.state import Epoch, TrainingState
from gdpnet.training.tasks import LabelTask
from helpers.small import FAST, noisy_graph, same_weights

GRAPH = noisy_graph(60)


class Recorder(Callback):
    """Records every call under a name."""

    def __init__(self, name: str, calls: list[tuple]) -> None:
        self.name, self.calls = name, calls

    def on_train_begin(self, state: TrainingState) -> None:
        self.calls.append((self.name, "begin", state.epoch))

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        self.calls.append((self.name, "epoch", epoch.epoch, state.epoch, len(state.history)))

    def on_train_end(self, state: TrainingState) -> None:
        self.calls.append((self.name, "end", state.epoch))


def fit(*callbacks, config: Config = FAST) -> GDPNet:
    return GDPNet.from_config(config, device="cpu").fit(GRAPH, callbacks=callbacks)


class Told(Callback):
    """Keeps every step."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def on_step(self, step: Step) -> None:
        self.steps.append(step)


def test_callbacks_are_called_in_order_around_the_epochs():
    calls: list[tuple] = []
    model = fit(Recorder("a", calls), Recorder("b", calls))
    assert calls == [
        *[(name, "begin", 0) for name in "ab"],
        *[(name, "epoch", epoch, epoch, epoch) for epoch in (1, 2, 3) for name in "ab"],
        *[(name, "end", 3) for name in "ab"],
    ]
    assert len(model.history_) == 3


def test_training_ends_before_the_heads_are_fitted(monkeypatch):
    calls: list[tuple] = []
    plain = LabelTask.finalise

    def finalise(*arguments):
        calls.append(("finalise",))
        return plain(*arguments)

    monkeypatch.setattr(LabelTask, "finalise", finalise)
    fit(Recorder("a", calls))
    assert calls[-2:] == [("a", "end", 3), ("finalise",)]


def test_a_function_is_called_with_every_epoch_and_keeps_its_place():
    calls: list[object] = []
    model = fit(Recorder("a", calls), calls.append, Recorder("b", calls))
    epochs = [one for one in calls if isinstance(one, Epoch)]
    assert [vars(epoch) for epoch in epochs] == model.history_
    place = calls.index(epochs[0])
    assert [calls[place - 1][:2], calls[place + 1][:2]] == [("a", "epoch"), ("b", "epoch")]


def test_a_callback_that_overrides_nothing_changes_nothing():
    assert same_weights(fit(Callback()), fit())


def test_the_state_that_a_callback_changes_at_the_beginning_is_trained_on():
    class Reset(Callback):
        @torch.no_grad()
        def on_train_begin(self, state: TrainingState) -> None:
            state.aggregators.weight.fill_(0.25)

    config = FAST.with_values({"representation": {"learning_rate": 0.0}})
    plain, changed = (
        GDPNet.from_config(config, device="cpu").fit(GRAPH, callbacks=callbacks)
        for callbacks in ((), (Reset(),))
    )
    assert bool((changed.networks_.aggregators.weight == 0.25).all())
    assert not bool((plain.networks_.aggregators.weight == 0.25).any())


def test_an_error_in_a_callback_ends_training():
    class StopError(Exception):
        pass

    calls: list[tuple] = []

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == 2:
            raise StopError

    with pytest.raises(StopError):
        fit(stop, Recorder("a", calls))
    assert [call[1] for call in calls] == ["begin", "epoch"]


# --- steps ---


def test_every_step_is_reported_as_it_begins_and_with_its_result():
    told = Told()
    heads = {"hopwise": {"use": True, "steps": 20}, "gcn": {"use": True, "epochs": 4, "min_validation": 5}}
    model = fit(told, config=FAST.with_values(heads))
    begun, ended = told.steps[::2], told.steps[1::2]
    names = ["data", "best epoch", "decisions", "threshold", "hop-wise head", "GCN head", "ensemble"]
    assert [one.name for one in begun] == [one.name for one in ended] == names
    assert all((one.result, one.score, one.seconds) == (None, None, None) for one in begun)
    assert all(one.result and one.seconds >= 0 for one in ended)
    said = {one.name: one for one in ended}
    assert f"epoch {model.best_epoch_} of 3" in said["best epoch"].result
    assert said["best epoch"].score == model.history_[model.best_epoch_ - 1]["validation_f1"]
    assert model.threshold_.reason in said["threshold"].result
    assert said["ensemble"].result == f"{model.trained_.weights}; validation F1 {model.validation_f1_:.3f}"
    assert said["ensemble"].score == model.validation_f1_


def test_the_last_score_that_a_step_reports_is_the_models_validation_score():
    told = Told()
    gcn = {"use": True, "epochs": 4, "min_validation": 5}
    model = fit(told, config=FAST.with_values({"gcn": gcn}))
    scores = [one.score for one in told.steps if one.score is not None]
    assert scores[-1] == model.validation_f1_
    head = next(one for one in told.steps if one.name == "GCN head" and one.result)
    assert head.result.startswith("left out" if head.score is None else "joins")


def test_a_function_with_a_method_for_steps_is_told_of_them():
    names = []

    class Progress:
        def __call__(self, epoch: Epoch) -> None:
            names.append(epoch.epoch)

        def on_step(self, step: Step) -> None:
            names.append(step.name)

    fit(Progress(), lambda epoch: None)
    assert names[:3] == ["data", "data", 1]
    assert names[-1] == "ensemble"


def test_one_node_is_not_called_nodes():
    assert change_text(1, 2_000, "held-out") == "1 held-out node gained and 2,000 lost"
    assert change_text(2, 0, "validation") == "2 validation nodes gained and 0 lost"


def test_a_step_that_fails_has_no_result():
    told = Told()
    with pytest.raises(ZeroDivisionError), Steps([told]).run("threshold", "choosing"):
        raise ZeroDivisionError
    assert told.steps == [Step("threshold", "choosing")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("clusters", ["data", "best epoch", "evidence", "decisions", "encoder", "clusters"]),
        ("links", ["data", "best epoch", "evidence", "decisions", "link predictor"]),
    ],
)
def test_tasks_without_labels_report_their_own_steps(kind, names):
    told = Told()
    config = task_config(kind).with_values(
        {
            "training": {"epochs": 2, "warmup": 1},
            "representation": {"width": 8},
            "policy": {"hidden": [8, 6]},
            "inference": {"episodes": 2},
            "task": {"rank": 8},
            "links": {"steps": 10},
            "clusters": {"steps": 5},
        }
    )
    fit(told, config=config)
    assert [one.name for one in told.steps if one.result] == names
