"""What an experiment is run on: a graph by name, corrupted in one way, at one rate, by one seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdpnet.baselines.attack import attacks
from gdpnet.device import pick_device
from gdpnet.graph.graph import Graph
from gdpnet.graph.named import open_graph
from gdpnet.graph.noise import NOISES, Noise, corrupt


@dataclass(frozen=True)
class Setting:
    """One corrupted graph: a dataset or path, a kind of noise, its rate, and a seed."""

    graph: str
    split: str
    noise: str
    rate: float
    seed: int
    data_dir: Path | None = None

    def to_record(self) -> dict[str, Any]:
        """Return what a record says of it, but for the seed."""
        name = self.graph if self.split == "paper" else f"{self.graph} ({self.split} split)"
        return {"graph": name, "noise": self.noise, "rate": self.rate}


def noises_on(device: str) -> dict[str, Noise]:
    """Return every kind of noise, attacks among them, which are run on a device."""
    return NOISES | attacks(pick_device(device))


def noisy_graph(setting: Setting, device: str = "cpu") -> Graph:
    """Open the graph of a setting and corrupt it."""
    graph = open_graph(setting.graph, data_dir=setting.data_dir, split=setting.split, seed=setting.seed)
    return corrupt(graph, setting.noise, setting.rate, setting.seed, noises_on(device)).graph
