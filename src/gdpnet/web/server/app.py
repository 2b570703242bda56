"""The routes of the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from gdpnet.data.extended import TooManyEdgesError
from gdpnet.errors import GDPNetError, WorkError
from gdpnet.inference.local import GROUP, LocalPredictor
from gdpnet.web.explorer.page import json_text
from gdpnet.web.server import pages
from gdpnet.web.server.answers import ANSWERS
from gdpnet.web.server.batches import Batcher
from gdpnet.web.server.description import describe
from gdpnet.web.server.fields import broken_rules
from gdpnet.web.server.guard import UNTIL
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.log import tell, tell_mistake
from gdpnet.web.server.metrics import Metrics
from gdpnet.web.server.payload import CleaningQuestion, Question
from gdpnet.web.server.problems import NO_ROUTE, Broken, ProblemError, mistake, unusable
from gdpnet.web.server.questions import Asked, read_question
from gdpnet.web.server.reading import read_body
from gdpnet.web.server.served import Place, Served

_DETAILS = {
    404: NO_ROUTE,
    405: "this route does not answer this method: /docs has all routes",
}
"""What errors of the framework say, by their status."""


class Server:
    """What the routes share: what is served, the queue of questions, the limits and the metrics."""

    def __init__(self, place: Place, served: Served, limits: Limits) -> None:
        self.place, self.served, self.limits = place, served, limits
        self.metrics = Metrics()
        self.batcher = Batcher(self.metrics, limits.max_requests, limits.seconds, place.threads)
        self.is_ready, self.reloading = False, asyncio.Lock()
        self._judged: tuple[Served, asyncio.Future[str]] | None = None

    async def ask(self, request: Request, form: type[Question], kind: str) -> dict[str, Any]:
        """Answer a question by what is served now, whatever is loaded meanwhile."""
        served, body = self.served, await request.body()
        content_type = request.headers.get("content-type", "")

        def read() -> tuple[Question, Asked]:
            question = read_body(body, content_type, form, self.limits)
            return question, read_question(question, served, self.limits)

        # a large one takes a while
        question, asked = await asyncio.get_running_loop().run_in_executor(None, read)
        threshold = question.threshold if isinstance(question, CleaningQuestion) else None
        local = served.local(asked.graph, self.limits.max_surroundings)
        rows = await self.batcher.ask(
            partial(_one, local, asked, kind, threshold),
            _keys(served, asked, kind, threshold),
            request.scope.get(UNTIL),
        )
        self.metrics.targets.labels(kind).inc(len(rows))
        results = [{"node_id": name} | row for name, row in zip(asked.ids, rows, strict=True)]
        return {"request_uid": question.request_uid, "model": served.model_id, "results": results}

    async def explore(self, node_id: str) -> str:
        """Return what the explorer shows of a node, as JSON; it waits its turn with the questions."""
        served = self.served
        number = _stored(served, node_id)

        def compute(_: int) -> list[dict[str, Any]]:
            return [{"text": json_text(served.neighbourhood(number, self.limits.max_surroundings))}]

        found = await self.batcher.ask(compute, [(id(served), "explore", number)])
        return str(found[0]["text"])

    @property
    def can_judge(self) -> bool:
        """Return whether the stored graph is small enough to decide on all of it."""
        return self.served.graph.num_edges <= self.limits.max_surroundings

    async def judge(self) -> str:
        """Return what the explorer judges the model by, as JSON; it is computed once, for all who ask."""
        if not self.can_judge:
            most = f"at most {self.limits.max_surroundings:,} edges (--max-surroundings)"
            raise ProblemError(422, f"the whole graph is decided on to judge it, which must have {most}")
        if self._judged is None or self._judged[0] is not self.served:
            loop = asyncio.get_running_loop()
            self._judged = self.served, loop.run_in_executor(None, self.served.judge)
        judged = self._judged
        try:
            return await asyncio.wait_for(asyncio.shield(judged[1]), self.limits.seconds)
        except TimeoutError as error:
            rule = "the whole graph is still being decided on: ask again"
            raise ProblemError(503, rule, headers={"Retry-After": "10"}) from error
        finally:
            done = judged[1]
            if self._judged is judged and done.done() and (done.cancelled() or done.exception()):
                self._judged = None  # who asks next gets another try

    async def reload(self) -> Served:
        """Load model and graph anew and exchange them; if that fails the old ones stay."""
        async with self.reloading:
            try:
                served = await asyncio.get_running_loop().run_in_executor(None, Served.load, self.place)
            except Exception as error:
                self.metrics.reloads.labels("refused").inc()
                if not isinstance(error, GDPNetError | OSError):
                    tell_mistake(error)
                    raise WorkError(
                        f"loading them failed with {type(error).__name__}: see the log"
                    ) from error
                tell("reload refused", logging.ERROR, reason=str(error))
                raise
            self.served = served
            self.metrics.reloads.labels("done").inc()
            tell("reloaded", model=served.model_id)
            return served


def _one(
    local: LocalPredictor, asked: Asked, kind: str, threshold: float | None, place: int
) -> list[dict[str, Any]]:
    """Return the answers for one group of targets."""
    try:
        return list(ANSWERS[kind](local, asked.targets.split(GROUP)[place], threshold))
    except TooManyEdgesError as error:
        rule = f"the surroundings of {GROUP} targets may have {local.most_edges:,} edges (--max-surroundings)"
        raise unusable("targets", rule) from error


def _stored(served: Served, node_id: str) -> int:
    """Return the number of a stored node."""
    number = served.index.find([node_id])[0]
    if number is None:
        broken = Broken("node_id", "it must be that of a stored node")
        raise ProblemError(404, f"the stored graph has no node '{node_id}'", broken)
    return number


def _keys(served: Served, asked: Asked, kind: str, threshold: float | None) -> list[Any]:
    """Return what is equal for equal groups of the stored graph as it is; None if a request changes the graph."""
    if asked.graph.graph is not served.graph or asked.graph.addition is not None:
        return [None] * len(asked.targets.split(GROUP))
    return [(id(served), kind, threshold, tuple(one.tolist())) for one in asked.targets.split(GROUP)]


class _Whole(Convertor[str]):
    """The rest of a path, whatever it has in it: ids may have slashes and line breaks."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        """Return it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return it as it is."""
        return value


register_url_convertor("whole", _Whole())


def make_app(server: Server) -> FastAPI:
    """Return the application with all routes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        server.batcher.start()
        server.is_ready = True
        yield
        server.is_ready = False
        await server.batcher.stop()

    app = FastAPI(
        title="gdpnet",
        version=server.served.about["version"],
        summary="A trained GDPNet model answers for nodes, new or stored.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
    )
    _add_questions(app, server)
    _add_facts(app, server)
    pages.add_pages(app, server)
    _add_errors(app)
    describe(app)
    return app


