"""The variants of GDPNet that are measured beside it: each changes one thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdpnet.config import Config, filled
from gdpnet.errors import ConfigError

_ABLATIONS: dict[str, tuple[str, ...]] = {
    "gdpnet:paper-literal": (
        "reward.kind=paper",
        "reward.folds=1",
        "policy.state=paper",
        "representation.hops=1",
        "training.injected=0.0",
        "inference.both_ways=false",
        "ppo.advantage=sampled",
        "reader.use=false",
    ),
    "gdpnet:paper-reward": ("reward.kind=paper",),
    "gdpnet:counterfactual-reward": ("reward.kind=counterfactual",),
    "gdpnet:no-cross-fitting": ("reward.folds=1",),
    "gdpnet:paper-state": ("policy.state=paper",),
    "gdpnet:no-structure": ("policy.state=pairs",),
    "gdpnet:no-circles": ("policy.state=structure",),
    "gdpnet:no-trust": ("policy.state=circles",),
    "gdpnet:no-injected": ("training.injected=0.0",),
    "gdpnet:f1-alone": ("training.injected_weight=0.0",),
    "gdpnet:trusting": ("training.doubt=1.0",),
    "gdpnet:both-ways": ("inference.both_ways=true",),
    "gdpnet:unpractised": (
        "training.injected=0.0",
        "policy.state=circles",
        "inference.both_ways=true",
    ),
    "gdpnet:one-hop": ("representation.hops=1",),
    "gdpnet:two-hop-candidates": ("policy.hops=2", "representation.hops=1"),
    "gdpnet:two-hop-candidates-stacked": ("policy.hops=2",),
    "gdpnet:no-reader": ("reader.use=false",),
    "gdpnet:no-early-stop": ("policy.early_stop=false",),
    "gdpnet:random-order": ("policy.order=random",),
    "gdpnet:sampled-advantage": ("ppo.advantage=sampled",),
    "gdpnet:discount-0": ("ppo.discount=0.0",),
    "gdpnet:discount-0.5": ("ppo.discount=0.5",),
    "gdpnet:discount-0.9": ("ppo.discount=0.9",),
    "gdpnet:discount-0.95": ("ppo.discount=0.95",),
    "gdpnet:discount-1": ("ppo.discount=1.0",),
    **{
        f"gdpnet:epochs-{epochs}": (f"training.epochs={epochs}", f"training.patience={epochs}")
        for epochs in (5, 10, 20, 40, 80)
    },
    "gdpnet:no-convolutions": (),
}
"""What is changed beside leaving convolutions out, whose vote hides some of what a change does to selection.

Without injected links there are none to tell either: `no-injected` beside `f1-alone` is practice by itself. Without
circles there is no trust either.
"""

VARIANTS: dict[str, tuple[str, ...]] = {
    "gdpnet": (),
    "gdpnet-ro": ("policy.order=random",),
    **{name: (*changes, "reader.deep=false") for name, changes in _ABLATIONS.items()},
    "gdpnet:keep-everything": ("training.selection=false",),
}
"""Every variant by name, with what it changes; ablations are to be compared with ``gdpnet:no-convolutions``."""


def variant_of(config: Config, name: str) -> Config:
    """Return the settings of a variant."""
    return config.with_overrides(VARIANTS[name])


def is_apart(name: str, settings: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Say whether a variant was run with other settings than GDPNet's own and what the variant changes.

    Such a record tells of the variant, but the difference to GDPNet's is not the variant's alone.
    """
    if name not in VARIANTS:
        return name.startswith("gdpnet")  # one that there is no more
    mine = {section: values for section, values in filled(settings).items() if section != "backbone"}
    try:
        return mine != variant_of(Config().with_values(filled(ours)), name).to_dict()
    except ConfigError:  # a setting that there is no more
        return True
