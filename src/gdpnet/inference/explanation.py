"""Explanations: the prediction of one node, its neighbours, and what each of them contributed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from gdpnet.errors import ConfigError
from gdpnet.inference.ensemble import HEAD_NAMES

_MOST_ROWS = 40
"""Neighbours that the text of an explanation lists; all of them are in its decisions."""


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
    """Change of the explained probability as this neighbour is added to those before it."""
    weight: float | None = None
    """Weight of the edge, if the graph is weighted."""
    keep_by_node: float = 1.0
    """The keep probability as the node decides."""
    keep_by_neighbour: float | None = None
    """The keep probability as the neighbour decides on the reverse edge, if there is one."""
    share: float = 1.0
    """How much the neighbour counts in the means of the aggregator and the hop-wise head, from 0 to 1."""
    label: str | None = None
    """Known class of the neighbour."""
    predicted: str = ""
    """Predicted class of the neighbour."""
    common_neighbours: int = 0
    cosine: float = 0.0
    """Cosine similarity of the features of node and neighbour."""
    agreement: float = 0.0
    """Probability that classes drawn from both predictions are the same."""

    @property
    def evidence(self) -> str:
        """Return what node and neighbour have in common, in words."""
        shared = _count(self.common_neighbours, "common neighbour")
        return f"{shared}, feature cosine {self.cosine:.2f}, classes agree {self.agreement:.2f}"


@dataclass(frozen=True)
class Head:
    """One head of the ensemble: its weight, and what it says about the node."""

    name: str
    weight: float
    probability: float
    """Probability of the explained class by this head."""
    predicted: str

    def __str__(self) -> str:
        return f"{HEAD_NAMES[self.name]} {self.weight:.2f} x {self.probability:.3f}"


@dataclass(frozen=True)
class Explanation:
    """The prediction of one node and the decisions behind it.

    ``probability`` is ``probability_alone`` plus the contributions of all decisions.
    """

    node: str
    predicted: str
    """The class; without labels the likeliest community, of the node (clusters) or its partners (links)."""
    probability: float
    """Probability of the explained class by the whole ensemble, as `predict_proba` returns it."""
    probability_alone: float
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
    """Known class of the node."""
    heads: tuple[Head, ...] = ()
    threshold: float = 0.0
    """Smallest keep probability of an edge that `denoise` keeps."""
    task: str = "classification"

    @property
    def summary(self) -> list[str]:
        """Return sentences: what is predicted, what its probability is made of, and what the cleaned graph keeps."""
        said = {
            "links": "neighbours predicted to be in community",
            "clusters": f"in cluster '{self.cluster}', predicted community",
        }.get(self.task, "predicted")
        which = "" if self.explained == self.predicted else f", '{self.explained}'"
        known = "" if self.label is None else f" (label '{self.label}')"
        total, others = (
            sum(one.contribution for one in self.decisions),
            _count(len(self.decisions), "neighbour"),
        )
        edges = sum(one.distance == 1 for one in self.decisions)
        kept = sum(one.kept for one in self.decisions)
        lines = [
            f"node {self.node}: {said} '{self.predicted}'{which} with probability {self.probability:.3f}{known}",
            f"{self.probability:.3f} = {self.probability_alone:.3f} alone {total:+z.3f} from {others}",
            f"{self.probability:.3f} = " + " + ".join(str(head) for head in self.heads),
            f"denoise keeps {kept:,} of {_count(edges, 'edge')} (threshold {self.threshold:g})",
        ]
        return lines + (
            ["the greedy episode ended before all neighbours were reached"] if self.ended_early else []
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of the decisions as text; distances and weights only if they say anything."""
        far = any(one.distance > 1 for one in self.decisions)
        weighted = any(one.weight is not None for one in self.decisions)
        header = ["neighbour", *(["hops"] if far else []), *(["weight"] if weighted else [])]
        header += ["step", "keep", "edge", "adds", "label", "predicted", "evidence"]
        rows = []
        for one in self.decisions:
            action = "-" if one.distance > 1 else ("kept" if one.kept else "dropped")
            row = [one.neighbour, *([str(one.distance)] if far else [])]
            row += [f"{one.weight:g}"] if weighted else []
            row += ["-" if one.step is None else str(one.step), f"{one.keep_probability:.3f}", action]
            rows.append([*row, f"{one.contribution:+z.3f}", one.label or "-", one.predicted, one.evidence])
        return header, rows

    def __str__(self) -> str:
        """Return the summary and a table of the neighbours."""
        header, rows = self.table()
        rows, more = rows[:_MOST_ROWS], len(rows) - _MOST_ROWS
        width = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, width, strict=True)).rstrip()
            for row in [header, *rows]
        ]
        rest = [f"and {more:,} neighbours more"] if more > 0 else []
        return "\n".join([*self.summary, *(lines if rows else []), *rest])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; each decision also has its evidence in words."""
        decisions = [asdict(one) | {"evidence": one.evidence} for one in self.decisions]
        return asdict(self) | {"decisions": decisions}

    def to_pandas(self) -> Any:
        """Return a data frame with one row per neighbour."""
        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError as error:
            raise ConfigError("to_pandas needs pandas: pip install pandas, or use to_dict") from error
        return pandas.DataFrame(self.to_dict()["decisions"])


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
