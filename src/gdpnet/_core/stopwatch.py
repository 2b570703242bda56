"""Seconds by phase of a long run."""

from __future__ import annotations

import time

import torch


class Phases:
    """The time since the last mark goes to the phase that a mark names; a GPU has done all its work by then."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def mark(self, name: str, device: torch.device | None = None) -> None:
        """Say what was going on until now."""
        if device is not None and device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now
