"""Steps of fixed shapes that run again and again: on a GPU captured once as a CUDA graph, then replayed.

A replay launches all kernels of a step at once, without Python in between. The step must read and write the same
tensors every time, and must not wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

_WARM_UP = 3
"""Calls before a step is captured: libraries and optimisers allocate in the first ones."""

_MOST_KEPT = 8
"""Steps of one kind that are kept, each with its tensors."""

_STEPS_PER_OCTAVE = 4

T = TypeVar("T")


class Replayed:
    """A step that is captured on a stream after a few calls; without a stream it is called each time.

    The calls before the capture do the same work, on that stream, so none is lost. Generators that the step
    draws from are advanced by a replay as by a call.
    """

    def __init__(
        self,
        step: Callable[[], None],
        stream: torch.cuda.Stream | None = None,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        self.step, self.stream, self.generators, self.calls = step, stream, generators, 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the step once."""
        if self.graph is not None:
            self.graph.replay()
        elif self.stream is None:
            self.step()
        elif self.calls < _WARM_UP:
            self._run_beside(self.stream, self.step)
            self.calls += 1
        else:
            graph = torch.cuda.CUDAGraph()
            for generator in self.generators:
                graph.register_generator_state(generator)
            self._run_beside(self.stream, lambda: _capture(graph, self.step))
            self.graph = graph
            graph.replay()

    @staticmethod
    def _run_beside(stream: torch.cuda.Stream, function: Callable[[], None]) -> None:
        """Run a function on another stream, after all that was launched before and before all that follows."""
        current = torch.cuda.current_stream(stream.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            function()
        current.wait_stream(stream)


def _capture(graph: torch.cuda.CUDAGraph, step: Callable[[], None]) -> None:
    """Record a step; nothing is computed. Unlike `torch.cuda.graph`, cached memory is not given back before."""
    graph.capture_begin()
    try:
        step()
    finally:
        graph.capture_end()


def can_capture(optimiser: torch.optim.Optimizer, device: torch.device) -> bool:
    """Return whether steps can be captured: on a GPU, by a fused optimiser; others count on the host."""
    return device.type == "cuda" and all(group.get("fused") for group in optimiser.param_groups)


def stream_of(optimiser: torch.optim.Optimizer, device: torch.device) -> torch.cuda.Stream | None:
    """Return a stream on which steps can be captured; None if they cannot be."""
    return torch.cuda.Stream(device) if can_capture(optimiser, device) else None


def step_with(
    optimiser: torch.optim.Optimizer,
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    most: float | None = None,
) -> None:
    """Take a step with some gradients, whose norm is bounded by ``most``; it may be captured if it is fused."""
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = None if gradient is None else gradient.contiguous()
    if most is not None:
        torch.nn.utils.clip_grad_norm_(weights, most)
    captures = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    for group in optimiser.param_groups:  # outside of a capture, optimisers warn about it
        group["capturable"] = captures
    optimiser.step()
    for group in optimiser.param_groups:
        group["capturable"] = False


def addresses(weights: Sequence[Tensor], optimiser: torch.optim.Optimizer) -> tuple[object, ...]:
    """Return where weights and moments lie, and the constants of the optimiser: what a graph has copies of."""
    groups = ((name, value) for group in optimiser.param_groups for name, value in group.items())
    constants = tuple((name, str(value)) for name, value in groups if name != "params")
    return (*(value.data_ptr() for value in state_of(weights, optimiser)), *constants)


def state_of(weights: Sequence[Tensor], optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """Return the weights, and what the optimiser remembers of them."""
    moments = (optimiser.state[weight] for weight in weights if weight in optimiser.state)
    return [*weights, *(value for each in moments for value in each.values())]


class Replays:
    """The steps that a training keeps between its epochs, by kind, the latest used first."""

    def __init__(self) -> None:
        self._kept: dict[type[Any], list[object]] = {}
        self._stream: torch.cuda.Stream | None = None

    def stream_for(self, optimiser: torch.optim.Optimizer, device: torch.device) -> torch.cuda.Stream | None:
        """Return the stream on which steps are captured, one for all as each holds memory.

        None if steps cannot be captured (`stream_of`).
        """
        if self._stream is None:
            self._stream = stream_of(optimiser, device)
        return self._stream if can_capture(optimiser, device) else None

    def find(self, kind: type[T], fits: Callable[[T], bool], make: Callable[[], T]) -> T:
        """Return a step of a kind that fits, or a new one in place of the one that was not used for longest."""
        kept = self._kept.setdefault(kind, [])
        for place, one in enumerate(kept):
            if isinstance(one, kind) and fits(one):
                kept.insert(0, kept.pop(place))
                return one
        del kept[_MOST_KEPT - 1 :]
        made = make()
        kept.insert(0, made)
        return made


def round_up(size: int) -> int:
    """Return the next of four sizes per power of two, so that few sizes occur."""
    if size <= _STEPS_PER_OCTAVE:
        return max(size, 1)
    step = 1 << max(0, (size - 1).bit_length() - _STEPS_PER_OCTAVE.bit_length())
    return -(-size // step) * step
