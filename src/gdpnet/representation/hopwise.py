"""The reader: a network on a node's own features and on the means over each of its rings, told apart.

AGG has one matrix for a node and its neighbours alike; where features alone say much, that is a loss. The reader has
one matrix a ring: h = relu(sum over r of R_r W_r + b), where R_0 are the node's features, R_1 their mean over the
node and what was selected for it, R_2 the mean over those of what they give.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet.data.features import Features, project


class Reader(nn.Module):
    """A bank of readers of the same shape, which vote; representations are those of the first.

    ``share`` is the weight of their vote: one where they alone have the say, less where AGG votes too.
    """

    def __init__(
        self, features: int, width: int, classes: int, members: int, rings: int, *, exclusive: bool = True
    ) -> None:
        super().__init__()
        self.width, self.members, self.exclusive = width, members, exclusive
        self.weight = nn.Parameter(torch.zeros(rings, features, members * width))
        self.bias = nn.Parameter(torch.zeros(members, width))
        self.head_weight = nn.Parameter(torch.zeros(members, width, classes))
        self.head_bias = nn.Parameter(torch.zeros(members, classes))
        self.share: Tensor
        self.register_buffer("share", torch.ones(()))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights, each member its own; the rings of a member share one fan-in."""
        rings, features, _ = self.weight.shape
        with torch.no_grad():
            for member in range(self.members):
                one = torch.empty(rings * features, self.width)
                nn.init.xavier_uniform_(one, generator=generator)
                columns = slice(member * self.width, (member + 1) * self.width)
                self.weight[:, :, columns] = one.view(rings, features, self.width)
                nn.init.xavier_uniform_(self.head_weight[member], generator=generator)

    def embed(self, rings: Sequence[Features]) -> Float[Tensor, "nodes members width"]:
        """Return h of every member."""
        parts = [project(rows, weight) for rows, weight in zip(rings, self.weight, strict=True)]
        hidden = torch.stack(parts).sum(dim=0).unflatten(1, (self.members, self.width))
        return torch.relu(hidden + self.bias)

    def logits(
        self, embedded: Float[Tensor, "nodes members width"]
    ) -> Float[Tensor, "nodes members classes"]:
        """Return each member's class scores."""
        return torch.einsum("nmd,mdc->nmc", embedded, self.head_weight) + self.head_bias

    def votes(self, embedded: Float[Tensor, "nodes members width"]) -> Float[Tensor, "nodes members classes"]:
        """Return each member's class probabilities."""
        logits = self.logits(embedded)
        return torch.softmax(logits, dim=2) if self.exclusive else torch.sigmoid(logits)
