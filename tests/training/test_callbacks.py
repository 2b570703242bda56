"""Callbacks: the order of their calls, functions in their place, and the state that they are handed."""

import pytest
import torch

from gdpnet.estimator import GDPNet
from gdpnet.training.callbacks import Callback
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


def fit(*callbacks) -> GDPNet:
    return GDPNet.from_config(FAST, device="cpu").fit(GRAPH, callbacks=callbacks)


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
