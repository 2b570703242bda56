"""What is chosen and fitted after the epochs: the threshold of the cleaned graph, and the heads of the ensemble."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.ensemble import Ensemble
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import Choice
from gdpnet.training.callbacks import Steps, score_text
from gdpnet.training.choose_threshold import choose_threshold
from gdpnet.training.data import TrainingData
from gdpnet.training.fit_gcn_head import fit_gcn, is_worth_gcn
from gdpnet.training.fit_hopwise_head import fit_hopwise, is_worth_hopwise
from gdpnet.training.state import Finalised


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

    def finalise(self) -> Finalised:
        """Choose the threshold of the cleaned graph; fit the heads, and add those that help to the ensemble."""
        return self._add_gcn(self._add_hopwise(Finalised(self._choose_threshold())))

    def _choose_threshold(self) -> Choice:
        with self.steps.run("threshold", "choosing the threshold of the cleaned graph", share=0.3) as step:
            given = (self.networks.aggregators, self.data, self.train, self.whole, self.config.threshold)
            choice = choose_threshold(*given, selection=self.networks.policy is not None)
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
                f"{'left out' if best is None else 'joins'}: with a share of {shown.share:g}, {shown.gains:,} "
                f"held-out nodes gained and {shown.losses:,} lost; {score_text(shown.validation_f1, config)} with it"
            )
            if best is not None:
                networks.hopwise, step.score = found.network, best.validation_f1
                weights = done.weights.with_hopwise(best.share)
                done = replace(done, weights=weights, score=best.validation_f1)
        return done

    def _add_gcn(self, done: Finalised) -> Finalised:
        """Fit the GCN head to the cleaned graph, and give it a weight if the ensemble gets no worse."""
        data, config, threshold = self.data, self.config, done.threshold.threshold
        about = "GCN head", "fitting the GCN head"
        if not is_worth_gcn(data, config) or self.steps.skips(*about):
            return done
        with self.steps.run(*about) as step:
            ensemble, weight = Ensemble(self.networks, done.weights, threshold), config.gcn.weight
            edge_weight = self.whole.weight(config.inference.mode)
            before = ensemble.local(self.whole.prepared, data.validation, edge_weight)[1]
            key = self.key.fold_in("gcn")
            found = fit_gcn(data, self.train, self.whole, threshold, before, config, key)
            step.result = (
                f"{'joins' if found.is_accepted else 'left out'}: with a weight of {weight:g}, {found.gains:,} "
                f"validation nodes gained and {found.losses:,} lost; "
                f"{score_text(found.quality_before, config)} without and {abs(found.validation_f1):.3f} with it"
            )
            if found.is_accepted:
                self.networks.gcn, step.score = found.network, found.validation_f1
                done = replace(done, weights=done.weights.with_gcn(weight), score=found.validation_f1)
        return done
