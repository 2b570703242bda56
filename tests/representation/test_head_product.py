"""The products of heads, and their gradients, are those of einsum."""

import torch

from gdpnet.representation.head_product import multiply_heads


def test_products_and_gradients_are_those_of_einsum():
    draws = torch.Generator().manual_seed(0)
    told = []
    for multiply in (multiply_heads, lambda one, other: torch.einsum("nmd,mdc->nmc", one, other)):
        draws.manual_seed(0)
        hidden, weight = (torch.randn(size, generator=draws) for size in ((7, 3, 5), (3, 5, 4)))
        hidden.requires_grad_()
        weight.requires_grad_()
        found = multiply(hidden, weight)
        (found**2).sum().backward()
        told.append((found.detach(), hidden.grad, weight.grad))
    for one, other in zip(*told, strict=True):
        torch.testing.assert_close(one, other)


def test_factors_without_a_gradient_get_none():
    hidden, weight = torch.ones(2, 1, 3), torch.ones(1, 3, 2, requires_grad=True)
    multiply_heads(hidden, weight).sum().backward()
    assert hidden.grad is None
    assert weight.grad.tolist() == [[[2.0, 2.0]] * 3]
