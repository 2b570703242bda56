"""AGG: the mean of a node and its selected neighbours, a linear map, a nonlinearity; and a head a class.

Several aggregators of the same shape, *members*, lie side by side in one bank. Member 0 learns from every training
node; decisions and embeddings are its own. With cross-fitting, member k never learns from the nodes of fold k, so
that what it says of them is honest. All members vote on the class of a node.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet._core.csr import sum_by_owner
from gdpnet.data.features import Features, project


class Aggregators(nn.Module):
    """A bank of aggregators: h = relu(W mean({x_v} + kept x_u) + b), and logits from h.

    Since W is linear, nodes are projected once, Z = X W, and the mean is taken of d-wide rows. With
    ``self_weight`` the node itself has another matrix: h = relu(x_v W_self + mean(kept z_u) + b). Beliefs add up to
    one if they are ``exclusive``; otherwise each stands for itself.
    """

    def __init__(
        self,
        features: int,
        width: int,
        classes: int,
        members: int,
        *,
        self_weight: bool,
        exclusive: bool = True,
    ) -> None:
        super().__init__()
        self.width, self.members, self.classes, self.exclusive = width, members, classes, exclusive
        self.weight = nn.Parameter(torch.zeros(features, members * width))
        self.self_weight = nn.Parameter(torch.zeros(features, members * width)) if self_weight else None
        self.bias = nn.Parameter(torch.zeros(members, width))
        self.head_weight = nn.Parameter(torch.zeros(members, width, classes))
        self.head_bias = nn.Parameter(torch.zeros(members, classes))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of one member and give them to all, so that their spaces stay comparable."""
        matrices = [self.weight] if self.self_weight is None else [self.weight, self.self_weight]
        with torch.no_grad():
            for matrix in matrices:
                one = torch.empty(matrix.shape[0], self.width)
                nn.init.xavier_uniform_(one, generator=generator)
                matrix.copy_(one.repeat(1, self.members))
            head = torch.empty(self.width, self.classes)
            nn.init.xavier_uniform_(head, generator=generator)
            self.head_weight.copy_(head.expand_as(self.head_weight))

    def project_own(
        self, features: Features, members: slice = slice(None)
    ) -> Float[Tensor, "nodes members width"]:
        """Return what each node is for itself, before bias and nonlinearity."""
        return self._project(features, self.weight if self.self_weight is None else self.self_weight, members)

    def project_given(
        self, features: Features, members: slice = slice(None)
    ) -> Float[Tensor, "nodes members width"]:
        """Return what each node gives to its neighbours, before bias and nonlinearity."""
        return self._project(features, self.weight, members)

    def _project(self, features: Features, weight: Tensor, members: slice) -> Tensor:
        picked = range(self.members)[members]
        columns = slice(picked[0] * self.width, (picked[-1] + 1) * self.width)
        return project(features, weight[:, columns]).unflatten(1, (len(picked), self.width))

    def embed(
        self,
        own: Float[Tensor, "n *members width"],
        total: Float[Tensor, "n *members width"],
        weight: Float[Tensor, "n"],
        bias: Float[Tensor, "*any width"],
    ) -> Float[Tensor, "n *members width"]:
        """Return h from a node's own row, the sum of its neighbours' rows, and the weight of that sum."""
        weight = weight.reshape(-1, *[1] * (own.dim() - 1))
        if self.self_weight is None:
            return torch.relu_((own + total).div_(1.0 + weight).add_(bias))
        return torch.relu_((total / weight.clamp(min=1e-6)).add_(own).add_(bias))

    def logits(self, embedded: Float[Tensor, "n members width"]) -> Float[Tensor, "n members classes"]:
        """Return each member's class scores."""
        return torch.einsum("nmd,mdc->nmc", embedded, self.head_weight) + self.head_bias

    def believe(self, scores: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
        """Turn scores into beliefs, classes lying along one dimension."""
        return torch.softmax(scores, dim=dim) if self.exclusive else torch.sigmoid(scores)


def add_neighbours(
    given: Float[Tensor, "edges *width"],
    owner: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"] | None,
    targets: int,
) -> tuple[Float[Tensor, "targets *width"], Float[Tensor, "targets"]]:
    """Add up what each target's neighbours give, weighted; return the sums and the weights' sums."""
    if weight is None:
        return sum_by_owner(given, owner, targets), torch.bincount(owner, minlength=targets).to(given.dtype)
    weighted = given * weight.reshape(-1, *[1] * (given.dim() - 1))
    return sum_by_owner(weighted, owner, targets), sum_by_owner(weight, owner, targets)
