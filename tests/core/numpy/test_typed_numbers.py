"""Residuals that are Python numbers have a dtype, as in the reference, and stay numbers."""

import numpy as np
import pytest

import pellucid as pl
from pellucid.numpy.typed_numbers import TypedComplex, TypedFloat, TypedInt, with_array_dtype


@pytest.mark.parametrize(
    ("number", "kind", "dtype"),
    [(2, TypedInt, "int32"), (1.5, TypedFloat, "float32"), (1j, TypedComplex, "complex64")],
)
def test_numbers_have_a_dtype(number, kind, dtype) -> None:
    x = with_array_dtype(number)
    assert (type(x), x.dtype, x.shape, x.ndim, x.size) == (kind, np.dtype(dtype), (), 0, 1)
    assert (x, hash(x), x * 2) == (number, hash(number), number * 2)
    assert pl.typeof(x) == pl.typeof(number)
    with pl.enable_x64(True):
        assert with_array_dtype(number).dtype == np.dtype(type(number))


def test_a_number_stays_weak() -> None:
    x = pl.numpy.ones(2, "bfloat16")
    assert (
        (x * with_array_dtype(1.5)).dtype
        == pl.jit(lambda x: x * with_array_dtype(2))(x).dtype
        == x.dtype
    )


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_residuals_have_dtypes(transform) -> None:
    residuals = (1.5, 2, True, 1j, np.float64(3), np.ones(2))
    seen = []

    @pl.custom_vjp
    def f(x):
        return x

    def bwd(residuals, ct):
        seen.extend(residuals)
        return (ct * residuals[0] * residuals[1],)

    f.defvjp(lambda x: (x, residuals), bwd)
    assert transform(pl.grad(f))(2.0) == 3
    number, integer, flag, imaginary, scalar, array = seen
    assert (number, integer, imaginary) == (1.5, 2, 1j)
    assert flag is True
    assert {x.dtype.name for x in (number, scalar, array)} == {"float32"}
    assert isinstance(number, float)
    assert range(integer) == range(2)
