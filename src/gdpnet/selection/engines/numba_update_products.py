"""Matrix products on LLVM vectors, for the compiled update of the policy.

A product adds to a few rows of a matrix what stays in registers during the sum. Arrays are flat, and places are
counted in numbers from their beginning: a view of a row would cost more than a short sum.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gdpnet.selection.engines.numba_engine import LANES
from gdpnet.selection.engines.numba_products import INT, Panel
from gdpnet.selection.engines.numba_update_arrays import HALF_COLUMNS, HALF_ROWS, HIDDEN_COLUMNS, HIDDEN_ROWS


def _product(rows: int, blocks: int) -> Any:
    """Return an intrinsic that computes this many rows and vector registers per row at once."""

    @intrinsic
    def add_product(
        typing: Any, out: Any, out_at: Any, out_row: Any, value: Any, value_at: Any, value_row: Any,
        value_next: Any, count: Any, weight: Any, weight_at: Any, weight_next: Any,
    ) -> Any:  # fmt: skip
        """Add to out[at + r row] the sum over k < count of value[at + r row + k next] weight[at + k next]."""

        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            outs, values, weights = (
                context.make_array(signature.args[place])(context, builder, arguments[place]).data
                for place in (0, 3, 8)
            )
            _, out_at, out_row, _, value_at, value_row, value_next, count, _, weight_at, weight_next = (
                arguments
            )
            panel = Panel(builder, blocks, INT(0))
            targets = [_address(builder, outs, out_at, INT(r), out_row) for r in range(rows)]

            def terms(k: Any) -> tuple[list[Any], Any]:
                first = _address(builder, values, value_at, k, value_next)
                factors = [builder.gep(first, [builder.mul(INT(r), value_row)]) for r in range(rows)]
                return factors, _address(builder, weights, weight_at, k, weight_next)

            sums = panel.loop([panel.load(target) for target in targets], terms, INT(0), count)
            for one, target in zip(sums, targets, strict=True):
                panel.store(one, target)
            return context.get_dummy_value()

        kinds = (
            out,
            out_at,
            out_row,
            value,
            value_at,
            value_row,
            value_next,
            count,
            weight,
            weight_at,
            weight_next,
        )
        # the caller converts every number to the 64-bit integer that is asked for
        return types.void(*(kind if isinstance(kind, types.Array) else types.int64 for kind in kinds)), write

    return add_product


def _address(builder: ir.IRBuilder, base: Any, at: Any, number: Any, step: Any) -> Any:
    """Return the address of base[at + number step]."""
    return builder.gep(base, [builder.add(at, builder.mul(number, step))])


add_half = _product(HALF_ROWS, HALF_COLUMNS // LANES)
add_hidden = _product(HIDDEN_ROWS, HIDDEN_COLUMNS // LANES)
