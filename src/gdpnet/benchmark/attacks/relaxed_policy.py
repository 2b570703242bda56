"""The decisions of a fitted policy as a differentiable function of edge weights.

Episodes are sequential and sampled. Here all candidates of a target are decided on in parallel:

- A candidate is scored in the state in which every other neighbour u of the target is kept with weight w_u p_u: its
  edge weight times its own keep probability. The p come from the round before; in the first round they are one.
- With l the score of the candidate and e that of the ending neighbour, the candidate is drawn before the end with
  probability q = sigmoid(l - e), as in a Plackett-Luce order of fixed scores. If it is not, its keep probability is
  multiplied by q again (`gdpnet.selection.rollout`). Expected: sigmoid(l) (q + (1 - q) q).
- A candidate of weight zero is scored as if it were an edge. So the gradient says what adding it would do.

Degrees, messages, states and the learned pair features are differentiated. Cosines of features and the counts of
common neighbours are those of a graph that is close to the weights; they are recomputed as these change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet.benchmark.attacks.problem import Candidates, reversed_edges, weighted_sum
from gdpnet.config import Config
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy, agreement

_ROUNDS = 2
"""Rounds of parallel decisions."""

Weights = Float[Tensor, "edges"]
"""A number per directed edge of the candidates."""
Rows = Float[Tensor, "nodes width"]
Wide = Float[Tensor, "edges width"]


class Means(NamedTuple):
    """The mean over each node and its neighbours, their weights in it, and its total weight."""

    rows: Rows
    weight: Weights
    total: Float[Tensor, "nodes"]


def means_of(pairs: Candidates, rows: Float[Tensor, "nodes *width"], weight: Weights) -> Means:
    """Return the weighted mean of each node's own row, which weighs one, and its neighbours' rows."""
    total = 1.0 + sum_by_owner(weight, pairs.target, pairs.nodes)
    return Means((rows + weighted_sum(pairs, weight, rows)) / total[:, None], weight, total)


@dataclass(frozen=True)
class RelaxedPolicy:
    """A policy and the aggregator through which it sees nodes, over some candidates."""

    policy: Policy
    aggregators: Aggregators
    config: Config
    pairs: Candidates
    own: Rows
    """Each node's own row, projected by the first fold model."""
    message: Rows
    """Each node's message without its neighbours."""
    features: Float[Tensor, "edges pairs"]
    """The pair features of a graph close to the weights."""

    def probability(self, weight: Weights) -> tuple[Weights, Weights]:
        """Return keep probabilities, and the weight of each edge in the means that nodes send as messages."""
        if self.config.representation.hops == 1:
            probability = self._decide(weight, None)
            if self.config.inference.symmetrise:
                probability = (probability + reversed_edges(probability)) / 2
            return probability, torch.zeros_like(weight)
        first = self._decide(weight, means_of(self.pairs, self.message, weight))
        kept = self._used(first)
        if self.config.inference.symmetrise:
            kept = (kept + reversed_edges(kept)) / 2
        second = self._decide(weight, means_of(self.pairs, self.message, weight * kept))
        if self.config.inference.symmetrise:
            second = (second + reversed_edges(first)) / 2
        return second, weight * kept

    def used(self, weight: Weights) -> tuple[Weights, Weights, Weights]:
        """Return the keep probabilities, the weight of each edge in AGG, and in the means of messages."""
        probability, mean_weight = self.probability(weight)
        return probability, weight * self._used(probability), mean_weight

    def _used(self, probability: Weights) -> Weights:
        """Return the share of an edge that AGG uses; greedy decisions are rounded, with the gradient as it is."""
        if self.config.inference.mode != "greedy":
            return probability
        return probability + ((probability > 0.5).float() - probability).detach()

    def _decide(self, weight: Weights, means: Means | None) -> Weights:
        """Return the keep probability of every candidate."""
        policy, pairs = self.policy, self.pairs
        message = self.message[pairs.neighbour] if means is None else self._without_other(means)
        embedded = torch.relu(message + self._offset(pairs.neighbour))
        classes = self._classes(embedded)
        features = self._pair_features(weight, means, embedded, classes)
        half = policy.neighbour_half(policy.neighbour_input(embedded, classes, features))
        kept = weight
        for _ in range(_ROUNDS):
            probability = self._in_state(kept, message, classes, half)
            kept = weight * probability
        return probability

    def _in_state(self, kept: Weights, message: Wide, classes: Tensor, half: Tensor) -> Weights:
        """Return keep probabilities in the states in which all other neighbours are kept by their weights."""
        policy, pairs = self.policy, self.pairs
        weighed = kept[:, None] * message
        total = sum_by_owner(weighed, pairs.target, pairs.nodes)[pairs.target] - weighed
        count = (sum_by_owner(kept, pairs.target, pairs.nodes)[pairs.target] - kept).clamp(min=0.0)
        own, bias = self.own[pairs.target], self.aggregators.bias[0]
        if self.aggregators.self_weight is None:
            state = torch.relu((own + total) / (1.0 + count)[:, None] + bias)
        else:
            state = torch.relu(total / count.clamp(min=1e-6)[:, None] + own + bias)
        found = self._classes(state)
        first = policy.target_half(policy.target_input(state, found, count))
        both = first + half
        if policy.extras:
            both = both + agreement(found, classes)[:, None] * policy.agreement_weight
        score = policy.score(both)
        if not (self.config.policy.early_stop and self.config.policy.order == "learned"):
            return torch.sigmoid(score)
        reached = torch.sigmoid(score - policy.score(first + policy.ending_half()))
        return torch.sigmoid(score) * reached * (2.0 - reached)

    def _pair_features(
        self, weight: Weights, means: Means | None, embedded: Wide, classes: Tensor
    ) -> Float[Tensor, "edges pairs"]:
        """Return the pair features, with soft degrees and what depends on the messages filled in."""
        names, pairs = PAIR_NAMES[self.config.policy.state], self.pairs
        if not names:
            return self.features
        first = self.features.shape[1] - len(names)
        columns = dict(zip(names, self.features[:, first:].unbind(dim=1), strict=True))
        if "target degree" in columns:
            degree = sum_by_owner(weight, pairs.target, pairs.nodes)
            columns["target degree"] = (degree[pairs.target] - weight + 1.0).log1p()
            columns["neighbour degree"] = (degree[pairs.neighbour] - weight + 1.0).log1p()
        learned = names[len(PAIR_NAMES["structure"]) :]
        if learned and means is not None:
            columns |= dict(zip(learned, self._compared(means, embedded, classes), strict=False))
        return torch.cat([self.features[:, :first], torch.stack([columns[name] for name in names], dim=1)], 1)

    def _compared(self, means: Means, embedded: Wide, classes: Tensor) -> list[Weights]:
        """Return the learned pair features: the target's neighbourhood compared with the neighbour, and trust."""
        back, pairs = _turned(means), self.pairs
        around = self._without_other(back, pairs.target, pairs.neighbour)
        around = torch.relu(around + self._offset(pairs.target))
        found = self._classes(around)
        length = (around.square().sum(dim=1) * embedded.square().sum(dim=1)).clamp(min=1e-16).sqrt()
        others = means.total[pairs.target] - means.weight
        theirs = means.total[pairs.neighbour] - reversed_edges(means.weight)
        return [
            agreement(found, classes),
            (around * embedded).sum(dim=1) / length,
            found.amax(dim=1),
            others.clamp(min=1.0).log(),
            theirs.clamp(min=1.0).log(),
        ]

    def _without_other(
        self, means: Means, node: Tensor | None = None, other: Tensor | None = None
    ) -> Float[Tensor, "edges width"]:
        """Return the mean of each edge's node, its neighbour by default, with the other node taken out."""
        node = self.pairs.neighbour if node is None else node
        other = self.pairs.target if other is None else other
        share, whole = taken_out(means, node)
        table, both = (
            torch.cat([means.rows, self.message]),
            torch.stack([node, other + self.pairs.nodes], dim=1),
        )
        return F.embedding_bag(
            both, table, mode="sum", per_sample_weights=torch.stack([whole, -share], dim=1)
        )

    def _offset(self, node: Tensor) -> Tensor:
        bias = self.aggregators.bias[0]
        return bias if self.aggregators.self_weight is None else bias + self.own[node]

    def _classes(self, state: Wide) -> Float[Tensor, "edges classes"]:
        scores = state @ self.aggregators.head_weight[0] + self.aggregators.head_bias[0]
        return self.aggregators.to_probabilities(scores, dim=1)


def _turned(means: Means) -> Means:
    """Return means whose edge weights are those of the reverse edges."""
    return means._replace(weight=reversed_edges(means.weight))


def taken_out(means: Means, node: Tensor) -> tuple[Weights, Weights]:
    """Return k / (W - k) and W / (W - k), with W the weight of a node's mean and k that of the reverse edge in it."""
    own, total = reversed_edges(means.weight), means.total[node]
    rest = (total - own).clamp(min=0.5)
    return own / rest, total / rest
