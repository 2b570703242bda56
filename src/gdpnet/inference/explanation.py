"""Explanations: the prediction of one node, its neighbours, and what each of them contributed."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

from gdpnet.data.edge_features import MISSING
from gdpnet.errors import ConfigError
from gdpnet.inference.ensemble import HEAD_NAMES
from gdpnet.inference.notebook import chance_text, explanation_html

MOST_ROWS = 40
"""Neighbours that the text of an explanation lists, those of the largest contributions; all are in its decisions."""

_MOST_EDGE_WORDS = 6
"""Edge features that the evidence names."""

_AGREEMENT = {
    "multi-label": "expected common labels",
    "regression": "same bin",
    "links": "communities agree",
    "clusters": "communities agree",
}
"""What the agreement of two predictions is called, by task; classes agree otherwise."""


@dataclass(frozen=True)
class Decision:
    """One neighbour: the decisions on its edge, its contribution to the prediction, and what speaks for it."""

    step: int | None
    """Position in the node's greedy episode, from 1; None if the episode ended before or there is no policy."""
    neighbour: str
    distance: int
    """Hops from the node; one for a direct neighbour."""
    draw_probability: float | None
    """Probability with which the greedy episode drew the neighbour at its step."""
    keep_probability: float
    """That of the edge in `denoise`: the mean of both directions."""
    kept: bool
    """Whether the edge is in the graph that `denoise` returns at the model's own threshold."""
    contribution: float
    """Change of the explained probability, or of the number, as this neighbour is added to those before it."""
    weight: float | None = None
    """Weight of the edge, if the graph is weighted."""
    keep_by_node: float = 1.0
    """The keep probability as the node decides."""
    keep_by_neighbour: float | None = None
    """The keep probability as the neighbour decides on the reverse edge, if there is one."""
    share: float = 1.0
    """How much the neighbour counts in the means of the aggregator and the hop-wise head, from 0 to 1."""
    label: str | None = None
    """Known class, or number, of the neighbour."""
    predicted: str = ""
    """Predicted class, labels or number of the neighbour."""
    common_neighbours: int = 0
    cosine: float = 0.0
    """Cosine similarity of the features of node and neighbour."""
    agreement: float = 0.0
    """Probability that classes (or bins, for regression) drawn from both predictions are the same.

    With several labels per node, the number of labels that both are expected to have.
    """
    edge_features: dict[str, float] | None = None
    """Features of the edge, if the model was trained with them."""
    genuine_probability: float | None = None
    """The probability that the edge is genuine; None for candidates beyond neighbours, or without evidence of it."""
    task: str = "classification"

    @property
    def evidence(self) -> str:
        """Return what node and neighbour have in common, in words."""
        shared = _count(self.common_neighbours, "common neighbour")
        agree = agreement_name(self.task)
        parts = [shared, f"feature cosine {self.cosine:.2f}", f"{agree} {self.agreement:.2f}"]
        return ", ".join(parts + _edge_words(self.edge_features or {}))


@dataclass(frozen=True)
class Head:
    """One head of the ensemble: its weight, and what it says about the node."""

    name: str
    weight: float
    probability: float | None
    """Probability of the explained class by this head; None for regression."""
    predicted: str
    prediction: float | None = None
    """The number that this head predicts, for regression."""

    @property
    def value(self) -> float:
        """Return the probability, or the predicted number."""
        return _either(self.probability, self.prediction)


