"""Settings of attacks."""

from __future__ import annotations

from dataclasses import dataclass

from gdpnet.errors import ConfigError


@dataclass(frozen=True)
class AttackSettings:
    """How hard an attacker tries, checked when it is made."""

    steps: int = 80
    """Gradient steps of the adaptive attack."""
    block: int = 10_000
    """Random pairs of nodes that a step considers beside all links."""
    resampled: float = 0.75
    """Share of the steps in which pairs that get no weight are replaced by new ones."""
    refresh: int = 4
    """Steps between two such replacements, which also update what the relaxed model does not differentiate."""
    step_size: float = 1.4
    """Step size for the loss summed over the nodes to mislead; it is multiplied by the budget per node."""
    samples: int = 20
    """Sets of flips that are drawn at the end and evaluated with the model itself."""
    queries: int = 100
    """Graphs that the black-box search may have predicted."""

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        for name in ("steps", "block", "refresh", "samples", "queries"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} of an attack must be 1 or more, found {getattr(self, name)}")
        if not 0.0 <= self.resampled <= 1.0 or self.step_size <= 0.0:
            raise ConfigError("the resampled share must lie between 0 and 1 and the step size above 0")
