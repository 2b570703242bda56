"""What is chosen and fitted after the epochs: the threshold of the cleaned graph, and the heads of the ensemble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from torch import Tensor

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import Choice
from gdpnet.training.callbacks import Steps, change_text, score_text
from gdpnet.training.choose_threshold import choose_threshold
from gdpnet.training.data import TrainingData
from gdpnet.training.fit_gcn_head import (
    Convolutions,
    fit_convolutions,
    is_worth_gcn,
    predict_without_gcn,
    weigh_gcn,
)
from gdpnet.training.fit_hopwise_head import fit_hopwise, is_worth_hopwise
from gdpnet.training.fit_without_decisions import AllEdgesBegun, fit_without_decisions
from gdpnet.training.held_out import HeldOutNodes
from gdpnet.training.state import Finalised
from gdpnet.training.weigh_heads import mixed, weigh_heads


@dataclass(frozen=True)
class Heads:
    """Chooses the threshold and fits the heads of a task with labels; every step is reported.

    ``train`` and ``whole`` are decisions on all edges of the graph of training nodes, and of the whole graph.
    """

    networks: Networks
    data: TrainingData
    train: Selected
    whole: Selected
    config: Config
    key: Key
    steps: Steps
    genuine: Tensor | None = None
    """The genuine probability of every edge of the whole graph; None if it is not known."""
    beside: Beside = field(default_factory=lambda: Beside(enabled=False))
    """Runs what need not wait for the other heads."""
    all_edges: AllEdgesBegun | None = None
    """Waits for the all-edges head; None if it is not wanted."""

    def finalise(self) -> Finalised:
        """Choose the threshold of the cleaned graph; fit the heads, and add those that help to the ensemble."""
        done = Finalised(self._choose_threshold())
        convolutions = self._begin_gcn(done.threshold.threshold)
        return self._add_gcn(self._weigh(self._add_hopwise(done)), convolutions)

    def _choose_threshold(self) -> Choice:
        with self.steps.run("threshold", "choosing the threshold of the cleaned graph", share=0.3) as step:
            given = (self.networks.aggregators, self.data, self.train, self.whole, self.config.threshold)
            has_policy = self.networks.policy is not None
            choice = choose_threshold(*given, selection=has_policy, genuine=self.genuine)
            scores = ", ".join(f"{threshold:g}: {score:.3f}" for threshold, score in choice.scores)
            step.result = choice.reason + (f" (candidates {scores})" if scores else "")
        return choice

    def _add_hopwise(self, done: Finalised) -> Finalised:
        """Fit the hop-wise head, and give it a share of the aggregator's weight if it is better."""
        networks, data, config = self.networks, self.data, self.config
        about = "hop-wise head", "fitting the hop-wise head"
        if not is_worth_hopwise(data, networks.aggregators, config) or self.steps.skips(*about):
            return done
        with self.steps.run(*about, share=0.5) as step:
            key = self.key.fold_in("hopwise")
            found = fit_hopwise(networks.aggregators, data, self.train, self.whole, config, key)
            best = found.best
            shown = best or max(found.scores, key=lambda one: one.lead.difference)
            step.result = (
                f"{'left out' if best is None else 'joins'}: with a share of {shown.share:g}, "
                f"{change_text(shown.gains, shown.losses, 'held-out')}; "
                f"{score_text(shown.validation_f1, config)} with it"
            )
            if best is not None:
                networks.hopwise, step.score = found.network, best.validation_f1
                weights = done.weights.with_hopwise(best.share)
                done = replace(done, weights=weights, score=best.validation_f1)
        return done

    def _weigh(self, done: Finalised) -> Finalised:
        """Fit the heads that no decision has a part in, and find the weights of all on held-out nodes.

        If noise spares the held-out nodes these would prefer to read every edge, so that no head does.
        """
        networks, data, held_out = self.networks, self.data, HeldOutNodes.of(self.data)
        all_edges = self.all_edges if done.threshold.spared is None else None
        given = (networks, data, held_out, self.config, self.key, self.steps, all_edges)
        new, prior = fit_without_decisions(*given), done.weights
        if not new:
            return done
        for name in new:
            prior = prior.with_head(name, getattr(self.config, name).prior)
        heads = held_out.by_selected(networks, self.whole, done.weights, self.config.inference.mode) | new
        asked = (heads, held_out.labels, done.weights, prior, data.task)
        weights = weigh_heads(*asked, self.config.ensemble)
        for name in [name for name in new if getattr(weights, name) == 0]:
            setattr(networks, name, None)
        validation = slice(0, data.validation.numel())
        score = data.task.quality(mixed(heads, weights)[validation], held_out.labels[validation])
        return replace(done, weights=weights, score=score if data.validation.numel() else done.score)

    def _begin_gcn(self, threshold: float) -> Callable[[], Convolutions] | None:
        """Begin to fit the GCN head to the cleaned graph, if it is wanted; return what waits for it."""
        if not is_worth_gcn(self.data, self.config):
            return None
        given = (self.data, self.train, self.whole, threshold, self.networks.aggregators.classes, self.config)
        return self.beside.start("GCN head", partial(fit_convolutions, *given, self.key.fold_in("gcn")))

    def _add_gcn(self, done: Finalised, convolutions: Callable[[], Convolutions] | None) -> Finalised:
        """Give the GCN head a weight if the ensemble gets no worse."""
        data, config, threshold = self.data, self.config, done.threshold.threshold
        about = "GCN head", "fitting the GCN head"
        if convolutions is None or self.steps.skips(*about):
            return done
        with self.steps.run(*about) as step:
            before = predict_without_gcn(self.networks, done.weights, threshold, self.whole, data, config)
            weigh = sum(done.weights[3:]) > 0  # beside heads that no decision changes
            found = weigh_gcn(convolutions(), before, data, config, weigh)
            step.result = (
                f"{'joins' if found.is_accepted else 'left out'}: with a weight of {found.weight:.2g}, "
                f"{change_text(found.gains, found.losses, 'validation')}; "
                f"{score_text(found.quality_before, config)} without and {abs(found.validation_f1):.3f} with it"
            )
            if found.is_accepted:
                self.networks.gcn, step.score = found.network, found.validation_f1
                done = replace(done, weights=done.weights.with_gcn(found.weight), score=found.validation_f1)
        return done
