"""How many labels are given: all, some per class, or a percentage. Nothing here needs torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdpnet.errors import ConfigError

ALL = "all"
"""The rate at which every label of the split is given."""

VALIDATION_PER_CLASS = 30
"""Validation nodes of each class where labels are given per class (Shchur et al., 2018)."""


@dataclass(frozen=True)
class LabelRate:
    """Labels of each class that are given for training, and validation nodes of each class."""

    per_class: int | None = None
    share: float | None = None
    """Share of all labelled nodes of a class, if no number per class is given."""

    @classmethod
    def of(cls, text: str) -> LabelRate:
        """Read ``5-per-class``, ``10%`` or ``all``."""
        if text == ALL:
            return cls()
        if found := re.fullmatch(r"(\d+)-per-class", text):
            rate = cls(per_class=int(found[1]))
        elif found := re.fullmatch(r"(\d+\.?\d*|\.\d+) ?%", text):
            rate = cls(share=float(found[1]) / 100.0)
        else:
            raise ConfigError(
                "--labels must be all, a number per class such as 20-per-class, or a percentage such as 10%, found "
                f"'{text}'"
            )
        if not (rate.per_class or 0.0 < (rate.share or 0.0) <= 1.0):
            raise ConfigError(
                f"--labels must be 1-per-class or more, or more than 0% and up to 100%, found '{text}'"
            )
        return rate

    @property
    def is_all(self) -> bool:
        """Return whether every label of the split is given."""
        return self.per_class is None and self.share is None

    def wanted(self, labelled: int) -> tuple[int, int]:
        """Return how many nodes train and validate of a class with some labelled nodes; at least one each."""
        if self.per_class is not None:
            return self.per_class, VALIDATION_PER_CLASS
        count = max(1, round((1.0 if self.share is None else self.share) * labelled))
        return count, count