@dataclass(frozen=True)
class Explanation:
    """The prediction of one node and the decisions behind it.

    ``probability`` is ``probability_alone`` plus the contributions of all decisions. For regression these two are
    None, and ``prediction`` is ``prediction_alone`` plus the contributions. ``value`` is the one that is there.
    """

    node: str
    predicted: str
    """The class, labels or number; without labels the likeliest community, of the node (clusters) or its partners
    (links)."""
    probability: float | None
    """Probability of the explained class by the whole ensemble, as `predict_proba` returns it."""
    probability_alone: float | None
    """The same if the node had no neighbours."""
    ended_early: bool
    """Whether the node's greedy episode ended before all neighbours were reached."""
    decisions: tuple[Decision, ...]
    """In the order of the greedy episode; then those that it did not reach, by node number."""
    cluster: str | None = None
    """The cluster that `predict` returns, for the task clusters; communities are numbered separately."""
    explained: str = ""
    """The class whose probability is explained: the predicted one, or the likeliest of several labels."""
    label: str | None = None
    """Known class, or number, of the node."""
    heads: tuple[Head, ...] = ()
    threshold: float = 0.0
    """Smallest keep probability of an edge that `denoise` keeps."""
    task: str = "classification"
    prediction: float | None = None
    """The number that `predict` returns, for regression."""
    prediction_alone: float | None = None
    """The same if the node had no neighbours."""

    @property
    def value(self) -> float:
        """Return what is explained: the probability, or the predicted number."""
        return _either(self.probability, self.prediction)

    @property
    def value_alone(self) -> float:
        """Return the same if the node had no neighbours."""
        return _either(self.probability_alone, self.prediction_alone)

    @property
    def summary(self) -> list[str]:
        """Return sentences: what is predicted, what it is made of, and what the cleaned graph keeps."""
        total = sum(one.contribution for one in self.decisions)
        edges = sum(one.distance == 1 for one in self.decisions)
        kept = sum(one.kept for one in self.decisions)
        parts = [
            f"{HEAD_NAMES[head.name]} {head.weight:.2f} x {self._text(head.value)}" for head in self.heads
        ]
        others = _count(len(self.decisions), "neighbour")
        lines = [
            f"node {self.node}: {self._prediction}{self._known}",
            f"{self._text(self.value)} = {self._text(self.value_alone)} alone {self._change(total)} from {others}",
            f"{self._text(self.value)} = " + " + ".join(parts),
            f"denoise keeps {kept:,} of {_count(edges, 'edge')} (threshold {self.threshold:g})",
        ]
        if not self.decisions:
            lines = [lines[0], lines[2], "the node has no neighbours: only its own features count"]
        return lines + (
            ["the greedy episode ended before all neighbours were reached"] if self.ended_early else []
        )

    @property
    def title(self) -> str:
        """Return what the table of the decisions shows."""
        what = f"the probability of '{self.explained}'"
        return f"neighbours, and what each adds to {'the prediction' if self.task == 'regression' else what}"

    @property
    def _prediction(self) -> str:
        """Return what is predicted, in words."""
        chance = self._text(self.value)
        if self.task == "regression":
            return f"predicted {chance}"
        if self.task == "multi-label" and self.explained != self.predicted:
            labels = f"'{self.predicted}'" if self.predicted else "no label"
            return f"predicted {labels}, the likeliest label is '{self.explained}' with probability {chance}"
        said = {
            "links": "neighbours predicted to be in community",
            "clusters": f"in cluster '{self.cluster}', predicted community",
        }.get(self.task, "predicted")
        return f"{said} '{self.predicted}' with probability {chance}"

    @property
    def _known(self) -> str:
        """Return the known class or number in brackets, if there is one."""
        if self.label is None:
            return ""
        return f" (label {self.label})" if self.task == "regression" else f" (label '{self.label}')"

    @property
    def _decimals(self) -> int:
        """Return how many decimals are shown: three, or so many that numbers have about five digits."""
        if self.task != "regression":
            return 3
        largest = max(abs(self.value), abs(self.value_alone), *(abs(one.value) for one in self.heads))
        return decimals_of(largest)

    def _text(self, value: float) -> str:
        return f"{value:z.{self._decimals}f}"

    def _change(self, value: float) -> str:
        return f"{value:+z.{self._decimals}f}"

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of the decisions as text, at most so many: those of the largest contributions.

        Distances, weights and steps are there only if they say anything.
        """
        shown = self._largest(most)
        far = any(one.distance > 1 for one in self.decisions)
        weighted = any(one.weight is not None for one in self.decisions)
        played = self.ended_early or any(one.step is not None for one in self.decisions)
        header = ["neighbour", *["hops"] * far, *["weight"] * weighted, *["step"] * played]
        known = any(one.genuine_probability is not None for one in self.decisions)
        header += ["keep", *["genuine"] * known, "edge", "adds", "label", "predicted", "evidence"]
        rows = []
        for one in shown:
            action = "-" if one.distance > 1 else ("kept" if one.kept else "dropped")
            row = [one.neighbour, *[str(one.distance)] * far]
            row += [f"{one.weight:g}"] if weighted else []
            row += ["-" if one.step is None else str(one.step)] * played
            genuine = one.genuine_probability
            row += [
                chance_text(one.keep_probability),
                *["-" if genuine is None else chance_text(genuine)] * known,
            ]
            row += [action, self._change(one.contribution)]
            rows.append([*row, one.label or "-", one.predicted or "-", one.evidence])
        return header, rows

    def rest(self, most: int) -> list[str]:
        """Return a sentence about the decisions that a table of so many rows leaves out, none if it has all."""
        more = len(self.decisions) - most
        if more <= 0:
            return []
        left = sum(one.contribution for one in self.decisions)
        left -= sum(one.contribution for one in self._largest(most))
        return [f"and {more:,} neighbours more, which add {self._change(left)} together"]

    def _largest(self, most: int | None) -> list[Decision]:
        """Return the decisions of the largest contributions, at most so many, in their order."""
        if most is None or len(self.decisions) <= most:
            return list(self.decisions)
        size = [-abs(one.contribution) for one in self.decisions]
        places = sorted(sorted(range(len(size)), key=size.__getitem__)[:most])
        return [self.decisions[place] for place in places]

    def __str__(self) -> str:
        """Return the summary and a table of the neighbours."""
        header, rows = self.table(MOST_ROWS)
        width = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, width, strict=True)).rstrip()
            for row in [header, *rows]
        ]
        return "\n".join([*self.summary, *(lines if rows else []), *self.rest(MOST_ROWS)])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return explanation_html(self, MOST_ROWS)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; each decision also has its evidence in words."""
        decisions = [asdict(one) | {"evidence": one.evidence} for one in self.decisions]
        for one in decisions:
            del one["task"]
        return asdict(replace(self, decisions=())) | {"decisions": decisions}

    def to_pandas(self) -> Any:
        """Return a data frame with one row per neighbour."""
        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError as error:
            raise ConfigError("to_pandas needs pandas: pip install pandas, or use to_dict") from error
        return pandas.DataFrame(self.to_dict()["decisions"])


def agreement_name(task: str) -> str:
    """Return what the agreement of two predictions is called."""
    return _AGREEMENT.get(task, "classes agree")


def _edge_words(features: dict[str, float]) -> list[str]:
    """Return the types of an edge and the numbers that describe it; of many, the first ones."""
    words = [
        name if "=" in name or name.endswith(MISSING) else f"{name} {value:.4g}"
        for name, value in features.items()
        if value or not ("=" in name or name.endswith(MISSING))
    ]
    more = len(words) - _MOST_EDGE_WORDS
    return words if more <= 0 else [*words[:_MOST_EDGE_WORDS], f"{more:,} more edge features"]


def decimals_of(number: float) -> int:
    """Return how many decimals show a number with five digits; large numbers are not cut."""
    return min(12, max(0, 4 - math.floor(math.log10(abs(number))))) if number else 0


def _either(probability: float | None, prediction: float | None) -> float:
    found = prediction if probability is None else probability
    return math.nan if found is None else found


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
