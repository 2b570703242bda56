"""A network over all edges of the graph as it is, with one network per fold.

No decision has a part in it. So it can be cross-fitted: its predictions of training nodes by the fold models that
left them out are out-of-sample, and no edge that the policy dropped by mistake is missing.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet.data.prepare import Prepared
from gdpnet.representation.aggregator import FoldModels
from gdpnet.representation.gcn import NormalisedAdjacency


class AllEdgesNetwork(FoldModels):
    """Two layers with separate weights for a node and for its neighbourhood, P the normalised adjacency.

    H = relu(X W_0 + P X W_1 + b), and scores = H V_0 + P H V_1 + c.
    """

    weight: nn.Parameter
    next_weight: nn.Parameter

    def __init__(
        self, features: int, width: int, classes: int, fold_models: int, *, exclusive: bool = True
    ) -> None:
        weight = nn.Parameter(torch.zeros(features, 2 * fold_models * width))
        around = nn.Parameter(torch.zeros(fold_models, width, classes))
        super().__init__(width, classes, fold_models, exclusive, weight=weight, next_weight=around)

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """Return the weights of each layer; features times the first ones are the messages."""
        return self.weight, self.next_weight

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of each fold model separately; a node and its neighbourhood share one fan-in."""
        features, width = self.weight.shape[0], self.width
        with torch.no_grad():
            for fold_model in range(self.fold_models):
                both = torch.empty(2 * features, width)
                nn.init.xavier_uniform_(both, generator=generator)
                for place, part in enumerate(both.split(features)):
                    first = (place * self.fold_models + fold_model) * width
                    self.weight[:, first : first + width] = part
                for layer in (self.head_weight, self.next_weight):
                    nn.init.xavier_uniform_(layer[fold_model], generator=generator)

    def hidden(self, mixed: Float[Tensor, "nodes columns"]) -> Float[Tensor, "nodes fold_models width"]:
        """Return H from X W_0 + P X W_1."""
        return torch.relu(mixed.unflatten(1, (self.fold_models, self.width)) + self.bias)

    def embed(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes fold_models width"]:
        """Return H from the messages X (W_0, W_1)."""
        own, around = message.chunk(2, dim=1)
        return self.hidden(own + adjacency(around.contiguous()))

    def scores(
        self, hidden: Float[Tensor, "nodes fold_models width"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes fold_models classes"]:
        """Return the class scores of each fold model; a block-diagonal product is faster than one per fold model."""
        both = torch.cat([self.head_weight, self.next_weight], dim=2)
        mixed = (hidden.flatten(1) @ torch.block_diag(*both)).unflatten(1, (self.fold_models, -1))
        own, around = mixed.split(self.classes, dim=2)
        return own + adjacency(around.flatten(1)).unflatten(1, around.shape[1:]) + self.head_bias

    def fold_probabilities_of(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes fold_models classes"]:
        """Return the class probabilities of each fold model from the messages."""
        return self.to_probabilities(self.scores(self.embed(message, adjacency), adjacency), dim=2)

    def from_messages(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes classes"]:
        """Return the mean of the fold models' class probabilities."""
        return self.fold_probabilities_of(message, adjacency).mean(dim=1)


class SharedNetwork(FoldModels):
    """Graph convolutions with one matrix for a node and its neighbourhood, for bags of words.

    H = relu(P X W + b), and scores = P P H V + c: propagating scores costs little, and reaches three hops. It is a
    GCN without a matrix between the last two layers, and has what `gdpnet.inference.gcn_states` asks of one.
    """

    weight: nn.Parameter

    def __init__(
        self, features: int, width: int, classes: int, fold_models: int, *, exclusive: bool = True
    ) -> None:
        weight = nn.Parameter(torch.zeros(features, fold_models * width))
        super().__init__(width, classes, fold_models, exclusive, weight=weight)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of each fold model separately."""
        with torch.no_grad():
            for one, head in zip(self.weight.split(self.width, dim=1), self.head_weight, strict=True):
                one.copy_(nn.init.xavier_uniform_(torch.empty(one.shape), generator=generator))
                nn.init.xavier_uniform_(head, generator=generator)

    @property
    def biases(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return what each layer adds to its sums."""
        return self.bias.flatten(), torch.zeros_like(self.head_bias).flatten(), self.head_bias.flatten()

    def next_message(self, layer: int, added: Float[Tensor, "n _"]) -> Float[Tensor, "n _"]:
        """Return what the next layer adds up, from the sums of a layer."""
        return torch.relu(added) @ torch.block_diag(*self.head_weight) if layer == 0 else added

    def embed(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes fold_models width"]:
        """Return H from the messages X W."""
        return torch.relu(adjacency(message) + self.biases[0]).unflatten(1, (self.fold_models, self.width))

    def scores(
        self, hidden: Float[Tensor, "nodes fold_models width"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes fold_models classes"]:
        """Return the class scores of each fold model."""
        around = adjacency(adjacency(hidden.flatten(1) @ torch.block_diag(*self.head_weight)))
        return around.unflatten(1, (self.fold_models, self.classes)) + self.head_bias

    def layers(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> tuple[list[Float[Tensor, "nodes _"]], Float[Tensor, "nodes scores"]]:
        """Return the messages that every layer adds up, the first as given, and the scores of all fold models."""
        messages, scores = [message], adjacency(message) + self.biases[0]
        for layer, bias in enumerate(self.biases[1:]):
            messages.append(self.next_message(layer, scores))
            scores = adjacency(messages[-1]) + bias
        return messages, scores

    def normalised(self, scores: Float[Tensor, "n scores"]) -> Float[Tensor, "n classes"]:
        """Return the mean of the fold models' class probabilities."""
        return self.to_probabilities(scores.unflatten(1, (self.fold_models, -1)), dim=2).mean(dim=1)

    def fold_probabilities_of(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes fold_models classes"]:
        """Return the class probabilities of each fold model from the messages."""
        return self.to_probabilities(self.scores(self.embed(message, adjacency), adjacency), dim=2)

    def from_messages(
        self, message: Float[Tensor, "nodes columns"], adjacency: NormalisedAdjacency
    ) -> Float[Tensor, "nodes classes"]:
        """Return the mean of the fold models' class probabilities."""
        return self.fold_probabilities_of(message, adjacency).mean(dim=1)


def adjacency_of(prepared: Prepared) -> NormalisedAdjacency:
    """Return the adjacency matrix of a graph with all its edges, normalised."""
    weight = prepared.weighed(prepared.linked)
    return NormalisedAdjacency.of(prepared.row_ptr, prepared.neighbour, weight)
