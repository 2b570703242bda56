"""Fit the model that is attacked."""

from __future__ import annotations

from dataclasses import replace

import torch

from gdpnet._core.device import pick_device
from gdpnet.benchmark.ablations import VARIANTS, variant_of
from gdpnet.benchmark.attacks.gdpnet import GDPNetVictim
from gdpnet.benchmark.attacks.networks import FILTERS, NETWORKS, NetworkVictim
from gdpnet.benchmark.attacks.problem import Victim
from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.baselines.methods import METHODS, run_method
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, nearest
from gdpnet.estimator import GDPNet


def attackable_methods() -> list[str]:
    """Return the names of the methods that can be attacked."""
    return [*NETWORKS, *(name for name, changes in VARIANTS.items() if "policy.hops=2" not in changes)]


def network_of(method: str) -> tuple[str, float | None]:
    """Return the name of a baseline, and the share of edges that it keeps if that is fixed: ``jaccard-gcn:0.8``."""
    name, colon, share = method.partition(":")
    if not colon or name not in FILTERS:
        return method, None
    try:
        kept = float(share)
    except ValueError:
        kept = -1.0
    if not 0.0 < kept <= 1.0:
        raise ConfigError(f"the share of edges that {name} keeps must lie between 0 and 1, found '{share}'")
    return name, kept


def check_attackable(method: str) -> None:
    """Refuse a method that cannot be attacked."""
    known = attackable_methods()
    if network_of(method)[0] not in known:
        raise ConfigError(
            f"a method to attack must be one of gdpnet, its variants and {', '.join(NETWORKS)}, found "
            f"'{method}'{nearest(method, known)}"
        )


def settings_for(method: str, searched: dict[str, Settings]) -> Settings:
    """Return the settings of a baseline: those that were searched, else its defaults."""
    name, share = network_of(method)
    settings = searched.get(name) or METHODS[name].settings
    return settings if share is None else replace(settings, choice=share)


def fit_victim(
    method: str, graph: Graph, seed: int, config: Config, searched: dict[str, Settings], device: str
) -> Victim:
    """Fit a method on a graph."""
    if method in VARIANTS:
        model = GDPNet.from_config(variant_of(config, method), seed=seed, device=device).fit(graph)
        return GDPNetVictim(model.trained_, graph)
    name, place = network_of(method)[0], pick_device(device)
    fitted = run_method(name, graph, seed, place, settings_for(method, searched))
    return NetworkVictim(name, fitted, graph, torch.device(place))
