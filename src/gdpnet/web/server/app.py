"""The routes of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from gdpnet.errors import GDPNetError
from gdpnet.web.server import pages
from gdpnet.web.server.description import describe
from gdpnet.web.server.fields import broken_rules
from gdpnet.web.server.log import tell_mistake
from gdpnet.web.server.payload import CleaningQuestion, Question
from gdpnet.web.server.problems import NO_ROUTE, ProblemError, mistake
from gdpnet.web.server.server import Server, stored_number

_DETAILS = {
    404: NO_ROUTE,
    405: "this route does not answer this method: /docs has all routes",
}
"""What errors of the framework say, by their status."""


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
        return served.about_node(stored_number(served, node_id))

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
