"""The perturbed graphs of an experiment: a dataset or path, a noise, its rate and a seed.

A noise may follow others at fixed rates: ``swapped-features:0.5+random-links`` gives half of the nodes the features
of another node, then adds random links at the rate that is varied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gdpnet._core.device import pick_device
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns
from gdpnet.data.io.open import open_graph
from gdpnet.data.label_rate import ALL, LabelRate
from gdpnet.data.labels import quantity_found
from gdpnet.data.noise.adversarial import attacks
from gdpnet.data.noise.registry import (
    NOISES,
    Noise,
    check_kind,
    check_rate,
    corrupt_all,
    count_edges,
)
from gdpnet.data.splits import with_few_labels
from gdpnet.data.validation import SPLITS
from gdpnet.errors import ConfigError, GraphError


@dataclass(frozen=True)
class Setting:
    """One perturbed graph: a dataset or path, a noise, its rate, and a seed."""

    graph: str
    split: str
    noise: str
    rate: float
    seed: int
    data_dir: Path | None = None
    directed: bool = False
    """Whether edges of files keep their direction."""
    weights: bool = True
    """Whether the weights of edges of files are read."""
    drop_unknown: bool = False
    """Whether edges of nodes that are not in the table of nodes are left out."""
    columns: Columns = USUAL_COLUMNS
    """Names and choice of the columns of files."""
    labels: str = ALL
    """How many labels are given: all, ``5-per-class`` or ``10%``; see `gdpnet.data.splits.with_few_labels`."""
    transductive: bool | None = None
    """Whether validation and test nodes are part of the training graph; None if the graph says so."""
    content: str | None = None
    """Fingerprint of the graph as it is read; None if nobody asked for it."""

    def to_record(self) -> dict[str, Any]:
        """Return the keys of a record that describe it, without the seed."""
        name = self.graph if self.split == "paper" else f"{self.graph} ({self.split} split)"
        name = f"{name} (directed)" if self.directed else name
        name = name if self.weights else f"{name} (no weights)"
        name = name if self.labels == ALL else f"{name} ({self.labels} labels)"
        if self.transductive is not None:
            name = f"{name} ({'transductive' if self.transductive else 'inductive'})"
        content = {} if self.content is None else {"content": self.content}
        return {"graph": name, **content, "noise": self.noise, "rate": self.rate}


def noises_on(device: str) -> dict[str, Noise]:
    """Return every kind of noise, including the attacks, which run on a device."""
    return NOISES | attacks(pick_device(device))


def open_case(setting: Setting) -> Graph:
    """Open the graph of a setting without its noise, with the labels that are given."""
    graph = open_graph(
        setting.graph,
        data_dir=setting.data_dir,
        columns=setting.columns,
        directed=setting.directed,
        weights=setting.weights,
        drop_unknown=setting.drop_unknown,
        split=setting.split,
        seed=setting.seed,
    )
    if setting.transductive is not None:
        graph = replace(graph, transductive=setting.transductive)
    return with_few_labels(graph, LabelRate.of(setting.labels), setting.seed)


def protocol_of(graph: Graph, setting: Setting) -> dict[str, Any]:
    """Return what a method is given of a graph: how many labels and nodes, and whether it sees test nodes."""
    known = graph.labelled
    labelled = {part: graph.nodes_in(part)[known[graph.nodes_in(part)]].numel() for part in SPLITS[1:]}
    context = int(
        ((graph.split == SPLITS.index("none")) | ((graph.split == SPLITS.index("train")) & ~known)).sum()
    )
    return {
        "labels": setting.labels,
        "training": "transductive" if graph.transductive else "inductive",
        **labelled,
        "context": context,
    }


def perturb(graph: Graph, setting: Setting, device: str = "cpu") -> tuple[Graph, dict[str, int]]:
    """Add the noise of a setting to a graph; return it with the counts of edges before and after."""
    noisy = corrupt_all(graph, steps_of(setting.noise, setting.rate), setting.seed, noises_on(device))
    return noisy.graph, count_edges(graph, noisy)


def noisy_graph(setting: Setting, device: str = "cpu") -> Graph:
    """Open the graph of a setting and add its noise."""
    return counted_graph(setting, device)[0]


def counted_graph(setting: Setting, device: str = "cpu") -> tuple[Graph, dict[str, int]]:
    """Open the graph of a setting and add its noise; return it with the counts of edges before and after."""
    return perturb(open_case(setting), setting, device)


def steps_of(noise: str, rate: float) -> list[tuple[str, float]]:
    """Return a noise and those before it, each with its rate."""
    *before, last = noise.split("+")
    steps = []
    for part in before:
        kind, colon, text = part.partition(":")
        try:
            steps.append((kind, float(text)))
        except ValueError:
            found = f"'{text}'" if colon else "none"
            raise ConfigError(f"a noise before another needs its rate, as kind:0.5, found {found}") from None
    return [*steps, (last, rate)]


def check_noise(noise: str, rates: Iterable[float]) -> None:
    """Raise an error for a noise that does not exist or a rate outside its range."""
    for rate in rates:
        for kind, level in steps_of(noise, rate):
            check_kind(kind, noises_on("cpu"))
            check_rate(kind, level)


def check_comparable(graph: Graph) -> None:
    """Refuse numbers as labels: methods are compared on classes."""
    if found := quantity_found(graph):
        raise GraphError(f"this command compares methods on classes, but {found}: give classes names")
