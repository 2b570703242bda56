"""Passes of the heads that read more than one hop: one per layer, each over the messages of the layer before."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import offsets_of, owners_of
from gdpnet.data.sums_in_parts import add_in_parts
from gdpnet.inference.passes.job import Job, Output
from gdpnet.inference.passes.nodes import both_ways, links_of, project_features, row_sums
from gdpnet.inference.threshold import edge_weights
from gdpnet.representation.all_edges import AllEdgesNetwork, SharedNetwork
from gdpnet.representation.gcn import GCN

Head = GCN | AllEdgesNetwork | SharedNetwork


def heads_of(job: Job) -> dict[str, Head]:
    """Return the heads that have a part in predictions and read more than one hop, by their names."""
    networks, weights = job.model.networks, job.model.weights
    found: dict[str, Head | None] = {"gcn": networks.gcn, "all_edges": networks.all_edges}
    return {name: head for name, head in found.items() if head is not None and getattr(weights, name) > 0}


def layers_of(head: Head) -> int:
    """Return how often a head adds up messages of neighbours."""
    return 2 if isinstance(head, AllEdgesNetwork) else len(head.biases)


def start_heads(job: Job, number: int, out: Output) -> None:
    """Write the weights that each head gives a block's edges, and the first messages of its nodes."""
    for name, head in heads_of(job).items():
        bounds, _, weight = links_of(job, number)
        if name == "gcn":  # it reads the cleaned graph
            share = edge_weights(both_ways(job, "decision", number), job.model.threshold.threshold)
            weight = share * weight if job.source.has("edge_weight") else share
        out.save(f"{name}_weight", weight)
        out.save(f"{name}_scale", (1.0 + row_sums(weight, bounds)).rsqrt())
        message = project_features(job, number, head.weight)
        if isinstance(head, AllEdgesNetwork):
            own, message = message.chunk(2, dim=1)
            out.save(f"{name}_own_0", own)
        out.save(f"{name}_0", message)


def run_layer(job: Job, number: int, out: Output, layer: int) -> None:
    """Write the messages after a layer, or the class probabilities after the last one."""
    for name, head in heads_of(job).items():
        if layer >= layers_of(head):
            continue
        found = _spread(job, number, name, layer).to(job.model.device)
        if isinstance(head, AllEdgesNetwork):
            own = job.files.block(f"{name}_own_{layer}", number).to(found)
            if layer == 0:
                own, message = _mixed(head, head.hidden(own + found))
                out.save(f"{name}_own_1", own)
                out.save(f"{name}_1", message)
            else:
                scores = (own + found).unflatten(1, (head.fold_models, head.classes)) + head.head_bias
                out.save(name, head.to_probabilities(scores, dim=2).mean(dim=1))
            continue
        scores = found + head.biases[layer]
        if layer + 1 < layers_of(head):
            out.save(f"{name}_{layer + 1}", head.next_message(layer, scores))
        else:
            out.save(name, head.normalised(scores))


def _mixed(
    head: AllEdgesNetwork, hidden: Float[Tensor, "nodes fold_models width"]
) -> tuple[Float[Tensor, "nodes scores"], Float[Tensor, "nodes scores"]]:
    """Return the scores that nodes give themselves and those that they give their neighbours."""
    both = torch.cat([head.head_weight, head.next_weight], dim=2)
    mixed = (hidden.flatten(1) @ torch.block_diag(*both)).unflatten(1, (head.fold_models, -1))
    own, around = mixed.split(head.classes, dim=2)
    return own.flatten(1), around.flatten(1)


def _spread(job: Job, number: int, name: str, layer: int) -> Float[Tensor, "nodes width"]:
    """Return the normalised sum of every node's own message and its neighbours'."""
    files, (bounds, neighbour, _) = job.files, links_of(job, number)
    weight, scale = files.block(f"{name}_weight", number), files.block(f"{name}_scale", number)
    kept, owner = weight != 0.0, owners_of(bounds.diff())
    owner, neighbour = owner[kept], neighbour[kept]
    around, place = torch.unique(neighbour, return_inverse=True)
    value = weight[kept] * scale[owner] * files.dense_rows(f"{name}_scale", around)[place]
    offsets, own = (
        offsets_of(torch.bincount(owner, minlength=scale.numel())),
        files.block(f"{name}_{layer}", number),
    )
    rows = (lambda nodes: files.dense_rows(f"{name}_{layer}", nodes), own.shape[1])
    return torch.addcmul(add_in_parts(offsets, neighbour, value, *rows), scale.square()[:, None], own)
