"""Values that consist of arrays, in programs: quantized arrays, whose tangents are of another type, and boxes, which change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    MissingRule,
    UnsupportedError,
)
from pellucid.core import ShapedArray
from pellucid.experimental import hijax
from pellucid.extend.core import Effect

# Quantized arrays -----------------------------------------------------------------------------------------


@dataclass
class Quantized:
    codes: Any
    scale: Any


@dataclass(frozen=True)
class QuantizedType(hijax.HiType):
    shape: tuple[int, ...]

    def lo_ty(self):
        return [ShapedArray(self.shape, np.int8), ShapedArray((), np.float32)]

    def lower_val(self, hi_val):
        return [hi_val.codes, hi_val.scale]

    def raise_val(self, *lo_vals):
        return Quantized(*lo_vals)

    def to_tangent_aval(self):
        return ShapedArray(self.shape, np.float32)


hijax.register_hitype(Quantized, lambda q: QuantizedType(q.codes.shape))


class Quantize(hijax.HiPrimitive):
    def abstract_eval(self, x):
        return QuantizedType(x.shape), set()

    def to_lojax(self, x):
        scale = jnp.max(jnp.abs(x)) / 127
        return Quantized(jnp.round(x / scale).astype(np.int8), scale)

    def jvp(self, primals, tangents):
        return self.bind(*primals), tangents[0]


class Dequantize(hijax.HiPrimitive):
    def abstract_eval(self, q):
        return ShapedArray(q.shape, np.float32), set()

    def to_lojax(self, q):
        return q.codes.astype(np.float32) * q.scale

    def jvp(self, primals, tangents):
        return self.bind(*primals), tangents[0]


quantize, dequantize = Quantize("quantize").bind, Dequantize("dequantize").bind
X = np.arange(4, dtype=np.float32)


def test_values_are_arguments_and_results_of_programs() -> None:
    q = pl.jit(quantize)(X)
    assert isinstance(q, Quantized)
    assert q.codes.dtype == np.int8
    np.testing.assert_allclose(pl.jit(dequantize)(q), X, atol=0.02)
    np.testing.assert_allclose(pl.lax.cond(True, dequantize, lambda q: X * 0, q), X, atol=0.02)
    assert pl.typeof(q) == QuantizedType((4,))
    assert pl.eval_shape(dequantize, q).shape == (4,)


def test_values_are_carried_by_loops() -> None:
    def double(q, _):
        return quantize(2 * dequantize(q)), None

    q, _ = pl.lax.scan(double, quantize(X), None, length=3)
    np.testing.assert_allclose(dequantize(q), 8 * X, atol=0.2)
    q = pl.lax.fori_loop(0, 3, lambda i, q: double(q, None)[0], quantize(X))
    np.testing.assert_allclose(dequantize(q), 8 * X, atol=0.2)


def test_values_are_captured_and_batched() -> None:
    q = quantize(X)
    np.testing.assert_allclose(
        pl.vmap(lambda s: s * dequantize(q))(np.ones(2, np.float32)), np.stack([X, X]), atol=0.02
    )
    rows = pl.vmap(lambda x: dequantize(quantize(x)))(np.stack([X, 10 * X]))
    np.testing.assert_allclose(rows, np.stack([X, 10 * X]), atol=0.2)


@pytest.mark.parametrize(
    "transform", [lambda f: f, pl.jit, pl.checkpoint], ids=["eager", "jit", "remat"]
)
def test_derivatives_follow_the_rules_of_primitives(transform) -> None:
    """Rounding has no derivative; the rules say that quantizing has that of the identity."""

    def loss(x):
        return (transform(lambda x: dequantize(quantize(x)))(x) ** 2).sum()

    expected = 2 * dequantize(quantize(X))
    np.testing.assert_allclose(pl.grad(loss)(X), expected, rtol=1e-6)
    np.testing.assert_allclose(pl.jit(pl.grad(loss))(X), expected, rtol=1e-6)
    _, tangent = pl.jvp(loss, (X,), (np.ones(4, np.float32),))
    np.testing.assert_allclose(tangent, expected.sum(), rtol=1e-6)


def test_derivatives_pass_through_loops() -> None:
    def loss(x):
        q, _ = pl.lax.scan(
            lambda q, _: (quantize(2 * dequantize(q)), None), quantize(x), None, length=2
        )
        return dequantize(q).sum()

    np.testing.assert_allclose(pl.grad(loss)(X), 4 * np.ones(4))


def test_a_missing_rule_is_no_zero_derivative() -> None:
    class Unruled(Dequantize):
        jvp = hijax.HiPrimitive.jvp

    unruled = Unruled("unruled")
    with pytest.raises(MissingRule, match="`unruled` has no jvp rule"):
        pl.grad(lambda x: unruled.bind(quantize(x)).sum())(X)


def loss(q):
    return (dequantize(q) ** 2).sum()


Q, ONES = quantize(X), np.ones(4, np.float32)
GRADIENT = 2 * dequantize(Q)


def custom_gradient_of_q() -> Any:
    @pl.custom_vjp
    def f(q):
        return dequantize(q)

    f.defvjp(lambda q: (dequantize(q), q), lambda q, ct: (ct * dequantize(q),))
    return pl.grad(lambda q: 2 * f(q).sum())(Q)


def custom_tangent_of_q() -> Any:
    @pl.custom_jvp
    def f(q, scale):
        return dequantize(q)

    f.defjvp(lambda primals, tangents: (f(*primals), 2 * dequantize(primals[0]) * tangents[0]))
    return pl.grad(lambda q: f(q, 1.0).sum())(Q)


def gradient_through_scan(q: Any) -> Any:
    return pl.lax.scan(lambda q, _: (quantize(dequantize(q)), loss(q)), q, None, length=1)[1].sum()


@pytest.mark.parametrize(
    "gradient",
    [
        lambda: pl.grad(loss)(Q),
        lambda: pl.value_and_grad(loss)(Q)[1],
        lambda: pl.grad(lambda tree: loss(tree["q"]) * tree["x"])({"q": Q, "x": 1.0})["q"],
        lambda: pl.grad(lambda q: (loss(q), q), has_aux=True)(Q)[0],
        lambda: pl.grad(pl.checkpoint(loss))(Q),
        lambda: pl.jit(pl.grad(pl.jit(loss)))(Q),
        lambda: pl.grad(gradient_through_scan)(Q),
        lambda: pl.grad(lambda q: pl.lax.cond(True, loss, lambda q: 3 * loss(q), q))(Q),
        lambda: pl.vmap(lambda s: pl.grad(lambda q: s * loss(q))(Q))(np.ones(1, np.float32))[0],
        lambda: pl.vjp(loss, Q)[1](1.0)[0],
        lambda: pl.jit(lambda q: pl.vjp(loss, q))(Q)[1](1.0)[0],
        lambda: pl.vjp(lambda q: quantize(dequantize(q)), Q)[1](GRADIENT)[0],
        lambda: pl.vjp(lambda q: {"q": q}, Q)[1]({"q": GRADIENT})[0],
        lambda: pl.jvp(quantize, (X,), (GRADIENT,))[1],
        lambda: pl.jvp(lambda q: q, (Q,), (GRADIENT,))[1],
        lambda: pl.linearize(lambda q: quantize(dequantize(q)), Q)[1](GRADIENT),
        lambda: pl.jacrev(loss)(Q),
        lambda: pl.jacfwd(lambda q: quantize(loss(q)[None]))(Q)[0],
        custom_gradient_of_q,
        custom_tangent_of_q,
    ],
)
def test_derivatives_by_values_are_of_the_type_of_their_tangents(gradient) -> None:
    np.testing.assert_allclose(gradient(), GRADIENT, rtol=1e-6)


def test_second_derivatives_by_values() -> None:
    np.testing.assert_allclose(pl.grad(lambda q: pl.grad(loss)(q).sum())(Q), 2 * ONES)
    np.testing.assert_allclose(pl.grad(lambda x, q: x, argnums=1)(2.0, Q), 0 * ONES)
    np.testing.assert_allclose(pl.jvp(loss, (Q,), (ONES,))[1], GRADIENT.sum(), rtol=1e-6)
    np.testing.assert_allclose(pl.linearize(loss, Q)[1](ONES), GRADIENT.sum(), rtol=1e-6)


def test_tangents_of_other_types_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"QuantizedType.to_tangent_aval.*\n.*f32\[4\]"):
        pl.jvp(loss, (Q,), (Q,))
    with pytest.raises(ArgumentTypeError, match=r"QuantizedType.to_tangent_aval.*\n.*f32\[4\]"):
        pl.vjp(lambda q: q, Q)[1](Q)
    with pytest.raises(ArgumentValueError, match=r"f32\[3\], expected f32\[4\]"):
        pl.vjp(lambda q: q, Q)[1](np.ones(3, np.float32))
    with pytest.raises(ArgumentTypeError, match="structure of the primals"):
        pl.jvp(loss, (Q,), ((ONES,),))


@dataclass
class Point:
    x: Any
    y: Any


@dataclass(frozen=True)
class PointType(hijax.HiType):
    has_tangents: bool

    def lo_ty(self):
        return [ShapedArray((), np.float32)] * 2

    def lower_val(self, hi_val):
        return [hi_val.x, hi_val.y]

    def raise_val(self, *lo_vals):
        return Point(*lo_vals)

    def to_tangent_aval(self):
        return self if self.has_tangents else super().to_tangent_aval()


class Fixed(Point):
    pass


hijax.register_hitype(Point, lambda p: PointType(True))
hijax.register_hitype(Fixed, lambda p: PointType(False))


def test_tangents_may_be_such_values() -> None:
    point = Point(jnp.float32(3), jnp.float32(4))
    gradient = pl.grad(lambda p: p.x * p.y)(point)
    assert (float(gradient.x), float(gradient.y)) == (4, 3)
    (same,) = pl.vjp(lambda p: p, point)[1](gradient)
    assert (float(same.x), float(same.y)) == (4, 3)
    assert float(pl.jvp(lambda p: p.x * p.y, (point,), (gradient,))[1]) == 25


def test_values_without_tangents_are_refused() -> None:
    with pytest.raises(MissingRule, match=r"no tangents.*\n.*PointType.to_tangent_aval"):
        pl.grad(lambda p: p.x)(Fixed(jnp.float32(3), jnp.float32(4)))


def test_functions_of_trees_take_values_for_leaves() -> None:
    q = quantize(X)
    assert pl.tree.leaves([q, 1.0]) == [q, 1.0]
    assert pl.tree.map(lambda x: x, [q])[0] is q
    [(path, leaf)], _ = pl.tree_util.tree_flatten_with_path({"a": q})
    assert (path[0].key, leaf is q) == ("a", True)
    assert pl.tree.leaves([[q], 2], is_leaf=lambda x: isinstance(x, list) and len(x) == 1) == [
        [q],
        2,
    ]


def test_a_class_is_registered_once() -> None:
    with pytest.raises(ArgumentTypeError, match=r"registered already.*\n.*Quantized"):
        hijax.register_hitype(Quantized, lambda q: QuantizedType(q.codes.shape))


def test_a_class_without_room_for_tangents_is_refused() -> None:
    class Slotted:
        __slots__ = ("codes",)

        def __init__(self, codes):
            self.codes = codes

    @dataclass(frozen=True)
    class SlottedType(hijax.HiType):
        def lo_ty(self):
            return [ShapedArray((), np.int8)]

        def lower_val(self, hi_val):
            return [hi_val.codes]

        def raise_val(self, *lo_vals):
            return Slotted(*lo_vals)

        def to_tangent_aval(self):
            return ShapedArray((), np.float32)

    hijax.register_hitype(Slotted, lambda s: SlottedType())
    with pytest.raises(UnsupportedError, match="class Slotted has no room for its tangent"):
        pl.jit(lambda s: s)(Slotted(np.int8(1)))


# Boxes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    types: tuple[Any, ...]
    tree: Any


class Box:
    """A value whose tree of arrays `set` replaces, by one of any structure."""

    def __init__(self, content: Any = None) -> None:
        self._leaves, self._tree = pl.tree.flatten(content)

    def cur_qdd(self) -> State:
        return State(tuple(map(pl.typeof, self._leaves)), self._tree)

    @property
    def content(self) -> Any:
        state = pl.experimental.cur_qdd(self)
        return pl.tree.unflatten(state.tree, get_box_p.bind(self, state=state))

    @content.setter
    def content(self, content: Any) -> None:
        leaves, tree = pl.tree.flatten(content)
        set_box_p.bind(self, *leaves, tree=tree)


@dataclass(frozen=True)
class BoxType(hijax.MutableHiType):
    def lo_ty_qdd(self, state, /):
        return list(state.types)

    def read_loval(self, state, val, /):
        return val._leaves

    def new_from_loval(self, state, /, *vals):
        return Box(pl.tree.unflatten(state.tree, vals))

    def update_from_loval(self, state, val, /, *lo_vals):
        val._leaves, val._tree = list(lo_vals), state.tree


class GetBox(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, box, *, state):
        return list(state.types), set()

    def to_lojax(self, box, *, state):
        return box._leaves


class SetBox(hijax.HiPrimitive):
    multiple_results = True

    def to_lojax(self, box, *leaves, tree):
        box._leaves, box._tree = list(leaves), tree
        return []


get_box_p, set_box_p = GetBox("get_box"), SetBox("set_box")
hijax.register_hitype(Box, lambda box: BoxType())


def test_a_jitted_function_changes_its_argument() -> None:
    @pl.jit
    def add(box, x, other=None):
        assert other is None or other is box
        box.content = box.content + x
        return box.content * 2

    box = Box(jnp.float32(1))
    assert float(add(box, 2.0)) == 6
    assert float(add(box, 2.0, other=box)) == 10
    assert float(box.content) == 5
    assert pl.eval_shape(add, box, 1.0).shape == ()
    assert float(box.content) == 5


def test_an_argument_may_get_another_structure() -> None:
    @pl.jit
    def note(box, x):
        box.content = {**box.content, "sum": x.sum()}

    box = Box({})
    note(box, X)
    note(box, 2 * X)
    assert pl.tree.map(float, box.content) == {"sum": 12.0}


def test_values_that_change_are_results() -> None:
    @pl.jit
    def make(box, x):
        return box, Box(x + 1)

    box = Box(jnp.float32(1))
    same, other = make(box, 2.0)
    assert same is box
    assert float(other.content) == 3


def test_arguments_of_calls_within_programs() -> None:
    @pl.jit
    def increment(box):
        box.content = box.content + 1

    @pl.jit
    def twice(box):
        increment(box)
        increment(box)

    box = Box(jnp.float32(0))
    twice(box)
    assert float(box.content) == 2


def test_static_arguments_stay() -> None:
    @pl.jit(static_argnames="name")
    def note(box, name):
        box.content = {name: box.content}

    box = Box(jnp.float32(0))
    note(box, name="a")
    assert list(box.content) == ["a"]


def test_a_captured_value_is_changed_by_loops_branches_and_derivatives() -> None:
    box = Box(jnp.float32(0))

    def count(*_):
        box.content = box.content + 1

    pl.lax.scan(lambda c, _: (c, count()), 0, None, length=5)
    assert float(box.content) == 5
    pl.lax.cond(np.bool_(True), count, lambda: None)
    assert float(box.content) == 6

    def loss(x):
        box.content = pl.lax.stop_gradient(3 * x)
        return x**2 + box.content

    assert float(pl.grad(loss)(2.0)) == 4
    assert float(box.content) == 6
    assert float(pl.jit(pl.grad(loss))(3.0)) == 6
    assert float(box.content) == 9


def test_a_compiled_function_goes_on_changing_a_captured_value() -> None:
    box = Box(jnp.float32(0))

    @pl.jit
    def count(x):
        box.content = box.content + x

    count(1.0)
    count(2.0)
    assert float(box.content) == 3
    box.content = jnp.float32(10)
    count(1.0)
    assert float(box.content) == 11
    with pytest.raises(UnsupportedError, match=r"other types.*\n.*f32\[\] became f32\[2\]"):
        box.content = jnp.ones(2)


def test_an_argument_is_changed_by_loops_and_derivatives_within() -> None:
    @pl.jit
    def f(box, x):
        def loss(x):
            box.content = box.content + 1
            y, _ = pl.lax.scan(lambda c, _: (c * box.content, None), x, None, length=2)
            return y

        return pl.grad(loss)(x)

    box = Box(jnp.float32(1))
    assert float(f(box, 3.0)) == 4
    assert float(box.content) == 2


def test_a_value_made_in_a_program() -> None:
    @pl.jit
    def f(x):
        box = Box(x)
        pl.lax.fori_loop(0, 3, lambda i, _: setattr(box, "content", box.content * 2), None)
        return box.content

    assert float(f(1.0)) == 8


# The rest -------------------------------------------------------------------------------------------------


def test_states_are_those_of_values_that_change() -> None:
    assert pl.experimental.cur_qdd(Box(1.0)).types == (pl.typeof(1.0),)
    with pytest.raises(UnsupportedError, match=r"needs a value of a mutable type.*\n.*Quantized"):
        hijax.cur_qdd(quantize(X))
    with pytest.raises(UnsupportedError, match=r"mutable type.*\n.*f32\[\]"):
        pl.jit(hijax.cur_qdd)(1.0)


def test_allowed_effects() -> None:
    class Noted(Effect):
        pass

    assert not hijax.control_flow_allowed_effects.contains(Noted())
    hijax.control_flow_allowed_effects.add_type(Noted)
    assert hijax.control_flow_allowed_effects.contains(Noted())


@pytest.mark.parametrize(
    "method",
    [hijax.HiType().lo_ty, hijax.HiPspec().to_lo, hijax.HiType().to_tangent_aval],
)
def test_what_subclasses_define(method) -> None:
    with pytest.raises(NotImplementedError):
        method()


class Cube(hijax.VJPHiPrimitive):
    def __init__(self, aval, k=2.0):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"k": k}
        super().__init__()

    def expand(self, x):
        return self.params["k"] * x**3


class Backward(Cube):
    def vjp_fwd(self, nzs_in, x):
        assert nzs_in == (True,)
        return self(x), x

    def vjp_bwd_retval(self, res, outgrad):
        return (100.0 * outgrad * res,)


class Accumulating(Backward):
    vjp_bwd_retval = hijax.VJPHiPrimitive.vjp_bwd_retval

    def vjp_bwd(self, res, outgrad, accumulator):
        accumulator.accum(100.0 * outgrad * res)


class Forward(Cube):
    def jvp(self, primals, tangents):
        return self(*primals), 100.0 * tangents[0] * primals[0]


class Linear(Cube):
    def lin(self, nzs_in, x):
        return self(x), x

    def linearized(self, residuals, tangent):
        return 100.0 * tangent * residuals


@pytest.mark.parametrize("kind", [Backward, Accumulating, Forward, Linear])
def test_operations_with_derivatives_of_their_own(kind) -> None:
    operation = kind(pl.typeof(2.0))
    assert operation(2.0) == 16
    assert pl.grad(operation)(2.0) == 200
    assert pl.jit(pl.grad(operation))(2.0) == 200
    np.testing.assert_allclose(pl.vmap(pl.grad(operation))(X), 100 * X)
    if kind in (Forward, Linear):
        assert pl.jvp(operation, (2.0,), (1.0,))[1] == 200


class Scale(hijax.VJPHiPrimitive):
    """The values of a quantized array by which an array is multiplied."""

    def __init__(self, q):
        self.in_avals, self.params = (q, ShapedArray(q.shape, np.float32)), {}
        self.out_aval = self.in_avals[1]
        super().__init__()

    def expand(self, q, x):
        return dequantize(q) * x

    def vjp_fwd(self, nzs_in, q, x):
        self.params["nzs_in"] = nzs_in
        return self(q, x), (q, x)


class ScaleBackward(Scale):
    def vjp_bwd_retval(self, res, outgrad):
        q, x = res
        return outgrad * x, outgrad * dequantize(q)


class ScaleAccumulating(Scale):
    def vjp_bwd(self, res, outgrad, q_accumulator, x_accumulator):
        q, x = res
        q_accumulator.accum(outgrad * x / 2)
        q_accumulator.accum(outgrad * x / 2)
        x_accumulator.accum(outgrad * dequantize(q))


class ScaleForward(Scale):
    vjp_fwd = hijax.VJPHiPrimitive.vjp_fwd

    def jvp(self, primals, tangents):
        (q, x), (q_dot, x_dot) = primals, tangents
        return self(q, x), q_dot * x + dequantize(q) * x_dot


@pytest.mark.parametrize("kind", [ScaleBackward, ScaleAccumulating, ScaleForward])
def test_operations_on_values_with_derivatives_of_their_own(kind) -> None:
    operation = kind(QuantizedType((4,)))
    by_q, by_x = pl.jit(pl.grad(lambda q, x: operation(q, x).sum(), argnums=(0, 1)))(Q, X)
    np.testing.assert_allclose(by_q, X)
    np.testing.assert_allclose(by_x, dequantize(Q))
    np.testing.assert_allclose(pl.grad(lambda x: operation(Q, x).sum())(X), dequantize(Q))
    if kind is not ScaleForward:
        assert operation.params["nzs_in"] == (False, True)


def test_accumulators_without_cotangents_are_zero() -> None:
    class Silent(ScaleAccumulating):
        def vjp_bwd(self, res, outgrad, *accumulators):
            pass

    gradient = pl.grad(lambda q: Silent(QuantizedType((4,)))(q, X).sum())(Q)
    np.testing.assert_array_equal(gradient, 0 * ONES)


def test_operations_with_a_batching_rule_of_their_own() -> None:
    class Batched(Backward):
        def batch(self, axis_data, args, dims):
            assert (axis_data.size, dims) == (3, (0,))
            return -self.expand(*args), dims[0]

    operation = Batched(pl.typeof(2.0))
    np.testing.assert_allclose(pl.vmap(operation)(jnp.arange(3.0)), [0, -2, -16])
    assert operation == Batched(pl.typeof(2.0)) != Batched(pl.typeof(2.0), 3.0)


def test_operations_check_their_definition_and_arguments() -> None:
    with pytest.raises(ArgumentTypeError, match=r"(?s)Cube needs arguments.*f32\[3\].*f32\[\]"):
        Cube(pl.typeof(1.0))(jnp.ones(3))
    with pytest.raises(AttributeError, match=r"must set `self.in_avals`"):
        hijax.VJPHiPrimitive()

    class Both(Accumulating):
        def vjp_bwd_retval(self, res, outgrad):
            return (outgrad,)

    with pytest.raises(AttributeError, match="not both"):
        Both(pl.typeof(1.0))