def _add_questions(app: FastAPI, server: Server) -> None:
    """Add the routes that compute."""

    @app.post("/v1/predict", tags=["questions"])
    async def predict(request: Request) -> dict[str, Any]:
        """Predict the class, labels or number of each target, with probabilities."""
        return await server.ask(request, Question, "predict")

    @app.post("/v1/embed", tags=["questions"])
    async def embed(request: Request) -> dict[str, Any]:
        """Embed each target."""
        return await server.ask(request, Question, "embed")

    @app.post("/v1/denoise", tags=["questions"])
    async def denoise(request: Request) -> dict[str, Any]:
        """Decide on the edges of each target: keep probability, genuine probability, kept or not."""
        return await server.ask(request, CleaningQuestion, "denoise")

    @app.post("/v1/explain", tags=["questions"])
    async def explain(request: Request) -> dict[str, Any]:
        """Explain the prediction of each target: what every neighbour adds, and the evidence for its edge."""
        return await server.ask(request, Question, "explain")


def _add_facts(app: FastAPI, server: Server) -> None:
    """Add the routes that tell what is there."""

    @app.get("/v1/model", tags=["facts"])
    async def model() -> dict[str, Any]:
        """Return the model, its feature columns, the graph, and the limits."""
        return server.served.about | {"limits": vars(server.limits)}

    @app.get("/v1/nodes/{node_id:whole}", tags=["facts"])
    async def node(node_id: str) -> dict[str, Any]:
        """Return what is stored of a node: its label, its degree and its first neighbours."""
        served = server.served
        return served.about_node(_stored(served, node_id))

    @app.post("/v1/reload", tags=["operations"])
    async def reload() -> dict[str, Any]:
        """Load model and graph anew; if they cannot be used the old ones stay."""
        try:
            served = await server.reload()
        except (GDPNetError, OSError) as error:
            raise ProblemError(409, f"the old model and graph stay: {error}") from error
        return {"model": served.model_id}

    @app.get("/healthz", tags=["operations"])
    async def healthz() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["operations"])
    async def readyz() -> dict[str, str]:
        """Say whether questions are accepted."""
        if not server.is_ready:
            raise ProblemError(503, "the server is about to stop, or not ready yet")
        return {"status": "ready"}

    @app.get("/metrics", tags=["operations"], response_class=Response)
    async def metrics() -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_errors(app: FastAPI) -> None:
    """Answer every error with a body of RFC 9457."""

    @app.exception_handler(ProblemError)
    async def problem(_: Request, error: ProblemError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        broken = broken_rules(error.errors())
        return ProblemError(422, f"{broken[0].field}: {broken[0].rule}", *broken).response()

    @app.exception_handler(GDPNetError)
    async def refused(_: Request, error: GDPNetError) -> Response:
        return ProblemError(422, str(error)).response()

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        detail = _DETAILS.get(error.status_code, str(error.detail))
        return ProblemError(error.status_code, detail, headers=dict(error.headers or {})).response()

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        tell_mistake(error)
        return mistake().response()
