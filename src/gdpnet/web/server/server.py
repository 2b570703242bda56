"""What the routes share: what is served, the queue of questions, the limits and the metrics."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from fastapi import Request

from gdpnet.data.extended import TooManyEdgesError
from gdpnet.errors import GDPNetError, WorkError
from gdpnet.inference.local import GROUP, LocalPredictor
from gdpnet.web.explorer.page import json_text
from gdpnet.web.server.answers import ANSWERS
from gdpnet.web.server.batches import Batcher
from gdpnet.web.server.guard import UNTIL
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.log import tell, tell_mistake
from gdpnet.web.server.metrics import Metrics
from gdpnet.web.server.payload import CleaningQuestion, Question
from gdpnet.web.server.problems import Broken, ProblemError, unusable
from gdpnet.web.server.questions import Asked, read_question
from gdpnet.web.server.reading import read_body
from gdpnet.web.server.served import Place, Served


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
        number = stored_number(served, node_id)

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


def stored_number(served: Served, node_id: str) -> int:
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
