"""The OpenAPI description: the bodies that are read and the answers, which the routes themselves do not check.

The models below describe and do nothing else: answers are made without them.
"""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from gdpnet.web.server.payload import CleaningQuestion, Question
from gdpnet.web.server.problems import MEDIA_TYPE

_REF = "#/components/schemas/"
_EVERY = (401, 403, 421, 500)
_ASKED = (400, 408, 413, 415, 422, 429, 503)


class BrokenRule(BaseModel):
    """A field of a request, and the rule that it breaks."""

    field: str
    rule: str


class Problem(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[BrokenRule] = Field(
        default_factory=list, description="Left out if no part of the request is wrong."
    )


class Prediction(BaseModel):
    """The class or labels of a target, or its number."""

    node_id: str
    predicted: str | None = Field(None, description="For classes and labels.")
    probabilities: dict[str, float] | None = Field(None, description="By class, for classes and labels.")
    prediction: float | None = Field(None, description="For regression, with the interval low to high.")
    low: float | None = None
    high: float | None = None


class Embedding(BaseModel):
    """The embedding of a target."""

    node_id: str
    embedding: list[float]


class CleanedEdge(BaseModel):
    """A decision on an edge of a target."""

    src_node_id: str
    dest_node_id: str
    keep_probability: float
    kept: bool
    genuine_probability: float | None = Field(None, description="If the model has such a head.")


class Cleaning(BaseModel):
    """The decisions on all edges of a target."""

    node_id: str
    threshold: float
    reason: str
    edges: list[CleanedEdge]


class Explanation(BaseModel):
    """Why a target got its prediction; there are further fields."""

    node_id: str
    summary: str
    decisions: list[dict[str, Any]] = Field(
        description="One per edge, with what the neighbour adds and the evidence."
    )


class StoredNode(BaseModel):
    """What is stored of a node."""

    node_id: str
    label: str | None
    target: float | None
    degree: int
    neighbours: list[str] = Field(description="The first 100.")


class Model(BaseModel):
    """The model, the stored graph and the limits."""

    version: str
    model: str
    task: str
    classes: list[str] = Field(description="Empty for regression.")
    threshold: float
    reason: str
    heads: dict[str, float]
    stored_decisions: bool
    hops: dict[str, int]
    features: dict[str, Any] = Field(
        description="Their kind, width (0 if nodes have none), names and columns."
    )
    edge_features: dict[str, Any] | None
    graph: dict[str, Any]
    limits: dict[str, float]


class Reloaded(BaseModel):
    """What is served now."""

    model: str


class Status(BaseModel):
    """One word."""

    status: str


class PredictionAnswer(BaseModel):
    """Answers in the order of the targets."""

    request_uid: str | None
    model: str
    results: list[Prediction]


class EmbeddingAnswer(PredictionAnswer):
    """Answers in the order of the targets."""

    results: list[Embedding]  # type: ignore[assignment]


class CleaningAnswer(PredictionAnswer):
    """Answers in the order of the targets."""

    results: list[Cleaning]  # type: ignore[assignment]


class ExplanationAnswer(PredictionAnswer):
    """Answers in the order of the targets."""

    results: list[Explanation]  # type: ignore[assignment]


_BODIES: dict[str, type[BaseModel]] = {
    "/v1/predict": Question,
    "/v1/embed": Question,
    "/v1/denoise": CleaningQuestion,
    "/v1/explain": Question,
}
_ANSWERS: dict[str, type[BaseModel]] = {
    "/v1/predict": PredictionAnswer,
    "/v1/embed": EmbeddingAnswer,
    "/v1/denoise": CleaningAnswer,
    "/v1/explain": ExplanationAnswer,
    "/v1/model": Model,
    "/v1/nodes/{node_id}": StoredNode,
    "/v1/reload": Reloaded,
    "/healthz": Status,
    "/readyz": Status,
}
_REFUSALS = {
    **dict.fromkeys(_BODIES, (*_EVERY, *_ASKED)),
    "/v1/nodes/{node_id}": (*_EVERY, 404),
    "/v1/reload": (*_EVERY, 409),
    "/healthz": (421, 500),
    "/readyz": (421, 500, 503),
}


def describe(app: FastAPI) -> None:
    """Let an application describe its bodies, answers and errors."""
    app.openapi = cache(lambda: _description(app))  # type: ignore[method-assign]


def _description(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    models: list[type[BaseModel]] = [*_BODIES.values(), *_ANSWERS.values(), Problem]
    _, schema = models_json_schema(
        [(one, "validation") for one in dict.fromkeys(models)], ref_template=_REF + "{model}"
    )
    found["components"] = {"schemas": schema["$defs"]}
    for path, methods in found["paths"].items():
        for route in methods.values():
            _complete(route, path)
    return found


def _complete(route: dict[str, Any], path: str) -> None:
    """Add the body, the answer and the errors to the description of a route."""
    if path in _BODIES:
        route["requestBody"] = {"required": True, "content": _content(_BODIES[path])}
    answer = route["responses"]["200"]
    if path in _ANSWERS:
        answer["content"] = _content(_ANSWERS[path])
    route["responses"] = {"200": answer} | {
        str(status): {"description": HTTPStatus(status).phrase, "content": _content(Problem, MEDIA_TYPE)}
        for status in sorted(_REFUSALS.get(path, _EVERY))
    }


def _content(model: type[BaseModel], kind: str = "application/json") -> dict[str, Any]:
    return {kind: {"schema": {"$ref": _REF + model.__name__}}}
