"""What a representation is for: its loss, and f_c, the score of a target under its beliefs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def classification_loss(
    logits: Float[Tensor, "n members classes"], label: Int[Tensor, "n"], learns: Bool[Tensor, "n members"]
) -> Float[Tensor, ""]:
    """Return the members' cross-entropies added up, each averaged over the nodes that it may learn from."""
    losses = F.cross_entropy(
        logits.flatten(0, 1), label.repeat_interleave(logits.shape[1]), reduction="none"
    ).unflatten(0, logits.shape[:2])
    return ((losses * learns).sum(dim=0) / learns.sum(dim=0).clamp(min=1)).sum()


def may_learn(left_out_by: Int[Tensor, "n"], members: int) -> Bool[Tensor, "n members"]:
    """Say which members may learn from each node: the first, and all others but the one that leaves it out."""
    member = torch.arange(members, device=left_out_by.device)
    return (member == 0) | (member != left_out_by[:, None])


def hit_or_probability(
    beliefs: Float[Tensor, "n classes"], label: Int[Tensor, "n"], kind: str
) -> Float[Tensor, "n"]:
    """Return f_c of each target: its own micro-F1 (hit, 0 or 1), or the probability of its true class."""
    if kind == "hit":
        return (beliefs.argmax(dim=1) == label).to(beliefs.dtype)
    return torch.gather(beliefs, 1, label[:, None])[:, 0]


def micro_f1(predicted: Int[Tensor, "n"], label: Int[Tensor, "n"]) -> float:
    """Return micro-averaged F1, which for one label a node is the share of hits."""
    return float((predicted == label).double().mean()) if label.numel() else float("nan")
