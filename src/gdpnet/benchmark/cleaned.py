"""Networks on the graph that GDPNet cleaned, as methods of their own: ``gdpnet>gcn`` is GCN on GDPNet's graph."""

from __future__ import annotations

from functools import lru_cache

from gdpnet.benchmark.ablations import VARIANTS, variant_of
from gdpnet.benchmark.baselines.fitting import Task, make_task
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.config import Config
from gdpnet.estimator import GDPNet

CLEANED = {f"{variant}>{network}": network for variant in VARIANTS for network in ("gcn", "gat", "graphsage")}
"""Networks on the graph that GDPNet, or a variant of it, cleaned; what comes before the sign is who cleans."""


def cleaner_of(method: str) -> str:
    """Return the variant of GDPNet that a method is, or that cleans its graph."""
    return method.partition(">")[0]


@lru_cache(maxsize=4)
def cleaned_task(setting: Setting, variant: str, config: Config, device: str) -> Task:
    """Fit a variant of GDPNet to a corrupted graph; return what a network sees of the graph that it cleaned.

    The last ones are kept: a search asks for the same graphs for one network after another.
    """
    graph = noisy_graph(setting, device)
    model = GDPNet.from_config(variant_of(config, variant), seed=setting.seed, device=device).fit(graph)
    task = make_task(graph, setting.seed)
    return task.with_graphs(model.denoise(task.train).graph, model.denoise(graph).graph)
