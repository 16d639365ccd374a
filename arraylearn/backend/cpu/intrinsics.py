"""Instructions that Python cannot express, for compiled loops: prefetching, many bits at once, vector maxima.

As a loop over eight words, such an operation would test at each call whether its arrays overlap.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["WORDS", "choose_words", "larger", "mark_rows", "prefetch"]

# What `choose_words` works on: 512 bits.
WORDS = 8

_BYTE, _INDEX, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_WIDE = ir.VectorType(_WORD, WORDS)
_BYTES, _BITS = ir.VectorType(_BYTE, 64), ir.VectorType(ir.IntType(1), 64)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, pointed: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), pointed.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def choose_words(
    typing_context: Any, planes: Any, one: Any, other: Any, sides: Any, side: Any, chosen: Any, place: Any
) -> Any:
    """Write ``a ^ (s & (a ^ b))`` for the words from `one` (a) and `other` (b) of `planes`, and `side` (s).

    All arrays are contiguous, of one dimension and of uint64.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def address(array: int, index: int) -> Any:
            return _address(context, builder, signature.args[array], values[array], values[index], _WIDE)

        a, b, s = (builder.load(address(*at), align=8) for at in ((0, 1), (0, 2), (3, 4)))
        found = builder.xor(a, builder.and_(s, builder.xor(a, b)))
        builder.store(found, address(5, 6), align=8)
        return context.get_dummy_value()

    return types.void(planes, one, other, sides, side, chosen, place), generate


@intrinsic  # type: ignore[untyped-decorator]
def larger(typing_context: Any, one: Any, other: Any) -> Any:
    """Return the larger of two floats of one type, neither of which is NaN.

    A loop that keeps the larger of two values becomes vector code: the maximum of 360 floats takes 11 ns, and
    130 ns where Python chooses, because Numba does not mark that choice as free of NaN.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        flags = ("nnan", "nsz")
        is_larger = builder.fcmp_ordered(">", *values, flags=flags)
        return builder.select(is_larger, *values, flags=flags)

    return one(one, one), generate


@intrinsic  # type: ignore[untyped-decorator]
def mark_rows(typing_context: Any, words: Any, word: Any, bit: Any, flags: Any, place: Any) -> Any:
    """Set `bit` in those of 64 bytes of `flags` from `place` on whose bits in a word are 1, lowest first."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        is_set = builder.load(_address(context, builder, kinds[0], values[0], values[1], _WORD), align=8)
        is_set = builder.bitcast(is_set, _BITS)
        any_bytes = ir.Constant(_BYTES, ir.Undefined)
        mark = builder.insert_element(any_bytes, builder.trunc(values[2], _BYTE), _INDEX(0))
        mark = builder.shuffle_vector(mark, any_bytes, ir.Constant(ir.VectorType(_INDEX, 64), [0] * 64))
        marks = builder.select(is_set, mark, ir.Constant(_BYTES, [0] * 64))
        target = _address(context, builder, kinds[3], values[3], values[4], _BYTES)
        builder.store(builder.or_(builder.load(target, align=1), marks), target, align=1)
        return context.get_dummy_value()

    return types.void(words, word, bit, flags, place), generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Start to load the element at `index` of a contiguous array of one dimension, without waiting for it.

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
