"""Matrix products of a warpgroup, which run beside it until they are waited for.

In a program that runs by itself a product is made when it starts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, dtypes
from pellucid._machine.higher_order.calls import JitParams
from pellucid._machine.ir import Values
from pellucid._machine.refs.access import RefView, addupdate, get
from pellucid._machine.refs.primitives import OfReference
from pellucid._machine.tracing import is_reference, type_of
from pellucid.kernels.parts import Parts
from pellucid.kernels.semaphores import OnParts, bound
from pellucid.numpy import dot

from .fences import count
from .memory import ACC, Memory, MemorySpace, check_kind, kind_of, text_of

_FLOATS = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2")


class ProductParams(NamedTuple):
    """`parts` are the accumulator, the left matrix (None if it is in registers: then it is the operand behind them), the right matrix."""

    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("wgmma", self.jaxpr)


class Product(OnParts):
    """Starts adding a product of matrices to an accumulator."""

    name = "wgmma"
    traits = OfReference.traits.replace(returns_list=True)


class AccumulatorLoadParams(NamedTuple):
    """`parts` has the accumulator; at most `wait_n` products are in flight when it is read, any number if that is None."""

    wait_n: int | None
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("wgmma_accumulator_load", self.jaxpr)


class AccumulatorLoad(OnParts):
    """What an accumulator holds."""

    name = "wgmma_accumulator_load"


wgmma_p, accumulator_load_p = Product(), AccumulatorLoad()


def wgmma(acc: Any, a: Any, b: Any) -> None:
    """Start adding the product of `a` and `b` to the accumulator `acc`: `acc[...] += a[...] @ b[...]`.

    `b` is a reference to shared memory, or a part or transposition of one; `a` such a one, or a matrix. Until `wgmma_wait`, or reading `acc`, has ended,
    `a` and `b` must not be written. Raises: ArgumentTypeError for other operands, shapes and dtypes.
    """
    kind = check_kind("wgmma", acc, ACC, "an accumulator, scratch of the type `ACC(shape)`")
    in_memory = is_reference(a) or type(a) is RefView
    for ref in (a, b) if in_memory else (b,):
        found = kind_of(ref)
        if not isinstance(found, Memory) or found.memory_space is not MemorySpace.SMEM:
            raise ArgumentTypeError(
                "wgmma takes matrices in shared memory, SMEM; the left one may be a value.",
                got=f"got {text_of(ref)}",
            )
    left = (a.shape, np.dtype(a.dtype)) if in_memory else (type_of(a).shape, type_of(a).dtype)
    right = b.shape, np.dtype(b.dtype)
    text = ", ".join([f"{dtypes.short_name(t)}{list(s)}" for s, t in (left, right)])
    fits = len(left[0]) == len(right[0]) == 2 and left[0][1] == right[0][0]
    if not fits or (left[0][0], right[0][1]) != tuple(acc.shape):
        raise ArgumentTypeError(
            "wgmma: the product of the matrices has the shape of the accumulator.",
            got=f"{text}, accumulator of shape {list(acc.shape)}",
        )
    names = dtypes.short_name(left[1]), np.dtype(left[1]).name
    is_integer = np.dtype(left[1]) in (np.dtype(np.int8), np.dtype(np.uint8))
    if left[1] != right[1] or not (is_integer or names[1] in _FLOATS):
        raise ArgumentTypeError(
            "wgmma: both matrices are of one of bfloat16, float16, float32, float8_e4m3fn, float8_e5m2, int8.",
            got=text,
        )
    if is_integer != (kind.dtype.kind == "i"):
        raise ArgumentTypeError(
            "wgmma: the accumulator of integers is of int32, that of floating numbers of float32 or float16.",
            got=f"{text}, accumulator of {kind.dtype}",
        )

    def define(views: Values, others: Values) -> Values:
        acc, left, right = views
        x = others[0] if left is None else get(left)
        y = dot(x, get(right), preferred_element_type=acc.dtype)
        addupdate(acc, ..., y.astype(acc.dtype))
        return []

    refs, others = ([acc, a, b], []) if in_memory else ([acc, None, b], [a])
    bound(wgmma_p, ProductParams(), "wgmma", refs, others, define)


def wgmma_accumulator_load(acc: Any, *, wait_n: int | None = 0) -> Any:
    """What an accumulator holds, after a wait until at most `wait_n` products are in flight; without one if that is None."""
    check_kind("wgmma_accumulator_load", acc, ACC, "an accumulator")
    params = AccumulatorLoadParams(None if wait_n is None else count("wgmma_accumulator_load", wait_n))  # fmt: skip
    define = lambda views, _: [get(views[0])]
    [value] = bound(accumulator_load_p, params, "wgmma_accumulator_load", [acc], [], define)
    return value
