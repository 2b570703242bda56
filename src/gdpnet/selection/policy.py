"""The policy network: regret score and keep logit from the same weights, and the ending neighbour."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

SCORE_BOUND = 30.0
"""Scores are clamped to this bound, where softmax and sigmoid are saturated but exact in single precision."""


_LEAST_DEVIATION = 0.25


class Policy(nn.Module):
    """Score a neighbour u of target v: l = w3 relu(W2 relu(A h_v + B h_u + ...)), equations (7) and (9).

    The first layer is linear in its input, so it is the sum of two halves, one of the target's state and one of the
    neighbour, each computed once. With ``extras`` the input also has the highest class probability of v and of u,
    the number of kept neighbours, and the agreement of both predictions. The ending neighbour has no features: the
    input of its half is learned.
    """

    pair_mean: Tensor
    pair_scale: Tensor

    def __init__(self, width: int, pairs: int, hidden: tuple[int, int], *, extras: bool) -> None:
        super().__init__()
        first, second = hidden
        self.extras = extras
        self.target_weight = nn.Parameter(torch.zeros(width + 2 * extras, first))
        self.neighbour_weight = nn.Parameter(torch.zeros(width + pairs + extras, first))
        self.agreement_weight = nn.Parameter(torch.zeros(first if extras else 0))
        self.first_bias = nn.Parameter(torch.zeros(first))
        self.hidden_weight = nn.Parameter(torch.zeros(first, second))
        self.hidden_bias = nn.Parameter(torch.zeros(second))
        self.score_weight = nn.Parameter(torch.zeros(second))
        self.score_bias = nn.Parameter(torch.zeros(()))
        self.ending = nn.Parameter(torch.zeros(width + pairs + extras))
        self.register_buffer("pair_mean", torch.zeros(pairs))
        self.register_buffer("pair_scale", torch.ones(pairs))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights; a new policy leans towards keeping, since most edges of a graph are signal."""
        for weight in (self.target_weight, self.neighbour_weight, self.hidden_weight):
            nn.init.xavier_uniform_(weight, generator=generator)
        for vector in (self.agreement_weight, self.score_weight, self.ending):
            nn.init.normal_(vector, std=0.1, generator=generator)
        nn.init.ones_(self.score_bias)

    def fit_pairs(self, pairs: Float[Tensor, "edges pairs"], of_edges: slice = slice(0)) -> None:
        """Store the mean and the standard deviation of the pair features, to standardise them.

        Edge features, in the columns ``of_edges``, are divided by a least deviation: a rare type would become large.
        """
        if pairs.shape[0] > 1 and pairs.shape[1]:
            scale = pairs.std(dim=0)
            self.pair_mean.copy_(pairs.mean(dim=0))
            # a column that is constant in training is left unscaled: on another graph it may vary
            self.pair_scale.copy_(torch.where(scale > 1e-4, scale, 1.0))
            self.pair_scale[of_edges].clamp_(min=_LEAST_DEVIATION)

    def target_input(
        self,
        embedded: Float[Tensor, "n width"],
        probabilities: Float[Tensor, "n classes"],
        kept: Float[Tensor, "n"],
    ) -> Float[Tensor, "n inputs"]:
        """Return the input of the target's half: the state and, with ``extras``, what else is known of it."""
        if not self.extras:
            return embedded
        return torch.cat([embedded, probabilities.amax(dim=1, keepdim=True), kept.log1p()[:, None]], dim=1)

    def neighbour_input(
        self,
        embedded: Float[Tensor, "n width"],
        probabilities: Float[Tensor, "n classes"],
        pairs: Float[Tensor, "n pairs"],
    ) -> Float[Tensor, "n inputs"]:
        """Return the input of the neighbour's half: its embedding and the standardised pair features."""
        highest = [probabilities.amax(dim=1, keepdim=True)] if self.extras else []
        return torch.cat([embedded, (pairs - self.pair_mean) / self.pair_scale, *highest], dim=1)

    def target_half(self, inputs: Float[Tensor, "n inputs"]) -> Float[Tensor, "n first"]:
        """Return the target's half of the first layer."""
        return torch.addmm(self.first_bias, inputs, self.target_weight)

    def neighbour_half(self, inputs: Float[Tensor, "n inputs"]) -> Float[Tensor, "n first"]:
        """Return the neighbour's half of the first layer, which does not depend on the state."""
        return inputs @ self.neighbour_weight

    def ending_half(self) -> Float[Tensor, "first"]:
        """Return the ending neighbour's half of the first layer."""
        return self.ending @ self.neighbour_weight

    def score(self, first_layer: Float[Tensor, "n first"]) -> Float[Tensor, "n"]:
        """Return the regret score, which is also the keep logit, from the sum of the halves.

        Without gradients the sum is overwritten in place.
        """
        if torch.is_grad_enabled():
            hidden = torch.relu(torch.addmm(self.hidden_bias, torch.relu(first_layer), self.hidden_weight))
        else:
            hidden = torch.addmm(self.hidden_bias, first_layer.relu_(), self.hidden_weight).relu_()
        bias = self.score_bias.expand(hidden.shape[0])  # unexpanded, no rows would give one score
        return torch.addmv(bias, hidden, self.score_weight).clamp(-SCORE_BOUND, SCORE_BOUND)


def agreement(
    target: Float[Tensor, "n classes"], neighbour: Float[Tensor, "n classes"]
) -> Float[Tensor, "n"]:
    """Return the agreement of two class distributions: the probability that samples of both coincide."""
    return (target * neighbour).sum(dim=1)
