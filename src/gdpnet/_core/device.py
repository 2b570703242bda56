"""Choose the device, and find optional compilers."""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache
from importlib import import_module

import torch

from gdpnet.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """Return the device for auto, cpu or cuda."""
    if not isinstance(name, str) or name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"the device must be auto, cpu or cuda, found '{name}'")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigError("the device cuda was asked for, but torch finds no CUDA GPU on this machine")
    return torch.device("cuda" if name != "cpu" and available else "cpu")


@cache
def has_triton() -> bool:
    """Return whether Triton is installed; warn once if not."""
    if importlib.util.find_spec("triton") is not None:
        return True
    warnings.warn("Triton is not installed: episodes run step by step, which is slower", stacklevel=2)
    return False


@cache
def has_numba() -> bool:
    """Return whether numba can be imported; it is optional, so there is no warning."""
    try:
        import_module("numba")
    except ImportError:
        return False
    return True


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a GPU, with what torch has reserved and does not use."""
    reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserved


def at_once(device: torch.device, on_cpu: int, on_gpu: int, bytes_each: float) -> int:
    """Return how many things to compute at a time: on a GPU as many as fit into half of its free memory.

    There are never fewer than on a CPU, nor more than ``on_gpu``.
    """
    if device.type != "cuda":
        return on_cpu
    return max(on_cpu, min(on_gpu, int(free_bytes(device) // 2 / bytes_each)))
