"""The threshold of the cleaned graph, the reason for it, and the edge weights that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.config import METRICS

KEEP_ALL = 0.0
"""The threshold that keeps every edge, each with weight one."""


@dataclass(frozen=True)
class Choice:
    """The chosen threshold, and the validation score of every candidate, if there was a choice."""

    threshold: float
    scores: tuple[tuple[float, float], ...] = ()
    metric: str = "micro_f1"
    """What the scores are; of all of them larger is better."""

    @property
    def reason(self) -> str:
        """Return one sentence that says what was chosen and why."""
        if not self.scores and self.threshold == KEEP_ALL:
            return "everything is kept: the model was trained without selection"
        if not self.scores:
            return f"threshold {self.threshold:g}: there was no validation node to choose it on"
        scores = dict(self.scores)
        best, everything = scores[self.threshold], scores[KEEP_ALL]
        name = "negative log loss" if self.metric == "log_loss" else METRICS.get(self.metric, self.metric)
        if self.threshold == KEEP_ALL:
            return (
                f"everything is kept: no threshold did clearly better on validation ({name} {everything:.3f})"
            )
        return (
            f"threshold {self.threshold:g}: validation {name} of a plain two-hop classifier is {best:.3f} there and "
            f"{everything:.3f} with everything kept"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        scores = [list(pair) for pair in self.scores]
        return {"threshold": self.threshold, "scores": scores, "metric": self.metric}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Choice:
        """Build a choice from the values of `to_dict`."""
        scores = tuple((float(a), float(b)) for a, b in values["scores"])
        return cls(float(values["threshold"]), scores, values.get("metric", "micro_f1"))


def edge_weights(probability: Float[Tensor, "edges"], threshold: float) -> Float[Tensor, "edges"]:
    """Return the edge weights of the cleaned graph: zero below the threshold, the probability above."""
    if threshold == KEEP_ALL:
        return torch.ones_like(probability)
    return torch.where(probability >= threshold, probability, 0.0)
