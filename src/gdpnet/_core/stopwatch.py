"""Measure the seconds of each phase of a long run."""

from __future__ import annotations

import time

import torch


class Stopwatch:
    """Seconds per phase; a phase ends when it is marked."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def mark(self, name: str, device: torch.device | None = None) -> None:
        """Add the time since the last mark to a phase, after all work on a GPU is done."""
        if device is not None and device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now
