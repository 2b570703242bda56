"""Embeddings of the tasks that read no label: features propagated over weighted edges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.config import Config, PropagationSettings
from gdpnet.data.edge_weight import mutual_weights
from gdpnet.data.features import Features, normalise, on_device
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared
from gdpnet.representation.infomax import Encoder
from gdpnet.representation.propagation import LinkPredictor, Propagation


@dataclass(frozen=True)
class LinkGraph:
    """A graph on a device, as the link predictor reads it."""

    features: Features
    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    link: Int[Tensor, "edges"]
    """The number of each edge's undirected link, the same for both directions."""
    ends: Int[Tensor, "2 links"]
    weight: Float[Tensor, "edges"]
    settings: PropagationSettings

    @property
    def link_weight(self) -> Float[Tensor, "links"]:
        """Return the weight of each link, once."""
        return torch.zeros(self.ends.shape[1], device=self.weight.device).index_copy(
            0, self.link, self.weight
        )

    def propagation(self, weight: Float[Tensor, "edges"] | None = None) -> Propagation:
        """Return the propagation over the edges, with their own weights by default."""
        return Propagation.over(
            self.row_ptr, self.neighbour, self.weight if weight is None else weight, self.settings
        )


@torch.no_grad()
def embed_links(
    link_predictor: LinkPredictor, graph: Graph, weight: Float[Tensor, "edges"], config: Config
) -> Float[Tensor, "nodes width"]:
    """Return the embeddings of all nodes; ``weight`` as in `make_link_graph`."""
    link_graph = make_link_graph(graph, weight, config, link_predictor.weight.device)
    return link_predictor.embed(link_graph.features, link_graph.propagation())


def make_link_graph(
    graph: Graph, weight: Float[Tensor, "edges"], config: Config, device: torch.device
) -> LinkGraph:
    """Bring a graph to a device; ``weight`` is the share of each edge's own weight that is kept."""
    once = graph.neighbour < graph.target
    number = torch.cumsum(once.long(), dim=0) - 1
    link = torch.where(once, number, number[graph.reverse])
    ends = torch.stack([graph.neighbour[once], graph.target[once]])
    features = on_device(normalise(graph.features, "l2"), device)
    return LinkGraph(
        features,
        graph.row_ptr.to(device),
        graph.neighbour.to(device),
        link.to(device),
        ends.to(device),
        weight.to(device) * mutual_weights(graph).to(device),
        config.propagation,
    )


def propagation_over(
    prepared: Prepared, weight: Float[Tensor, "edges"], settings: PropagationSettings
) -> Propagation:
    """Return the propagation over the weighted edges of a prepared graph."""
    return Propagation.over(prepared.row_ptr, prepared.neighbour, prepared.weighed(weight), settings)


def propagated_features(
    prepared: Prepared,
    weight: Float[Tensor, "edges"],
    settings: PropagationSettings,
    encoder: Encoder | None = None,
) -> Float[Tensor, "nodes width"]:
    """Return features propagated over weighted edges, or an encoder's embeddings, as unit-length rows."""
    assert isinstance(prepared.features, Tensor)
    propagation = propagation_over(prepared, weight, settings)
    if encoder is not None:
        return encoder.embed(prepared.features, propagation)
    return F.normalize(propagation(prepared.features), dim=1)
