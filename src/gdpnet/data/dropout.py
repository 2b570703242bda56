"""Dropout of feature rows, dense or sparse, with the random numbers of a generator."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.device import has_numba
from gdpnet.data.features import Features, SparseRows, take_rows

_DRAWS = 1 << 16
"""How many values a random number of 16 bits has, from minus half as many on."""

_WHOLE_RANGE = (-(1 << 63), None)
"""All numbers of 64 bits."""


def drop_inputs(features: Features, share: float, generator: torch.Generator) -> Features:
    """Set a random share of the feature values to zero and scale up the rest."""
    if not isinstance(features, SparseRows):
        return drop_values(features, share, generator)
    if share == 0.0:
        return features
    factor = kept_factor(features.value.shape, share, generator, features.device)
    dropped = features.with_value(features.value * factor)
    # on a CPU products with zeros would take as long as others
    return dropped.thinned(factor > 0) if features.device.type == "cpu" else dropped


def take_and_drop(
    features: Features, rows: Int[Tensor, "taken"], share: float, generator: torch.Generator
) -> Features:
    """Return `drop_inputs` of some feature rows, in one pass over sparse rows where numba is."""
    if (
        not isinstance(features, SparseRows)
        or features.device.type != "cpu"
        or share == 0.0
        or not has_numba()
    ):
        return drop_inputs(take_rows(features, rows), share, generator)
    from gdpnet.data.row_kernel import take_kept

    length = features.row_ptr.diff()[rows]
    factor = kept_factor(torch.Size([int(length.sum())]), share, generator, features.device)
    found = torch.zeros(rows.numel() + 1, dtype=torch.long), torch.empty(factor.numel(), dtype=torch.long)
    value = torch.empty_like(factor)
    arrays = (features.row_ptr, features.column, features.value, rows, factor, *found, value)
    filled = take_kept(*(part.numpy() for part in arrays))
    return SparseRows(found[0], found[1][:filled], value[:filled], features.width)


def drop_values(value: Float[Tensor, "*n"], share: float, generator: torch.Generator) -> Float[Tensor, "*n"]:
    """Set a random share of some values to zero and scale up the rest."""
    if share == 0.0:
        return value
    return value * kept_factor(value.shape, share, generator, value.device)


def kept_factor(
    shape: torch.Size, share: float, generator: torch.Generator, device: torch.device
) -> Float[Tensor, "*n"]:
    """Return what dropout multiplies each value by: zero, or 1 / (1 - share) where it is kept.

    The factors are numbers, since products with truth values take longer. On a CPU sixteen random bits decide, which
    takes a third of the time of drawing a float.
    """
    if device.type != "cpu":
        return torch.rand(shape, generator=generator, device=device).ge_(share).div_(1.0 - share)
    drawn, least = _draw(shape, share, generator)
    return torch.ge(drawn, least, out=torch.empty(shape)).div_(1.0 - share)


def draw_kept(
    shape: torch.Size, share: float, generator: torch.Generator, device: torch.device
) -> Bool[Tensor, "*n"]:
    """Return which values dropout keeps: those whose `kept_factor` would not be zero."""
    if device.type != "cpu":
        return torch.rand(shape, generator=generator, device=device) >= share
    drawn, least = _draw(shape, share, generator)
    return drawn >= least


def _draw(shape: torch.Size, share: float, generator: torch.Generator) -> tuple[Int[Tensor, "*n"], int]:
    """Return sixteen random bits per value as a number, and the least number that keeps a value."""
    four = torch.empty(-(-shape.numel() // 4), dtype=torch.int64)
    drawn = four.random_(*_WHOLE_RANGE, generator=generator).view(torch.int16)[: shape.numel()].view(shape)
    return drawn, round(share * _DRAWS) - _DRAWS // 2
