"""Intrinsics for operations that Python lacks: arrays at an address, blocks that are turned."""

from __future__ import annotations

from typing import Any

from tdt._kernels._jit import intrinsic


@intrinsic
def array_at(typingctx: Any, address: Any, size: Any, like: Any) -> Any:
    """A one-dimensional array of `size` elements of `like`'s dtype at `address`."""
    from numba.core import cgutils, types

    result = types.Array(like.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(result)(context, builder)
        word = context.get_value_type(types.intp)
        step = word(context.get_abi_sizeof(context.get_data_type(like.dtype)))
        data = builder.inttoptr(args[0], context.get_data_type(like.dtype).as_pointer())
        shape, strides = cgutils.pack_array(builder, [args[1]]), cgutils.pack_array(builder, [step])
        from numba.np.arrayobj import populate_array

        populate_array(array, data=data, shape=shape, strides=strides, itemsize=step, meminfo=None)
        return array._getvalue()

    return result(types.intp, types.intp, like), generate


@intrinsic
def transpose8(typingctx: Any, x: Any, start: Any, pitch: Any, out: Any, place: Any, out_pitch: Any) -> Any:
    """Transpose an 8 × 8 block of float32: rows at x[start + i·pitch:] become columns of rows at out[place + i·out_pitch:]."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 3))
        vector, word = ir.VectorType(ir.FloatType(), 8), ir.IntType(64)

        def row(data: Any, first: Any, step: Any, i: int) -> Any:
            offset = builder.add(first, builder.mul(step, ir.Constant(word, i)))
            return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())

        rows = [builder.load(row(source, args[1], args[2], i)) for i in range(8)]
        for load in rows:
            load.align = 4
        # Each round interleaves row i with row i + 4, which turns the six bits of an element's index by one; three
        # rounds swap its row with its column.
        orders = [
            ir.Constant(ir.VectorType(ir.IntType(32), 8), [h + i // 2 + 8 * (i % 2) for i in range(8)]) for h in (0, 4)
        ]
        for _ in range(3):
            rows = [builder.shuffle_vector(rows[i], rows[i + 4], order) for i in range(4) for order in orders]
        for i, value in enumerate(rows):
            builder.store(value, row(target, args[4], args[5], i)).align = 4
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, out, types.intp, types.intp), generate
