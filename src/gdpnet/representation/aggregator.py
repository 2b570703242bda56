"""AGG: the mean of a node and its selected neighbours, a linear map, a nonlinearity, and a classification head.

AGG shares one matrix between a node and its neighbours, which loses information if the node's own features are
predictive. The hop-wise network has one per hop.

An ensemble holds several aggregators of the same shape, the *fold models*. Fold model 0 learns from every training
node and makes the decisions and embeddings. With cross-fitting, fold model k never learns from the nodes of fold k,
so that its predictions for them are out-of-sample. The class probabilities of a node are the mean over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet.data.features import Features, project
from gdpnet.representation.head_product import multiply_heads


class FoldModels(nn.Module):
    """Several networks of the same shape: the bias of their embeddings, and their classification heads.

    Class probabilities come from a softmax if they are ``exclusive``, else from a sigmoid each.
    """

    def __init__(
        self, width: int, classes: int, fold_models: int, exclusive: bool, **matrices: nn.Parameter | None
    ) -> None:
        super().__init__()
        for name, matrix in matrices.items():
            self.register_parameter(name, matrix)
        self.width, self.fold_models, self.classes, self.exclusive = width, fold_models, classes, exclusive
        self.bias = nn.Parameter(torch.zeros(fold_models, width))
        self.head_weight = nn.Parameter(torch.zeros(fold_models, width, classes))
        self.head_bias = nn.Parameter(torch.zeros(fold_models, classes))

    def logits(
        self, embedded: Float[Tensor, "n fold_models width"]
    ) -> Float[Tensor, "n fold_models classes"]:
        """Return the class scores of each fold model; on a CPU their memory is laid out class by class."""
        return multiply_heads(embedded, self.head_weight) + self.head_bias

    def to_probabilities(self, scores: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
        """Turn scores into class probabilities along one dimension."""
        return torch.softmax(scores, dim=dim) if self.exclusive else torch.sigmoid(scores)

    def fold_probabilities(
        self, embedded: Float[Tensor, "n fold_models width"]
    ) -> Float[Tensor, "n fold_models classes"]:
        """Return the class probabilities of each fold model."""
        return self.to_probabilities(self.logits(embedded), dim=2)

    def adam(self, learning_rate: float, weight_decay: float) -> torch.optim.Adam:
        """Return an optimiser; biases and heads have no weight decay."""
        rest = dict(self.named_parameters())
        matrices = [rest.pop(name) for name in ("weight", "self_weight") if name in rest]
        decayed = {"params": matrices, "weight_decay": weight_decay}
        return torch.optim.Adam(
            [decayed, {"params": [*rest.values()], "weight_decay": 0.0}], lr=learning_rate, fused=True
        )


class Aggregators(FoldModels):
    """An ensemble of aggregators: h = relu(W mean({x_v} + kept x_u) + b), and logits from h.

    Since W is linear, nodes are projected once, Z = X W, and means are taken over rows of Z. With ``self_weight`` the
    node itself has another matrix: h = relu(x_v W_self + mean(kept z_u) + b).
    """

    weight: nn.Parameter
    self_weight: nn.Parameter | None

    def __init__(
        self,
        features: int,
        width: int,
        classes: int,
        fold_models: int,
        *,
        self_weight: bool,
        exclusive: bool = True,
    ) -> None:
        weight, own = (nn.Parameter(torch.zeros(features, fold_models * width)) for _ in range(2))
        matrices = {"weight": weight, "self_weight": own if self_weight else None}
        super().__init__(width, classes, fold_models, exclusive, **matrices)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of one fold model and copy them to all, so that their embeddings stay comparable."""
        matrices = [self.weight] if self.self_weight is None else [self.weight, self.self_weight]
        with torch.no_grad():
            for matrix in matrices:
                one = torch.empty(matrix.shape[0], self.width)
                nn.init.xavier_uniform_(one, generator=generator)
                matrix.copy_(one.repeat(1, self.fold_models))
            head = torch.empty(self.width, self.classes)
            nn.init.xavier_uniform_(head, generator=generator)
            self.head_weight.copy_(head.expand_as(self.head_weight))

    def project_own(
        self, features: Features, fold_models: slice = slice(None)
    ) -> Float[Tensor, "nodes fold_models width"]:
        """Return the projection of each node for its own embedding, before bias and nonlinearity."""
        return self._project(
            features, self.weight if self.self_weight is None else self.self_weight, fold_models
        )

    def project_message(
        self, features: Features, fold_models: slice = slice(None)
    ) -> Float[Tensor, "nodes fold_models width"]:
        """Return the message of each node to its neighbours, before bias and nonlinearity."""
        return self._project(features, self.weight, fold_models)

    def _project(self, features: Features, weight: Tensor, fold_models: slice) -> Tensor:
        picked = range(self.fold_models)[fold_models]
        if len(picked) < self.fold_models:
            weight = weight[:, picked[0] * self.width : (picked[-1] + 1) * self.width]
        return project(features, weight).unflatten(1, (len(picked), self.width))

    def embed(
        self,
        own: Float[Tensor, "n *fold_models width"],
        total: Float[Tensor, "n *fold_models width"],
        weight: Float[Tensor, "n"],
        bias: Float[Tensor, "*any width"],
    ) -> Float[Tensor, "n *fold_models width"]:
        """Return h from a node's own row, the sum of its neighbours' messages, and their total weight."""
        weight = weight.reshape(-1, *[1] * (own.dim() - 1))
        if self.self_weight is None:
            return torch.relu_((own + total).div_(1.0 + weight).add_(bias))
        return torch.relu_((total / weight.clamp(min=1e-6)).add_(own).add_(bias))


class HopwiseNetwork(FoldModels):
    """An ensemble of hop-wise networks of the same shape; embeddings are those of the first.

    h = relu(sum over r of R_r W_r + b), where R_0 are the node's features, R_1 their mean over the node and its
    selected neighbours, and R_2 the mean of those neighbours' messages.
    """

    weight: nn.Parameter

    def __init__(
        self, features: int, width: int, classes: int, fold_models: int, hops: int, *, exclusive: bool = True
    ) -> None:
        weight = nn.Parameter(torch.zeros(hops, features, fold_models * width))
        super().__init__(width, classes, fold_models, exclusive, weight=weight)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of each fold model separately; its hops share one fan-in."""
        hops, features, _ = self.weight.shape
        with torch.no_grad():
            for fold_model in range(self.fold_models):
                one = torch.empty(hops * features, self.width)
                nn.init.xavier_uniform_(one, generator=generator)
                columns = slice(fold_model * self.width, (fold_model + 1) * self.width)
                self.weight[:, :, columns] = one.view(hops, features, self.width)
                nn.init.xavier_uniform_(self.head_weight[fold_model], generator=generator)

    def embed(self, hops: Sequence[Features]) -> Float[Tensor, "nodes fold_models width"]:
        """Return h of every fold model; one table may hold all hops side by side."""
        weights = self.weight if len(hops) > 1 else self.weight.flatten(0, 1)[None]
        parts = (project(rows, weight) for rows, weight in zip(hops, weights, strict=True))
        hidden = reduce(torch.add, parts).unflatten(1, (self.fold_models, self.width))
        return torch.relu(hidden + self.bias)
