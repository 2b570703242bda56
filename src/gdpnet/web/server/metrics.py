"""What the server counts and times, for Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

_SECONDS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("gdpnet_requests", "Requests.", ["method", "route", "status"], **own)
        self.seconds = Histogram(
            "gdpnet_request_seconds", "Time from request to answer.", ["route"], buckets=_SECONDS, **own
        )
        self.waiting = Gauge("gdpnet_requests_in_flight", "Questions that are computed or wait.", **own)
        self.batches = Histogram("gdpnet_batch_requests", "Questions per batch.", buckets=_SIZES, **own)
        self.targets = Counter("gdpnet_targets", "Nodes that were answered for.", ["question"], **own)
        self.reloads = Counter("gdpnet_reloads", "Reloads of model and graph.", ["result"], **own)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
