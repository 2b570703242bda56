"""ROC AUC, computed where the scores are, without waiting for the device."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def roc_auc(positive: Bool[Tensor, "n"], score: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    """Return the share of pairs of a positive and a negative in which the positive has the higher score.

    Equal scores count one half. Pairs are counted as integers, so the result is exact up to one division; it is NaN
    if all are of one kind.
    """
    score, order = score.sort()
    positive = positive[order].long()
    negatives_before = torch.cumsum(1 - positive, dim=0).roll(
        1
    )  # the last, which comes first, is all of them
    negatives = negatives_before[:1].clone()
    negatives_before[:1] = 0
    bounds = torch.cat([negatives_before, negatives])
    lower, upper = (bounds[torch.searchsorted(score, score, right=right)] for right in (False, True))
    halves = ((lower + upper) * positive).sum()
    return halves.double() / (2.0 * positive.sum().double() * negatives[0].double())
