"""The threshold of the cleaned graph, the reason for it, and the edge weights that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.config import METRICS

KEEP_ALL = 0.0
"""The threshold that keeps every edge, each with weight one."""

TOO_SMALL_TO_WEIGH = 0.05
"""Below this threshold keep probabilities say which edges are better, not how much they count: all weigh one."""


@dataclass(frozen=True)
class Choice:
    """The chosen threshold, and the validation score of every candidate, if there was a choice."""

    threshold: float
    scores: tuple[tuple[float, float], ...] = ()
    metric: str = "micro_f1"
    """What the scores are; of all of them larger is better."""
    lowered_from: float | None = None
    """The threshold that would be used if it did not remove nearly every edge."""
    noise_share: float | None = None
    """The estimated share of noise in the graph, if that decided and not the validation scores."""
    spared: tuple[float, float] | None = None
    """The estimated shares of noise around validation nodes and around others, if noise spares the first."""

    @property
    def reason(self) -> str:
        """Return one sentence that says what was chosen and why."""
        if self.spared is None:
            return self._choice
        validation, others = self.spared
        return (
            f"{self._choice}; {validation:.0%} of the edges of validation nodes look like noise and {others:.0%} of "
            "the others, so validation scores hardly show its harm"
        )

    @property
    def _choice(self) -> str:
        if not self.scores and self.threshold == KEEP_ALL and self.lowered_from is None:
            return "everything is kept: the model was trained without selection"
        if not self.scores:
            said = f"threshold {self.threshold:g}: there was no validation node to choose it on"
            if self.lowered_from is None:
                return said
            return f"{said}, and {self.lowered_from:g} would remove nearly every edge (threshold.min_kept)"
        scores = dict(self.scores)
        best, everything = scores[self.threshold], scores[KEEP_ALL]
        name = "negative log loss" if self.metric == "log_loss" else METRICS.get(self.metric, self.metric)
        if self.threshold == KEEP_ALL:
            return (
                f"everything is kept: no threshold did clearly better on validation ({name} {everything:.3f})"
            )
        if self.noise_share is not None:
            return (
                f"threshold {self.threshold:g}: about {self.noise_share:.0%} of the edges look like noise, which "
                f"it removes best of those that do about as well on validation ({name} {best:.3f}; "
                f"{everything:.3f} with everything kept)"
            )
        return (
            f"threshold {self.threshold:g}: validation {name} of a plain two-hop classifier is {best:.3f} there and "
            f"{everything:.3f} with everything kept"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        scores = [list(pair) for pair in self.scores]
        found = {"threshold": self.threshold, "scores": scores, "metric": self.metric}
        spared = None if self.spared is None else list(self.spared)
        further = {"lowered_from": self.lowered_from, "noise_share": self.noise_share, "spared": spared}
        return found | {name: value for name, value in further.items() if value is not None}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Choice:
        """Build a choice from the values of `to_dict`."""
        scores = tuple((float(a), float(b)) for a, b in values["scores"])
        further = values.get("lowered_from"), values.get("noise_share")
        spared = (
            None if values.get("spared") is None else (float(values["spared"][0]), float(values["spared"][1]))
        )
        return cls(float(values["threshold"]), scores, values.get("metric", "micro_f1"), *further, spared)


def edge_weights(probability: Float[Tensor, "edges"], threshold: float) -> Float[Tensor, "edges"]:
    """Return the edge weights of the cleaned graph: zero below the threshold, the probability above.

    Above a threshold that is `TOO_SMALL_TO_WEIGH`, each edge weighs one.
    """
    kept = probability >= threshold
    return kept.to(probability) if threshold < TOO_SMALL_TO_WEIGH else torch.where(kept, probability, 0.0)


def share_kept(probability: Float[Tensor, "edges"], threshold: float) -> float:
    """Return the share of some edges that a threshold keeps; one if there are none."""
    return float((probability >= threshold).double().mean()) if probability.numel() else 1.0


def threshold_of_share(probability: Float[Tensor, "edges"], share: float) -> float:
    """Return the largest threshold that keeps at least a share of some edges; of equal ones it keeps all."""
    if probability.numel() == 0:
        return KEEP_ALL
    kept = max(1, math.ceil(share * probability.numel() - 1e-9))
    return float(probability.kthvalue(probability.numel() - kept + 1).values)


def guarded(probability: Float[Tensor, "edges"], threshold: float, least: float) -> Choice:
    """Return a threshold that was not chosen on validation nodes, lowered if it keeps less than a share of edges."""
    if share_kept(probability, threshold) >= least:
        return Choice(threshold)
    return Choice(threshold_of_share(probability, least), lowered_from=threshold)


def cleaning_sentence(kept: int, edges: int, reason: str, least: float) -> str:
    """Return one sentence about a cleaned graph: how many edges are kept, why, and whether these are too few."""
    share = kept / edges if edges else 1.0
    said = f"{kept:,} of {edges:,} directed edges are kept ({share:.1%}); {reason}"
    if share >= least:
        return said
    return f"{said}; this is less than {least:.0%} of them (threshold.min_kept): set a lower threshold to keep more"
