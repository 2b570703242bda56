"""The threshold of the cleaned graph, the reason for it, and the edge weights that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

KEEP_ALL = 0.0
"""The threshold that keeps every edge, each with weight one."""


@dataclass(frozen=True)
class Choice:
    """The chosen threshold, and the validation F1 of every candidate, if there was a choice."""

    threshold: float
    scores: tuple[tuple[float, float], ...] = ()

    @property
    def reason(self) -> str:
        """Return one sentence that says what was chosen and why."""
        if not self.scores and self.threshold == KEEP_ALL:
            return "everything is kept: the model was trained without selection"
        if not self.scores:
            return f"threshold {self.threshold:g}: there was no validation node to choose it on"
        scores = dict(self.scores)
        best, everything = scores[self.threshold], scores[KEEP_ALL]
        if self.threshold == KEEP_ALL:
            return f"everything is kept: no threshold did clearly better on validation (F1 {everything:.3f})"
        return (
            f"threshold {self.threshold:g}: validation F1 of a plain two-hop classifier is {best:.3f} there and "
            f"{everything:.3f} with everything kept"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"threshold": self.threshold, "scores": [list(pair) for pair in self.scores]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Choice:
        """Build a choice from the values of `to_dict`."""
        return cls(float(values["threshold"]), tuple((float(a), float(b)) for a, b in values["scores"]))


def edge_weights(probability: Float[Tensor, "edges"], threshold: float) -> Float[Tensor, "edges"]:
    """Return the edge weights of the cleaned graph: zero below the threshold, the probability above."""
    if threshold == KEEP_ALL:
        return torch.ones_like(probability)
    return torch.where(probability >= threshold, probability, 0.0)
