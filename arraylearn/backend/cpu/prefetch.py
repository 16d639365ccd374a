"""A hint to the processor inside compiled loops: this will be read soon."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch"]


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the element at `index` of a contiguous array of one dimension; nothing waits for it.

    Rows of a node ascend with gaps: the processor does not guess where the next one lies, and a loop that
    adds a row to a histogram is too long for it to look ahead.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(hint, [address, word(0), word(3), word(1)])  # for reading, into all caches, of data
        return context.get_dummy_value()

    return types.void(array, index), generate
