"""What `denoise` cannot do without: bytes that must pass through a device's memory, and products that must be made.

The model is simple and counts no index, no search and no score twice. A phase can take no less than the larger of its
bytes by the measured copy bandwidth and its products by the measured matrix rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from gdpnet.config import Config

_COPIED = 1 << 31
_MATRIX = 8192
_TURNS = 5


def device_limits(device: torch.device) -> dict[str, float]:
    """Measure the copy bandwidth (bytes read and written a second) and the rate of products in single precision."""
    cuda = device.type == "cuda"
    size, side = (_COPIED, _MATRIX) if cuda else (_COPIED // 16, _MATRIX // 8)
    source = torch.empty(size // 4, device=device)
    target, one = torch.empty_like(source), torch.rand(side, side, device=device)
    found = {"copy_bytes_a_second": 2 * size / _fastest(lambda: target.copy_(source), cuda)}
    for name, precision in (("flops_a_second", "highest"), ("tf32_flops_a_second", "high")):
        torch.set_float32_matmul_precision(precision)
        found[name] = 2 * side**3 / _fastest(lambda: one @ one, cuda)
    torch.set_float32_matmul_precision("highest")
    return found


def _fastest(job: Callable[[], object], cuda: bool) -> float:
    seconds = []
    for _ in range(_TURNS):
        start = time.perf_counter()
        job()
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def least_work(
    row_ptr: torch.Tensor, features: int, classes: int, config: Config, kept: float, first_episodes: int
) -> dict[str, tuple[float, float]]:
    """Return for each phase the least bytes and the least floating-point operations; all tables single precision.

    ``kept`` is the share of candidates that episodes keep. An episode of d candidates looks at its target once and
    after each one kept but the last, and then scores those that are left, half of them on average.
    """
    nodes, edges, width = row_ptr.numel() - 1, int(row_ptr[-1]), config.representation.width
    first, second = config.policy.hidden
    degree = row_ptr.diff().double()
    parts = (degree / config.policy.max_candidates).ceil().clamp(min=1)
    length = degree / parts
    looks = float((parts * (1 + kept * (length - 1).clamp(min=0))).sum())
    scored = float((parts * (1 + kept * (length - 1).clamp(min=0)) * (length + 1) / 2).sum())
    row, wide = 4 * features, 4 * width
    # encoding a candidate reads its neighbourhood, and writes and reads its message and its half of the first layer
    encode = (edges * (3 * wide + 8 * first), 2.0 * edges * width * (first + 2 * classes))
    look = 2.0 * (looks * (width * (first + classes) + first * second) + scored * first * second)
    return {
        "read": (nodes * (row + 8) + 4.0 * edges, 0.0),
        "node tables": (3.0 * nodes * row + edges * (row + 4.0), 2.0 * edges * features),
        # in both passes: two rows and two numbers of the neighbour, eleven columns are written
        "pair features": (2.0 * edges * (2 * row + 56), 2 * 8.0 * edges * features),
        "neighbourhoods": (
            2 * (edges * (row + 8.0) + nodes * (2 * row + 2 * wide)),
            2 * (2.0 * edges * features + 4.0 * nodes * features * width),
        ),
        "context": (encode[0], encode[1] + first_episodes * look),
        "decide": (encode[0], encode[1] + config.inference.episodes * look),
        "write": (12.0 * edges, 0.0),
    }


def shares(
    work: dict[str, tuple[float, float]], limits: dict[str, float], seconds: dict[str, float], total: float
) -> dict[str, Any]:
    """Return the least seconds of each phase, their share of those it took, and the same for all of them together."""
    least = {
        name: max(size / limits["copy_bytes_a_second"], flops / limits["flops_a_second"])
        for name, (size, flops) in work.items()
    }
    copying = sum(size for size, _ in work.values()) / limits["copy_bytes_a_second"]
    products = sum(flops for _, flops in work.values()) / limits["flops_a_second"]
    playing = ("context", "decide")
    return {
        "bytes": {name: size for name, (size, _) in work.items()},
        "flops": {name: flops for name, (_, flops) in work.items()},
        "least_seconds": least,
        "share_of_limit": {name: least[name] / seconds[name] for name in least if seconds.get(name)},
        "binds": "matrix rate" if products > copying else "copy bandwidth",
        "share_of_limit_when_playing": sum(least[name] for name in playing)
        / max(sum(seconds.get(name, 0.0) for name in playing), 1e-9),
        "share_of_limit_end_to_end": max(products, copying) / total,
    }
