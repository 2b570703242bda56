"""Matrix products on LLVM vectors, for the numba kernel.

Sums of several rows and columns stay in registers. The compiler does not achieve this on its own: loops over arrays
store and load the sums at every step. Rows of weights are padded to whole panels, so that one compiled function
serves all sizes.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gdpnet.selection.engines.numba_engine import HALF_BLOCKS, HIDDEN_BLOCKS, LANES

FLAGS = ("contract", "reassoc", "nsz")
"""Fast-math flags: products may be reordered, but infinities and NaNs keep their meaning."""

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
INT = ir.IntType(64)


class Panel:
    """Generate the code for one panel of columns."""

    def __init__(self, builder: Any, blocks: int, panel: Any) -> None:
        self.builder, self.blocks, self.width = builder, blocks, INT(LANES * blocks)
        self.begin = builder.mul(panel, self.width)

    def rows_of(self, weight: Any, rows: Any) -> Any:
        """Return the address of the panel's first row."""
        return self.builder.gep(weight, [self.builder.mul(self.begin, rows)])

    def load(self, base: Any, at: Any = None) -> list[Any]:
        """Load the panel's columns of a vector, or as many from another place on."""
        places = self._places(base, self.begin if at is None else at)
        return [self.builder.load(place, align=4) for place in places]

    def store(self, blocks: list[Any], vector: Any) -> None:
        """Store the panel's columns of a vector."""
        for place, block in zip(self._places(vector, self.begin), blocks, strict=True):
            self.builder.store(block, place, align=4)

    def sum(self, start: list[Any], inputs: list[Any], weight: Any, count: Any, index: Any = None) -> Any:
        """Return start + sum over k < count of input[k] weight[index[k]] for each input."""

        def terms(k: Any) -> tuple[list[Any], Any]:
            row = k if index is None else self.builder.load(self.builder.gep(index, [k]))
            places = [self.builder.gep(one, [k]) for one in inputs]
            return places, self.builder.gep(weight, [self.builder.mul(row, self.width)])

        return self.loop([start] * len(inputs), terms, INT(0), count)

    def loop(self, starts: list[list[Any]], terms: Any, begin: Any, end: Any) -> list[list[Any]]:
        """Return each start plus its sum of factor row over begin <= k < end.

        ``terms(k)`` gives the addresses of the factors, one per start, and of the row that they multiply.
        """
        builder, before = self.builder, self.builder.block
        loop, after = builder.append_basic_block("products"), builder.append_basic_block("summed")
        builder.cbranch(builder.icmp_signed("<", begin, end), loop, after)
        builder.position_at_end(loop)
        k = self._phi(begin, before)
        sums = [[self._phi(block, before) for block in start] for start in starts]
        factors, row = terms(k)
        weights, ends = self.load(row, INT(0)), []
        for factor, old in zip(factors, sums, strict=True):
            number = self._broadcast(builder.load(factor))
            products = [builder.fmul(number, block, flags=FLAGS) for block in weights]
            ends.append([builder.fadd(a, b, flags=FLAGS) for a, b in zip(old, products, strict=True)])
        following = builder.add(k, INT(1))
        for phi, value in zip([k, *chain(*sums)], [following, *chain(*ends)], strict=True):
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
        builder.position_at_end(after)
        found = [[self._phi(block, before) for block in start] for start in starts]
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

    def _phi(self, value: Any, before: Any) -> Any:
        phi = self.builder.phi(value.type)
        phi.add_incoming(value, before)
        return phi

    def _places(self, base: Any, at: Any) -> list[Any]:
        places = [self.builder.add(at, INT(LANES * block)) for block in range(self.blocks)]
        pointer = _VECTOR.as_pointer()
        return [self.builder.bitcast(self.builder.gep(base, [place]), pointer) for place in places]

    def _broadcast(self, number: Any) -> Any:
        nothing, first = _VECTOR(ir.Undefined), ir.IntType(32)
        vector = self.builder.insert_element(nothing, number, first(0))
        return self.builder.shuffle_vector(vector, nothing, ir.VectorType(first, LANES)([0] * LANES))


def arrays_of(context: Any, builder: Any, signature: Any, arguments: Any, count: int) -> list[Any]:
    """Return the first arguments as structures with ``data`` and ``shape``."""
    pairs = zip(signature.args[:count], arguments[:count], strict=True)
    return [context.make_array(kind)(context, builder, value) for kind, value in pairs]


@intrinsic
def add_rows(typing: Any, out: Any, value: Any, index: Any, weight: Any, panel: Any, count: Any) -> Any:
    """Add to a panel of out the sum over k < count of value[k] weight[panel, index[k]]."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, inputs, places, weights = arrays_of(context, builder, signature, arguments, 4)
        _, rows, _ = cgutils.unpack_tuple(builder, weights.shape)
        panel = Panel(builder, HALF_BLOCKS, arguments[4])
        start, matrix = panel.load(target.data), panel.rows_of(weights.data, rows)
        (sums,) = panel.sum(start, [inputs.data], matrix, arguments[5], places.data)
        panel.store(sums, target.data)
        return context.get_dummy_value()

    return types.void(out, value, index, weight, panel, count), write


def _scorer(rows: int) -> Any:
    """Return an intrinsic that scores this many rows of the first layer at once."""

    @intrinsic
    def add_scores(typing: Any, out: Any, layer: Any, hidden: Any, bias: Any, score: Any, panel: Any) -> Any:
        """Add to each row of out the sum of score · relu(bias + layer hidden) over a panel of hidden columns."""

        def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            found, layers, *weights = arrays_of(context, builder, signature, arguments, 5)
            _, first = cgutils.unpack_tuple(builder, layers.shape)
            panel = Panel(builder, HIDDEN_BLOCKS, arguments[5])
            inputs = [builder.gep(layers.data, [builder.mul(INT(row), first)]) for row in range(rows)]
            hidden = panel.rows_of(weights[0].data, first)
            start, last = panel.load(weights[1].data), panel.load(weights[2].data)
            for row, sums in enumerate(panel.sum(start, inputs, hidden, first)):
                place = builder.gep(found.data, [INT(row)])
                total = builder.fadd(builder.load(place), panel.score(sums, last), flags=FLAGS)
                builder.store(total, place)
            return context.get_dummy_value()

        return types.void(out, layer, hidden, bias, score, panel), write

    return add_scores


score_one, score_two = _scorer(1), _scorer(2)
