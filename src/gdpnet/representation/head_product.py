"""Products with the matrices of classification heads, which have as few columns as there are classes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def multiply_heads(
    hidden: Float[Tensor, "n heads width"], weight: Float[Tensor, "heads width classes"]
) -> Float[Tensor, "n heads classes"]:
    """Return the product H W of every head; on a CPU its memory is laid out class by class."""
    if hidden.device.type != "cpu":
        return torch.einsum("nmd,mdc->nmc", hidden, weight)
    product: Tensor = _Product.apply(hidden, weight)
    return product


class _Product(torch.autograd.Function):
    """The product on the host, and its gradients.

    Matrices of few columns are slow to multiply. With the classes as rows it takes a quarter of the time, and their
    softmax runs over long columns.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        """Multiply; the result is a view of (heads, classes, n)."""
        ctx.save_for_backward(hidden, weight)
        return torch.bmm(weight.transpose(1, 2), hidden.permute(1, 2, 0)).permute(2, 0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of both factors, as far as they are needed."""
        hidden, weight = ctx.saved_tensors
        of_hidden = of_weight = None
        if ctx.needs_input_grad[0]:
            of_hidden = torch.einsum("nmc,mdc->nmd", gradients[0], weight)
        if ctx.needs_input_grad[1]:
            of_weight = torch.bmm(gradients[0].permute(1, 2, 0), hidden.transpose(0, 1)).transpose(1, 2)
        return of_hidden, of_weight
