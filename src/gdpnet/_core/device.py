"""Where to compute."""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache
from importlib import import_module

import torch

from gdpnet.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """Return the device that a user means by auto, cpu or cuda."""
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"the device must be auto, cpu or cuda, found '{name}'")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigError("the device cuda was asked for, but torch finds no CUDA GPU on this machine")
    return torch.device("cuda" if name != "cpu" and available else "cpu")


@cache
def has_triton() -> bool:
    """Say whether Triton is there; where it is not, say so once."""
    if importlib.util.find_spec("triton") is not None:
        return True
    warnings.warn("Triton is not installed: episodes are played step by step, which is slower", stacklevel=2)
    return False


@cache
def has_numba() -> bool:
    """Say whether numba is there and works; it is an extra, so its absence is no news."""
    try:
        import_module("numba")
    except ImportError:
        return False
    return True
