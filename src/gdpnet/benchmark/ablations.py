"""The variants of GDPNet that are compared with it: each changes one thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdpnet.config import Config
from gdpnet.errors import ConfigError

_ABLATIONS: dict[str, tuple[str, ...]] = {
    "paper-literal": (
        "reward.kind=paper",
        "reward.folds=1",
        "policy.state=paper",
        "representation.hops=1",
        "training.injected=0.0",
        "inference.symmetrise=false",
        "ppo.advantage=sampled",
        "hopwise.use=false",
    ),
    "paper-reward": ("reward.kind=paper",),
    "counterfactual-reward": ("reward.kind=counterfactual",),
    "no-cross-fitting": ("reward.folds=1",),
    "paper-state": ("policy.state=paper",),
    "no-structure": ("policy.state=pairs",),
    "no-neighbourhood": ("policy.state=structure",),
    "no-trust": ("policy.state=neighbourhood",),
    "no-injected": ("training.injected=0.0",),
    "f1-alone": ("training.injected_weight=0.0",),
    "no-label-check": ("training.label_error_gap=1.0",),
    "symmetrise": ("inference.symmetrise=true",),
    "early-version": ("training.injected=0.0", "policy.state=neighbourhood", "inference.symmetrise=true"),
    "one-hop": ("representation.hops=1",),
    "two-hop-candidates": ("policy.hops=2", "representation.hops=1"),
    "two-hop-candidates-stacked": ("policy.hops=2",),
    "no-hopwise": ("hopwise.use=false",),
    "no-early-stop": ("policy.early_stop=false",),
    "random-order": ("policy.order=random",),
    "sampled-advantage": ("ppo.advantage=sampled",),
    **{f"discount-{value}": (f"ppo.discount={float(value)}",) for value in ("0", "0.5", "0.9", "0.95", "1")},
    **{f"epochs-{n}": (f"training.epochs={n}", f"training.patience={n}") for n in (5, 10, 20, 40, 80)},
    "no-gcn": (),
}
"""The changed settings of each ablation. All of them also leave the GCN head out, because its share in the ensemble
hides part of the effect that a change has on selection.

Without injected edges their AUC is not measured either: the difference between `no-injected` and `f1-alone` is the
effect of training on them. `no-neighbourhood` also leaves trust out.
"""

REFERENCE = "gdpnet:no-gcn"
"""The variant that ablations are compared with."""

VARIANTS: dict[str, tuple[str, ...]] = {
    "gdpnet": (),
    "gdpnet-ro": ("policy.order=random",),
    **{f"gdpnet:{name}": (*changes, "gcn.use=false") for name, changes in _ABLATIONS.items()},
    "gdpnet:keep-everything": ("training.selection=false",),
}
"""Every variant by name, with the settings that it changes."""

CLEANED = {f"{variant}>{network}": network for variant in VARIANTS for network in ("gcn", "gat", "graphsage")}
"""Networks on the graph that a variant of GDPNet cleaned: the method ``gdpnet>gcn`` is GCN on GDPNet's graph."""

_RENAMED = {
    "gdpnet:no-reader": "gdpnet:no-hopwise",
    "gdpnet:no-convolutions": REFERENCE,
    "gdpnet:no-circles": "gdpnet:no-neighbourhood",
    "gdpnet:trusting": "gdpnet:no-label-check",
    "gdpnet:both-ways": "gdpnet:symmetrise",
    "gdpnet:unpractised": "gdpnet:early-version",
}
"""Variants under the names that records of version 0.1 give them."""


def current_name(method: str) -> str:
    """Return the name of a method in this version, for a name in a record of any version."""
    variant, arrow, network = method.partition(">")
    return _RENAMED.get(variant, variant) + arrow + network


def cleaner_of(method: str) -> str:
    """Return the variant of GDPNet that a method is, or that cleans its graph."""
    return method.partition(">")[0]


def variant_of(config: Config, name: str) -> Config:
    """Return the settings of a variant."""
    return config.with_overrides(VARIANTS[name])


def is_apart(name: str, settings: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Return whether a variant was run with other settings than GDPNet's plus the changes of the variant.

    If so, its difference to GDPNet is not the effect of the variant alone.
    """
    if name not in VARIANTS:
        return name.startswith("gdpnet")  # a variant that no longer exists
    mine = {section: values for section, values in settings.items() if section != "backbone"}
    try:
        # sections that a record does not have yet are at their defaults
        return Config().with_values(mine) != variant_of(Config().with_values(ours), name)
    except ConfigError:  # a setting that no longer exists
        return True
