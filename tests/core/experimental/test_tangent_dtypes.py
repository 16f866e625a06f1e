"""Dtypes of users: stored as another dtype, with rules for tangents and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base import dtypes
from pellucid._machine.base.errors import DtypeError
from pellucid.core import ShapedArray
from pellucid.experimental import primal_tangent_dtype
from pellucid.extend.dtypes import ExtendedDType
from pellucid.interpreters.ad import add_jaxvals

CODE = primal_tangent_dtype("int8", "float32")


def codes(*values: int) -> Any:
    return lax.convert_element_type(np.array(values, np.int8), CODE)


def test_values_are_stored_as_the_primal_dtype() -> None:
    x = codes(1, 2, 3)
    assert (x.dtype, x.itemsize, CODE.name) == (CODE, 1, "PrimalTangentDType{i8/f32}")
    np.testing.assert_array_equal(lax.convert_element_type(x[1:], "int8"), [2, 3])
    rows = pl.jit(lambda x: jnp.stack([x, x]))(x)
    np.testing.assert_array_equal(lax.convert_element_type(rows, "int8"), [[1, 2, 3]] * 2)
    filled = pl.jit(lambda: lax.full((2,), 7, CODE))()
    np.testing.assert_array_equal(lax.convert_element_type(filled, "int8"), [7, 7])
    assert "int8" not in str(pl.make_jaxpr(lambda x: x.reshape(3, 1))(x))


def test_only_the_primal_dtype_is_converted() -> None:
    with pytest.raises(
        DtypeError, match=r"extended dtype can't be converted.*\n.*f32\[\].*PrimalTangent"
    ):
        lax.convert_element_type(jnp.float32(1), CODE)
    with pytest.raises(DtypeError, match="can't be converted"):
        lax.convert_element_type(codes(1), "float32")
    with pytest.raises(DtypeError, match="tangents that is floating or complex"):
        primal_tangent_dtype("int8", "int8")


def test_tangents_have_the_tangent_dtype() -> None:
    """A straight-through estimator: quantized values have derivatives of the floats that they stand for."""

    @pl.custom_vjp
    def quantize(x):
        return lax.convert_element_type(jnp.round(x).astype(np.int8), CODE)

    quantize.defvjp(lambda x: (quantize(x), None), lambda _, ct: (ct,))

    @pl.custom_vjp
    def dequantize(q):
        return lax.convert_element_type(q, np.int8).astype(np.float32)

    dequantize.defvjp(lambda q: (dequantize(q), None), lambda _, ct: (ct,))

    def loss(x):
        return (dequantize(quantize(x).reshape(2, 2)[0]) ** 2).sum()

    x = np.array([1.2, 2.6, 3.0, 4.0], np.float32)
    for transform in (lambda f: f, pl.jit):
        np.testing.assert_allclose(transform(pl.grad(loss))(x), [2, 6, 0, 0])
    assert pl.typeof(codes(1)).to_tangent_aval() == ShapedArray((1,), np.float32)


class _MaxRules:
    """Values stored as float32 whose cotangents are added by taking the greater."""

    physical_element_aval = staticmethod(lambda dtype: ShapedArray((), np.float32))
    convert_from = convert_to = staticmethod(lambda a, b: np.float32 in (a, b))
    tangent_dtype = staticmethod(lambda dtype: dtype)

    @staticmethod
    def zero(dtype):
        return lax.convert_element_type(np.float32(-np.inf), dtype)

    @staticmethod
    def add(dtype, x, y):
        return lax.convert_element_type(jnp.maximum(as_float(x), as_float(y)), dtype)


class amax(dtypes.extended):
    """Category of the dtype."""


@dataclass(frozen=True)
class AmaxDType(ExtendedDType):
    _rules: Any = _MaxRules
    type: Any = amax
    name: str = "amax"


AMAX = AmaxDType()


def as_float(x: Any) -> Any:
    return lax.convert_element_type(x, np.float32)


def as_amax(x: Any) -> Any:
    return lax.convert_element_type(x, AMAX)


def test_rules_add_tangents() -> None:
    x, y = as_amax(np.float32([1, 5])), as_amax(np.float32([2, 3]))
    np.testing.assert_array_equal(as_float(add_jaxvals(x, y)), [2, 5])
    assert dtypes.issubdtype(AMAX, amax)
    assert not dtypes.issubdtype(AMAX, dtypes.prng_key)


@pl.custom_vjp
def observe(x, seen):
    return x


observe.defvjp(lambda x, seen: (x, x), lambda x, ct: (ct, as_amax(jnp.abs(x)[None])))


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_cotangents_of_several_uses_are_added_by_rule(transform) -> None:
    def twice(x, seen):
        seen = as_amax(seen)
        return observe(3 * observe(x, seen), seen)

    def looped(x, seen):
        seen = as_amax(seen)
        return lax.scan(lambda c, _: (2 * observe(c, seen), None), x, None, length=3)[0]

    def unused(x, seen):
        return x

    seen = np.zeros(1, np.float32)
    assert transform(pl.grad(twice, argnums=1))(-2.0, seen) == 6
    assert transform(pl.grad(looped, argnums=1))(-2.0, seen) == 8
    assert transform(pl.grad(unused, argnums=1))(-2.0, seen) == 0
    tangent = pl.jvp(as_amax, (seen,), (np.ones(1, np.float32),))[1]
    np.testing.assert_array_equal(as_float(tangent), [1])
