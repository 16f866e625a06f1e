"""Complex numbers: their parts, and how they are put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid.base import DtypeError
from pellucid.ir import ARITHMETIC, shaped_array
from pellucid.tracing import bind1, type_of

from .families import COMPLEX, FLOATING, Elementwise, constant_like, kind_of

_REAL_OF = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_COMPLEX_OF = {real: whole for whole, real in _REAL_OF.items()}


def real_dtype(dtype: Any, *_: Any) -> np.dtype:
    """The dtype of the parts of a complex `dtype`; any other is its own."""
    return _REAL_OF.get(dtype, dtype)


def complex_dtype(dtype: Any, *_: Any) -> np.dtype:
    """The complex dtype with parts of `dtype`; raises DtypeError unless that is float32 or float64."""
    result = _COMPLEX_OF.get(dtype)
    if result is None:
        raise DtypeError(
            f"no complex numbers have parts of dtype {dtype.name}.",
            do="Convert to float32 or float64 first.",
        )
    return result


def real(x: Any) -> Any:
    """Real part of complex `x`, element by element.

    Source: StableHLO specification, `real`.

    >>> real(np.complex64(1 + 2j))
    Array(1., dtype=float32)
    """
    return bind1(real_p, x)


def imag(x: Any) -> Any:
    """Imaginary part of complex `x`, element by element.

    Source: StableHLO specification, `imag`.

    >>> imag(np.complex64(1 + 2j))
    Array(2., dtype=float32)
    """
    return bind1(imag_p, x)


def complex(x: Any, y: Any) -> Any:
    """The complex numbers `x + iy`; both parts are float32, or both float64.

    Source: StableHLO specification, `complex`.

    >>> complex(np.float32(1), np.float32(2))
    Array(1.+2.j, dtype=complex64)
    """
    return bind1(complex_p, x, y)


# A real-linear map T is transposed by ⟨T x, y⟩ = ⟨x, Tᵀ y⟩ with ⟨x, y⟩ = Re Σ x y, so that Tᵀ has no
# conjugate where T is complex-linear: realᵀ y = y, imagᵀ y = -i y, conjᵀ y = conj y.
real_p: Elementwise = Elementwise(
    "real", traits=ARITHMETIC.replace(flops=0.0, linear="all", cheap=True), accepts=COMPLEX, hlo="real", result=real_dtype,
    tangents=(lambda t, y, x: real(t),),
    transposes=(lambda c, x: complex(c, constant_like(c, 0)),),
)  # fmt: skip
imag_p: Elementwise = Elementwise(
    "imag", traits=ARITHMETIC.replace(flops=0.0, linear="all", cheap=True), accepts=COMPLEX, hlo="imag", result=real_dtype,
    tangents=(lambda t, y, x: imag(t),),
    transposes=(lambda c, x: conj(complex(constant_like(c, 0), c)),),
)  # fmt: skip
complex_p: Elementwise = Elementwise(
    "complex", traits=ARITHMETIC.replace(flops=0.0, linear="all"), accepts=FLOATING, hlo="complex", result=complex_dtype,
    tangents=(
        lambda t, z, x, y: complex(t, constant_like(t, 0)),
        lambda t, z, x, y: complex(constant_like(t, 0), t),
    ),
    transposes=(lambda c, x, y: real(c), lambda c, x, y: imag(conj(c))),
)  # fmt: skip


# conj ---------------------------------------------------------------------------------------------


class ConjParams(NamedTuple):
    """`input_dtype` decides what the cotangent is converted to: a real operand gets the real part."""

    input_dtype: Any


def conj(x: Any) -> Any:
    """Complex conjugate of `x`, element by element; a real `x` becomes complex.

    >>> conj(np.complex64(1 + 2j))
    Array(1.-2.j, dtype=complex64)
    """
    return bind1(conj_p, x, params=ConjParams(type_of(x).dtype))


def _lower_conj(ctx, operands, params: ConjParams):
    result = ctx.avals_out[0]
    part = shaped_array(result.shape, real_dtype(result.dtype))
    if kind_of(params.input_dtype) == "floating":
        return ctx.op1("stablehlo.complex", result, [operands[0], ctx.full(part, 0)])
    x = ctx.op1("stablehlo.real", part, operands)
    y = ctx.op1("stablehlo.negate", part, [ctx.op1("stablehlo.imag", part, operands)])
    return ctx.op1("stablehlo.complex", result, [x, y])


def _conj_result(dtype) -> np.dtype:
    return dtype if kind_of(dtype) == "complex" else complex_dtype(dtype)


def _conj_transpose(c, x, *, params: ConjParams):
    back = conj(c)
    return real(back) if kind_of(params.input_dtype) == "floating" else back


conj_p: Elementwise = Elementwise(
    "conj", traits=ARITHMETIC.replace(linear="all"), accepts=COMPLEX | FLOATING, hlo=_lower_conj,
    result=lambda dtype, params: _conj_result(dtype),
    tangents=(lambda t, y, x, params: bind1(conj_p, t, params=params),),
    transposes=(_conj_transpose,), rules_take_params=True,
)  # fmt: skip
