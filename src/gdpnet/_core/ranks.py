"""Processes that train one model together: all that they tell each other goes through `Ranks`.

They are started by ``torchrun``, or by anything else that sets its environment variables. One process alone needs no
process group: every method then returns what it was given.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from gdpnet._core.launch import environment_number, own_rank, ranks_asked, restarts
from gdpnet.errors import ConfigError, WorkError

T = TypeVar("T")

_PATIENCE = timedelta(hours=1)
"""How long a rank waits for the others: one of them may read a large graph first."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of a training, seen from one of them; by default this process is the only one.

    All ranks must call the same methods in the same order. What a method returns is the same on every rank, bit for
    bit.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    part: int = 0
    parts: int = 1
    """This rank works on the ``part``-th of so many shares of the training nodes."""

    @property
    def is_first(self) -> bool:
        """Return whether this rank is the one that writes and prints."""
        return self.rank == 0

    def average_gradients(self, weights: Sequence[Tensor], share: float | None = None) -> None:
        """Replace gradients by their means over all ranks, in one message.

        This rank's count by its ``share``, by default as much as those of the others. A weight without a gradient
        must have none on any rank.
        """
        if self.size == 1:
            return
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        flat.mul_(1.0 / self.size if share is None else share)
        self.add_up(flat)
        for gradient, part in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def add_up(self, values: Tensor) -> None:
        """Replace values, on the device of the ranks, by their sums over all ranks."""
        if self.size > 1:
            self._call(lambda: dist.all_reduce(values))

    def add(self, *numbers: float) -> list[float]:
        """Return the sum of each number over all ranks."""
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def least(self, number: int) -> int:
        """Return the smallest number of all ranks."""
        return int(self._reduced([number], dist.ReduceOp.MIN)[0])

    def any(self, flag: bool) -> bool:
        """Return whether a flag is set on some rank."""
        return self._reduced([flag], dist.ReduceOp.MAX)[0] > 0

    def share(self, value: T | None) -> T:
        """Return what the first rank has; the values of the others are ignored."""
        held: list[Any] = [value]
        if self.size > 1:
            self._call(lambda: dist.broadcast_object_list(held, device=self.device))
        found: T = held[0]
        return found

    def gather(self, value: T) -> list[T]:
        """Return what each rank has, in the order of the ranks."""
        if self.size == 1:
            return [value]
        held: list[Any] = [None] * self.size
        self._call(lambda: dist.all_gather_object(held, value))
        return held

    def join_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, one below the other; ranks may have different numbers of them."""
        if self.size == 1:
            return rows
        return torch.cat([part.to(rows.device) for part in self.gather(rows.cpu())])

    def leave(self) -> None:
        """Part from the other ranks, which need not wait for what this one does afterwards."""
        if self.size > 1:
            _leave()

    def _reduced(self, numbers: Sequence[float], how: dist.ReduceOp.RedOpType) -> list[float]:
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        self._call(lambda: dist.all_reduce(values, op=how))
        found: list[float] = values.tolist()
        return found

    def _call(self, collective: Callable[[], object]) -> None:
        try:
            collective()
        except (RuntimeError, ValueError) as error:
            raise WorkError(
                f"rank {self.rank} of {self.size} cannot go on, as another one has ended or cannot be reached; start "
                "the same command again with --resume"
            ) from error


@contextmanager
def joined_ranks(kind: str) -> Iterator[Ranks]:
    """Meet the processes that this one was started with, over NCCL for the device ``cuda`` and gloo for the CPU."""
    size = ranks_asked()
    if size == 1:
        yield Ranks()
        return
    rank, device = own_rank(), torch.device("cpu")
    if kind == "cuda":
        device = _own_gpu()
        torch.cuda.set_device(device)
    # Adam imports it too; imported while there is a group, it keeps the group and its threads to the end of the
    # process, and one that lets go of a tensor while the interpreter shuts down aborts the process
    importlib.import_module("torch._dynamo")
    try:
        store, *_ = next(rendezvous("env://", timeout=_PATIENCE))
        # a store may outlive its ranks, and hold the addresses of those that were there before a restart
        dist.init_process_group(
            "nccl" if kind == "cuda" else "gloo",
            store=PrefixStore(f"gdpnet {restarts()}", store),
            rank=rank,
            world_size=size,
            timeout=_PATIENCE,
        )
    except (RuntimeError, ValueError) as error:
        raise WorkError(
            f"rank {rank} of {size} could not meet the others at {os.environ['MASTER_ADDR']}:"
            f"{os.environ['MASTER_PORT']}; start them with torchrun"
        ) from error
    try:
        yield Ranks(rank, size, device, rank, size)
    finally:
        _leave()


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _own_gpu() -> torch.device:
    """Return the GPU of this rank, which no other rank of its machine may use."""
    here, found = environment_number("LOCAL_RANK"), torch.cuda.device_count()
    if here >= found:
        raise ConfigError(
            f"every rank needs a GPU of its own, found {found} for rank {here + 1} of this machine: start fewer with "
            "--nproc-per-node, or use --device cpu"
        )
    return torch.device("cuda", here)
