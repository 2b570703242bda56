"""The body of a question: nodes with features, edges, and targets, under the names of GraphStorm's payload.

Lists are checked up to their first mistake (`fail_fast`): a body must not make an error of each of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WrapValidator
from pydantic_core import PydanticCustomError

Id = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^[^\x00]*$")] | int
"""Ids are text; whole numbers stand for their digits. NUL at its end is what an array of texts does not keep."""

BAD_CELL = "bad_cell"
"""The type of the error of a value by column name, which has the column."""

Cell = float | bool | str | None


def _checked(given: Any, handler: Callable[[Any], Any]) -> Any:
    """Check features up to the first mistake; pydantic would make several errors of each value by name."""
    if isinstance(given, dict):
        return {name: _cell(name, value) for name, value in given.items()}
    return handler(given)


def _cell(name: str, value: Any) -> Cell | list[float]:
    if value is None or isinstance(value, str | bool):
        return value
    try:
        return [_number(one) for one in value] if isinstance(value, list) else _number(value)
    except ValueError as error:
        raise PydanticCustomError(BAD_CELL, "it is no value of a column", {"column": name}) from error


def _number(value: Any) -> float:
    """Return a number in double precision."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError as error:
            raise ValueError from error
        if isfinite(number):
            return number
    raise ValueError


Features = Annotated[
    Annotated[list[float], Field(fail_fast=True)] | dict[str, Cell | list[float]], WrapValidator(_checked)
]

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Node(BaseModel):
    """A node that the stored graph does not have."""

    model_config = _STRICT
    node_id: Id
    features: Features = Field(
        default_factory=list,
        description="All feature columns in order, or values by column name, as a table of nodes has them.",
    )
    node_type: str | None = Field(None, description="Accepted and not used: nodes are of one type.")


class Edge(BaseModel):
    """An edge between two new nodes, a new and a stored one, or two stored ones."""

    model_config = _STRICT
    src_node_id: Id
    dest_node_id: Id
    weight: float | None = Field(None, gt=0, description="Needed if the stored graph has edge weights.")
    features: Features = Field(default_factory=list, description="Needed if the model reads edge features.")
    edge_type: Any = Field(None, description="Accepted and not used: edges are of one type.")


class Target(BaseModel):
    """A node to answer for."""

    model_config = _STRICT
    node_id: Id
    node_type: str | None = None


class Added(BaseModel):
    """Nodes and edges, as GraphStorm nests them."""

    model_config = _STRICT
    nodes: list[Node] = Field(default_factory=list, fail_fast=True)
    edges: list[Edge] = Field(default_factory=list, fail_fast=True)


class Question(BaseModel):
    """New nodes, edges, and the nodes to answer for: new ones or stored ones.

    If no edge and no target names a stored node, the request is a graph of its own.
    """

    model_config = ConfigDict(
        **_STRICT,
        json_schema_extra={
            "examples": [
                {
                    "request_uid": "42",
                    "nodes": [{"node_id": "new", "features": {"age": 31, "city": "Oslo"}}],
                    "edges": [{"src_node_id": "new", "dest_node_id": "7"}],
                    "targets": ["new"],
                }
            ]
        },
    )
    nodes: list[Node] = Field(default_factory=list, fail_fast=True)
    edges: list[Edge] = Field(default_factory=list, fail_fast=True)
    graph: Added | None = Field(None, description="Nodes and edges, in place of the two fields above.")
    targets: list[Target | Id] = Field(min_length=1, fail_fast=True)
    request_uid: str | None = Field(None, max_length=200, description="Returned with the answer.")
    version: str | None = Field(None, description="Accepted and not used.")
    gml_task: str | None = Field(None, description="Accepted and not used.")

    @property
    def all_nodes(self) -> list[Node]:
        """Return the new nodes, wherever they are given."""
        return self.nodes + (self.graph.nodes if self.graph else [])

    @property
    def all_edges(self) -> list[Edge]:
        """Return the edges, wherever they are given."""
        return self.edges + (self.graph.edges if self.graph else [])

    @property
    def target_ids(self) -> list[str]:
        """Return the ids of the targets as text."""
        return [str(one.node_id if isinstance(one, Target) else one) for one in self.targets]


class CleaningQuestion(Question):
    """A question about edges, with the smallest keep probability of a kept edge."""

    threshold: float | None = Field(None, ge=0, le=1, description="By default that of the model.")
