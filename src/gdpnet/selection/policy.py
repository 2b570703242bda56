"""The policy network: regret score and keep logit from the same weights, and the ending neighbour."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

SCORE_BOUND = 30.0
"""Scores are held within this bound, where softmax and sigmoid are saturated but exact in single precision."""


class Policy(nn.Module):
    """Score a neighbour u of target v: l = w3 relu(W2 relu(A h_v + B h_u + ...)), equations (7) and (9).

    The first layer is linear in its input, so that it is kept in two halves, one for the target's state and one
    for the neighbour, each computed once; their sum is the layer. With ``extras`` the state also holds how sure
    the classifier is of v and of u, how many neighbours were kept, and how well both predictions agree.
    The ending neighbour has no features: the input of its half is learned.
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
        """Draw the weights; a fresh policy leans towards keeping, as a graph is mostly right."""
        for weight in (self.target_weight, self.neighbour_weight, self.hidden_weight):
            nn.init.xavier_uniform_(weight, generator=generator)
        for vector in (self.agreement_weight, self.score_weight, self.ending):
            nn.init.normal_(vector, std=0.1, generator=generator)
        nn.init.ones_(self.score_bias)

    def fit_pairs(self, pairs: Float[Tensor, "edges pairs"]) -> None:
        """Remember the mean and spread of the pair features, to bring them to one scale."""
        if pairs.shape[0] > 1 and pairs.shape[1]:
            spread = pairs.std(dim=0)
            self.pair_mean.copy_(pairs.mean(dim=0))
            # a column that never varied in training is left unscaled: on another graph it may vary
            self.pair_scale.copy_(torch.where(spread > 1e-4, spread, 1.0))

    def target_half(
        self,
        embedded: Float[Tensor, "n width"],
        beliefs: Float[Tensor, "n classes"],
        kept: Float[Tensor, "n"],
    ) -> Float[Tensor, "n first"]:
        """Return the first layer's part that depends on the target's state."""
        if not self.extras:
            return embedded @ self.target_weight + self.first_bias
        width = embedded.shape[1]
        half = torch.addmm(self.first_bias, embedded, self.target_weight[:width])
        extras = torch.stack([beliefs.amax(dim=1), kept.log1p()], dim=1)
        return half.addmm_(extras, self.target_weight[width:])

    def neighbour_half(
        self,
        embedded: Float[Tensor, "n width"],
        beliefs: Float[Tensor, "n classes"],
        pairs: Float[Tensor, "n pairs"],
    ) -> Float[Tensor, "n first"]:
        """Return the first layer's part that depends on the neighbour and on its edge, not on the state."""
        width, columns = embedded.shape[1], pairs.shape[1]
        half = embedded @ self.neighbour_weight[:width]
        more = [(pairs - self.pair_mean) / self.pair_scale] if columns else []
        more += [beliefs.amax(dim=1, keepdim=True)] if self.extras else []
        return half.addmm_(torch.cat(more, dim=1), self.neighbour_weight[width:]) if more else half

    def target_input(
        self,
        embedded: Float[Tensor, "n width"],
        beliefs: Float[Tensor, "n classes"],
        kept: Float[Tensor, "n"],
    ) -> Float[Tensor, "n inputs"]:
        """Return what `target_half` multiplies with its weights, in one piece, to be multiplied many times."""
        if not self.extras:
            return embedded
        return torch.cat([embedded, beliefs.amax(dim=1, keepdim=True), kept.log1p()[:, None]], dim=1)

    def neighbour_input(
        self,
        embedded: Float[Tensor, "n width"],
        beliefs: Float[Tensor, "n classes"],
        pairs: Float[Tensor, "n pairs"],
    ) -> Float[Tensor, "n inputs"]:
        """Return what `neighbour_half` multiplies with its weights, in one piece, to be multiplied many times."""
        more = [beliefs.amax(dim=1, keepdim=True)] if self.extras else []
        return torch.cat([embedded, (pairs - self.pair_mean) / self.pair_scale, *more], dim=1)

    def ending_half(self) -> Float[Tensor, "first"]:
        """Return the first layer's part of the ending neighbour."""
        return self.ending @ self.neighbour_weight

    def score(self, first_layer: Float[Tensor, "n first"]) -> Float[Tensor, "n"]:
        """Return the regret score, which is also the keep logit, from the sum of the halves.

        The sum is overwritten where no gradient is asked for.
        """
        if torch.is_grad_enabled():
            hidden = torch.relu(torch.addmm(self.hidden_bias, torch.relu(first_layer), self.hidden_weight))
        else:
            hidden = torch.addmm(self.hidden_bias, first_layer.relu_(), self.hidden_weight).relu_()
        bias = self.score_bias.expand(hidden.shape[0])  # unexpanded, no rows would give one score
        return torch.addmv(bias, hidden, self.score_weight).clamp(-SCORE_BOUND, SCORE_BOUND)


def agreement(
    target_beliefs: Float[Tensor, "n classes"], neighbour_beliefs: Float[Tensor, "n classes"]
) -> Float[Tensor, "n"]:
    """Return how well two class distributions agree, the chance that draws from both coincide."""
    return (target_beliefs * neighbour_beliefs).sum(dim=1)
