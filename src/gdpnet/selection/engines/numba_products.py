"""Products in LLVM's vectors, for the numba functions of `native.py`.

Sums of several rows and columns stay in registers, which the compiler does not find by itself: loops over arrays
store and load them at every step. Rows of weights are padded to whole panels, so that one compiled function serves
all sizes.

What numba keeps for the next process depends on the text of `native.py` alone, which therefore names this one's sum.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gdpnet.selection.engines.numba_layout import HALF_BLOCKS, HIDDEN_BLOCKS, LANES

FLAGS = ("contract", "reassoc", "nsz")
"""How products may be reordered; no flag lets the compiler assume that there is no infinity and no NaN."""

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INT = ir.IntType(64)


class _Columns:
    """Write what is done with a panel of columns into the code that is being built."""

    def __init__(self, builder: Any, blocks: int, panel: Any) -> None:
        self.builder, self.blocks, self.width = builder, blocks, _INT(LANES * blocks)
        self.begin = builder.mul(panel, self.width)

    def rows_of(self, weight: Any, rows: Any) -> Any:
        """Point to the first row of the panel."""
        return self.builder.gep(weight, [self.builder.mul(self.begin, rows)])

    def load(self, vector: Any) -> list[Any]:
        """Load the panel's part of a vector."""
        return self._load(vector, self.begin)

    def store(self, blocks: list[Any], vector: Any) -> None:
        """Store the panel's part of a vector."""
        for place, block in zip(self._places(vector, self.begin), blocks, strict=True):
            self.builder.store(block, place, align=4)

    def sum(self, start: list[Any], inputs: list[Any], weight: Any, count: Any, index: Any = None) -> Any:
        """Return start + sum over k < count of input[k] weight[index[k]] for each input."""
        builder, before = self.builder, self.builder.block
        loop, after = builder.append_basic_block("products"), builder.append_basic_block("summed")
        builder.cbranch(builder.icmp_signed(">", count, _INT(0)), loop, after)
        builder.position_at_end(loop)
        k = self._either(_INT(0), before)
        sums = [[self._either(block, before) for block in start] for _ in inputs]
        row = k if index is None else builder.load(builder.gep(index, [k]))
        weights = self._load(weight, builder.mul(row, self.width))
        ends = []
        for one, old in zip(inputs, sums, strict=True):
            number = self._splat(builder.load(builder.gep(one, [k])))
            products = [builder.fmul(number, block, flags=FLAGS) for block in weights]
            ends.append([builder.fadd(a, b, flags=FLAGS) for a, b in zip(old, products, strict=True)])
        following = builder.add(k, _INT(1))
        for phi, value in zip([k, *chain(*sums)], [following, *chain(*ends)], strict=True):
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        found = [[self._either(block, before) for block in start] for _ in inputs]
        for phi, value in zip(chain(*found), chain(*ends), strict=True):
            phi.add_incoming(value, loop)
        return found

    def score(self, sums: list[Any], factors: list[Any]) -> Any:
        """Return the sum of factor relu(sum) over the panel."""
        builder, zero = self.builder, _VECTOR([0.0] * LANES)
        parts = zero
        for block, factor in zip(sums, factors, strict=True):
            positive = builder.select(builder.fcmp_ordered("<", block, zero), zero, block)  # NaN stays
            parts = builder.fadd(parts, builder.fmul(positive, factor, flags=FLAGS), flags=FLAGS)
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType(), _VECTOR])
        add_up = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return builder.call(add_up, [ir.FloatType()(0.0), parts], fastmath=FLAGS)

    def _either(self, value: Any, before: Any) -> Any:
        phi = self.builder.phi(value.type)
        phi.add_incoming(value, before)
        return phi

    def _places(self, base: Any, at: Any) -> list[Any]:
        places = [self.builder.add(at, _INT(LANES * block)) for block in range(self.blocks)]
        pointer = _VECTOR.as_pointer()
        return [self.builder.bitcast(self.builder.gep(base, [place]), pointer) for place in places]

    def _load(self, base: Any, at: Any) -> list[Any]:
        return [self.builder.load(place, align=4) for place in self._places(base, at)]

    def _splat(self, number: Any) -> Any:
        nothing, first = _VECTOR(ir.Undefined), ir.IntType(32)
        vector = self.builder.insert_element(nothing, number, first(0))
        return self.builder.shuffle_vector(vector, nothing, ir.VectorType(first, LANES)([0] * LANES))


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value)


def _pointers(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    return [_array(context, builder, *both).data for both in zip(kinds, values, strict=True)]


@intrinsic
def add_rows(typing: Any, out: Any, value: Any, index: Any, weight: Any, panel: Any, count: Any) -> Any:
    """Add to a panel of out the sum over k < count of value[k] weight[panel, index[k]]."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, inputs, places, weights = _pointers(context, builder, signature.args[:4], arguments[:4])
        number, count = arguments[4:]
        sizes = cgutils.unpack_tuple(builder, _array(context, builder, signature.args[3], arguments[3]).shape)
        columns = _Columns(builder, HALF_BLOCKS, number)
        weights = columns.rows_of(weights, sizes[1])
        (sums,) = columns.sum(columns.load(target), [inputs], weights, count, places)
        columns.store(sums, target)
        return context.get_dummy_value()

    return types.void(out, value, index, weight, panel, count), write


def _scorer(rows: int) -> Any:
    """Return what scores so many rows of the first layer at once."""

    @intrinsic
    def add_scores(typing: Any, out: Any, layer: Any, hidden: Any, bias: Any, score: Any, panel: Any) -> Any:
        """Add to out of each row the sum of score · relu(bias + layer hidden) over a panel of hidden columns."""

        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            found, layers, *weights = _pointers(context, builder, signature.args[:5], arguments[:5])
            first = cgutils.unpack_tuple(
                builder, _array(context, builder, signature.args[1], arguments[1]).shape
            )[1]
            columns = _Columns(builder, HIDDEN_BLOCKS, arguments[5])
            inputs = [builder.gep(layers, [builder.mul(_INT(row), first)]) for row in range(rows)]
            hidden, start, last = (
                columns.rows_of(weights[0], first),
                columns.load(weights[1]),
                columns.load(weights[2]),
            )
            for row, sums in enumerate(columns.sum(start, inputs, hidden, first)):
                place = builder.gep(found, [_INT(row)])
                builder.store(
                    builder.fadd(builder.load(place), columns.score(sums, last), flags=FLAGS), place
                )
            return context.get_dummy_value()

        return types.void(out, layer, hidden, bias, score, panel), write

    return add_scores


score_one, score_two = _scorer(1), _scorer(2)
