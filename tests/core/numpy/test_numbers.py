"""Single numbers that were wrong, and arguments that only traced or only eager calls took."""

from __future__ import annotations

import enum
import operator
import subprocess
import sys

import numpy as np
import pytest
from corpus import array_likes, numpy_expressions, wide_arrays

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import DtypeError, IntegerRangeError, ShapeError


def modes(function):
    """`function` eagerly and jitted."""
    return [function, pl.jit(function)]


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 10), ("float64", 22)])
def test_logarithms_of_powers_are_integers(dtype, largest) -> None:
    with pl.enable_x64(True):
        tens = np.array([10.0**k for k in range(largest + 1)], dtype)
        twos = np.ldexp(np.ones(200, dtype), np.arange(-100, 100))
        for log10, log2 in zip(modes(jnp.log10), modes(jnp.log2), strict=True):
            np.testing.assert_array_equal(log10(tens), np.arange(largest + 1))
            np.testing.assert_array_equal(log2(twos), np.arange(-100, 100))


def test_derivatives_of_logarithms_at_powers() -> None:
    np.testing.assert_allclose(pl.grad(jnp.log10)(100.0), 1 / (100 * np.log(10)), rtol=1e-6)
    np.testing.assert_allclose(pl.grad(jnp.log2)(8.0), 1 / (8 * np.log(2)), rtol=1e-6)


@pytest.mark.parametrize("log", [jnp.log2, jnp.log10])
def test_logarithms_of_complex_zero_and_infinity(log) -> None:
    actual = log(np.array([0, np.inf], np.complex64))
    assert not np.isnan(actual).any()
    np.testing.assert_array_equal(np.real(actual), [-np.inf, np.inf])


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "uint32"])
def test_remainders_of_integers_by_zero_are_zero(dtype) -> None:
    x, zero = np.array([0, 1, 7], dtype), np.zeros(3, dtype)
    remainders = [
        jnp.remainder,
        jnp.mod,
        jnp.fmod,
        lambda x, y: jnp.divmod(x, y)[1],
        lambda x, y: x % y,
    ]
    for function in remainders:
        for call in modes(function):
            np.testing.assert_array_equal(call(jnp.asarray(x), zero), zero)


def test_floating_quotients_by_zero_are_infinite() -> None:
    x = np.float32([1, -1, 0])
    for call in modes(jnp.floor_divide):
        np.testing.assert_array_equal(call(x, 0.0), [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(jnp.divmod(x, 0.0)[0], [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    "power",
    [
        lambda x: jnp.power(x, -1),
        lambda x: x**-1,
        lambda x: x ** np.int64(-1),
        lambda x: x ** jnp.int32(-1),
        lambda x: 2 ** jnp.int32(-1) * x,
    ],
)
def test_integers_to_known_negative_powers_are_refused(power) -> None:
    for call in modes(power):
        with pytest.raises(DtypeError, match="negative powers"):
            call(jnp.arange(3))


@pytest.mark.parametrize("x", [np.uint8([1, 255]), np.uint32([1, 2])], ids=["uint8", "uint32"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x == -1, lambda x: jnp.where(x == 1, x, -1), lambda x: x.at[0].set(-1), lambda x: jnp.clip(x, -1, 300),
        lambda x: jnp.full_like(x, -1), lambda x: jnp.maximum(x, -1), lambda x: jnp.max(x, initial=-1),
        lambda x: jnp.sum(x, initial=-1), lambda x: x + 300, lambda x: jnp.full((2,), -1, x.dtype),
        lambda x: lax.full_like(x, -1),
    ],
)  # fmt: skip
def test_python_integers_wrap_beside_unsigned_arrays(function, x) -> None:
    eager, jitted = (call(jnp.asarray(x)) for call in modes(function))
    np.testing.assert_array_equal(eager, jitted)
    assert eager.dtype == jitted.dtype


def test_python_integers_beyond_the_default_dtype_are_refused() -> None:
    for function in (lambda x: x + 2**31, lambda x: x + 2**40, lambda x: x + 2**70):
        for call in modes(function):
            with pytest.raises(IntegerRangeError, match="too large"):
                call(jnp.arange(3.0))


@pytest.mark.parametrize("name", ["sum", "median", "where", "fft.rfftn", "polyval", "full"])
def test_messages_name_the_function_that_the_user_calls(name) -> None:
    given = {"where": (True, 2**40, 1), "polyval": (jnp.ones(2), 2**40), "full": ((2,), 2**40)}
    with pytest.raises(IntegerRangeError, match=rf"^`{name.split('.')[-1]}`: a Python integer"):
        operator.attrgetter(name)(jnp)(*given.get(name, (2**40,)))


def test_an_infinite_number_becomes_an_integer_alike_everywhere() -> None:
    eager, jitted = (call(np.int32([1, 2])) for call in modes(lambda x: jnp.full_like(x, np.inf)))
    np.testing.assert_array_equal(eager, jitted)


@pytest.mark.parametrize(
    "divide",
    [
        lambda x: jnp.divide(x, 0),
        lambda x: jnp.divide(x, jnp.zeros(4, np.complex64)),
        pl.vmap(lambda x: jnp.divide(x, 0)),
        lambda x: jnp.divide(np.complex64([0, 1, 3j, np.inf]), 0),
    ],
)
def test_complex_quotients_by_a_constant_zero(divide) -> None:
    x = np.complex64([0, 1, 3j, np.inf])
    with np.errstate(all="ignore"):
        expected = x / np.complex64(0)
    for call in modes(divide):
        np.testing.assert_array_equal(call(x), expected)


@pytest.mark.parametrize("x64", [False, True])
def test_whole_numbers_in_geometric_progression(x64) -> None:
    with pl.enable_x64(x64):
        for call in modes(lambda x: jnp.geomspace(x, 256, 9, dtype=int)):
            np.testing.assert_array_equal(call(1.0), 2 ** np.arange(9))
        np.testing.assert_array_equal(jnp.logspace(0, 9, 10, dtype=int), 10 ** np.arange(10))
        assert jnp.geomspace(3, 1000, 7)[-1] == 1000


@pytest.mark.parametrize("text", wide_arrays.AS_THE_REFERENCE)
def test_wide_arrays_with_64_bits_off(oracle, text) -> None:
    oracle.check(wide_arrays.evaluate, text, library=pl)


def test_a_sort_of_wide_elements_with_64_bits_off_is_differentiated() -> None:
    """The reference scatters zeros of 32 bits there, and fails."""
    with pl.enable_x64(True):
        a = jnp.array([2.5, 0.5, 1.5])
    gradient = pl.grad(lambda x: (jnp.sort(x) * jnp.array([1.0, 2.0, 3.0])).sum())(a)
    assert gradient.dtype == np.float64
    np.testing.assert_array_equal(gradient, [3.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "function", [jnp.argsort, lambda x: jnp.nonzero(x)[0], jnp.argmax, lambda x: jnp.where(x)[0]]
)
def test_indices_are_wide_where_64_bits_are_on(function) -> None:
    with pl.enable_x64(True):
        assert function(jnp.arange(3.0)).dtype == np.int64
    assert function(jnp.arange(3.0)).dtype == np.int32


def test_long_ranges_are_counted_and_not_made() -> None:
    assert pl.eval_shape(lambda: jnp.arange(3 * 10**9, dtype="float32")).shape == (3 * 10**9,)
    assert pl.eval_shape(lambda: jnp.arange(0, 10**9, 0.5)).shape == (2 * 10**9,)
    with pytest.raises(IntegerRangeError):
        jnp.arange(2**31, 2**31 + 2)


def test_masks_of_triangles_are_not_constants() -> None:
    for function in (jnp.tril, jnp.triu, lambda x: jnp.diag(x[0])):
        program = pl.make_jaxpr(function)(np.ones((64, 64), np.float32))
        assert sum(np.size(c) for c in program.consts) < 64


class Color(enum.IntEnum):
    RED = 3


class Weight(float, enum.Enum):
    HEAVY = 2.5


def test_enumerations_are_the_numbers_that_they_are() -> None:
    for call in modes(lambda x: (x + Color.RED, x * Weight.HEAVY)):
        added, scaled = call(jnp.arange(2))
        assert (added.dtype, scaled.dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(scaled, [0, 2.5])
    assert jnp.asarray(Color.RED).weak_type


def test_numbers_made_under_a_trace_are_arrays() -> None:
    def function(x):
        result = [
            jnp.float16(3),
            jnp.imag(2),
            jnp.conj(2.5),
            jnp.positive(True),
            jnp.array(2.7, "int32"),
        ]
        assert all(isinstance(m, pl.Array) for m in result)
        return x

    pl.jit(function)(1.0)
    assert pl.jit(lambda x: jnp.uint8(200) + 100 + x)(jnp.uint8(0)) == 44


def test_traced_arrays_tell_their_bytes() -> None:
    assert pl.jit(lambda x: x.itemsize + x.nbytes)(np.ones((2, 3), np.int8)) == 7


def test_diagonals_may_be_traced() -> None:
    np.testing.assert_array_equal(pl.jit(lambda k: jnp.eye(3, k=k))(1), np.eye(3, k=1))
    batched = pl.vmap(lambda k: jnp.tri(3, k=k))(np.arange(-1, 2))
    np.testing.assert_array_equal(batched, [np.tri(3, k=k) for k in (-1, 0, 1)])


@pytest.mark.parametrize("repeats", [[1, 2, 0], [0, 0, 4], [3, 3, 3], [1, 0, 0]])
@pytest.mark.parametrize("total", [2, 5, 9])
def test_repeats_to_a_total_length(repeats, total) -> None:
    x, order = np.float32([5, 6, 7]), np.repeat([0, 1, 2], repeats)
    order = np.concatenate([order, np.full(total, 2)])[
        :total
    ]  # the last element fills what is left
    for call in modes(lambda r: jnp.repeat(x, r, total_repeat_length=total)):
        np.testing.assert_array_equal(call(np.int8(repeats)), x[order])


def test_copies_are_of_their_own() -> None:
    x = jnp.arange(3.0)
    for copied in (jnp.array(x, copy=True), x.copy(), x.astype("float32", copy=True)):
        assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    names = [str(e.primitive) for e in pl.make_jaxpr(lambda x: jnp.array(x))(x).eqns]
    assert names == ["copy"]


def test_bytes_in_reverse_order_and_views() -> None:
    for x in (np.float32([1, -2]), np.int16([[1, 2]]), np.complex64([1 + 2j]), np.uint8([3])):
        np.testing.assert_array_equal(
            np.asarray(jnp.asarray(x).byteswap()).view(np.uint8), x.byteswap().view(np.uint8)
        )
        np.testing.assert_array_equal(jnp.asarray(x).view("uint8"), x.view(np.uint8))
    np.testing.assert_array_equal(jnp.arange(4, dtype="uint8").view("uint16"), [256, 770])


def test_the_namespace_of_arrays() -> None:
    info = jnp.arange(2).__array_namespace__().__array_namespace_info__()
    assert info.default_dtypes()["integral"] == np.int32
    assert "float64" not in info.dtypes(kind="real floating")
    assert info.devices()[0] is None
    with pytest.raises(ValueError, match="2024"):
        jnp.arange(2).__array_namespace__(api_version="1999.1")
    assert pl.__version__.startswith(".".join(map(str, pl.__version_info__)))


def test_traced_sizes_ask_for_what_makes_them_known() -> None:
    with pytest.raises(TypeError, match="size="):
        pl.jit(jnp.nonzero)(np.ones(3))
    with pytest.raises(TypeError, match="total_repeat_length"):
        pl.jit(jnp.repeat)(np.ones(3), np.arange(3))


def test_a_scalar_type_is_the_first_thing_called() -> None:
    for module in ("pellucid", "pellucid.numpy"):
        program = f"import {module}, pellucid.numpy as jnp; print(jnp.float32(3))"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout == "3.0\n"


@pytest.mark.parametrize("text", array_likes.AS_THE_REFERENCE)
def test_objects_that_become_arrays(oracle, text) -> None:
    oracle.check(array_likes.evaluate, text, library=pl)


@pytest.mark.parametrize(("text", "meaning"), array_likes.BEYOND_THE_REFERENCE.items())
def test_objects_that_become_arrays_are_taken_by_all_functions(text, meaning) -> None:
    ours, plain = (array_likes.evaluate(pl, t) for t in (text, meaning))
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize(
    "text",
    [
        "jax.grad(lambda a: a ** 0.0)(2.0)", "jax.grad(lambda a: jnp.power(a, 3.0))(2.0)", "jnp.linspace(0.0, 1.0, 1)",
        "jax.grad(lambda a: jnp.sort(a)[0])(jnp.full((2,), 3.0))", "jax.grad(lambda a: a[y].sum())(jnp.full((3,), 3.0))",
        "jax.hessian(lambda a: a ** 2.0)(1.0)", "jax.jacrev(lambda a: a ** 2.0)(1.0)",
        "jax.jacfwd(lambda a, b: a * b, argnums=(0, 1))(jnp.float32(1), jnp.float16(2))",
        "jax.grad(lambda a: jnp.linspace(a, 1.0, 5).sum())(1.0)", "jnp.asarray(jnp.asarray(2.5), 'float32')",
        "jax.jit(lambda a: jnp.float32(a))(2.5)", "jnp.tril(jnp.full((2, 2), 3.0))", "jnp.diag(jnp.full((2,), 3.0), 1)",
        "jnp.rint(3)", "jnp.hypot(y, 2.5)", "jnp.angle(2.5)", "jnp.imag(2.5)",
        "jax.lax.cond(True, lambda a: a, lambda a: a, x)", "jax.lax.switch(0, [lambda a: a] * 2, 2.0)",
        "jax.lax.fori_loop(0.0, 3.0, lambda i, c: c + i, 0.0)", "jax.lax.top_k(x, 2)",
    ],
)  # fmt: skip
def test_weak_types_and_kinds_of_results(oracle, text) -> None:
    x, y = np.float32([3, 1, 2]), np.int32([0, 1])
    oracle.check(numpy_expressions.evaluate, text, x, y, library=pl)


def test_jit_is_disabled_by_keyword() -> None:
    kinds = []
    function = pl.jit(lambda x: kinds.append(type(x)) or x)
    with pl.disable_jit(disable=True):
        function(np.ones(2))
        with pl.disable_jit(disable=False):
            function(np.ones(2))
    assert kinds[0] is np.ndarray is not kinds[1]


def test_vectorize_notes_rank_promotion() -> None:
    x, y = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    with pl.numpy_rank_promotion("raise"):
        jnp.vectorize(lambda a, b: a + b)(x, 1.0)
        for function in (
            jnp.vectorize(lambda a, b: a + b),
            jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()"),
        ):
            with pytest.raises(ValueError, match="promotes ranks"):
                function(x, y)


@pytest.mark.parametrize(
    "like", [jnp.zeros_like, lambda x, shape: lax.full_like(x, 1, shape=shape)]
)
def test_arrays_like_one_on_a_device_are_on_it(like) -> None:
    device = pl.devices()[1]
    x = pl.device_put(np.ones(3, np.float32), device)
    assert like(x, shape=(5,)).devices() == {device}
    assert lax.full((2,), 1.0, sharding=device).devices() == {device}


@pytest.mark.parametrize(("function", "base"), [(jnp.logaddexp, np.e), (jnp.logaddexp2, 2.0)])
def test_derivatives_of_sums_of_logarithms_where_the_operands_are_equal(function, base):
    f = lambda v: function(v[0], v[1])
    for x in ([2.0, 2.0], [0.0, 0.0], [-1.0, -1.0]):
        np.testing.assert_allclose(pl.grad(f)(np.array(x, np.float32)), [0.5, 0.5], rtol=1e-6)
        curvature = np.log(base) / 4 * np.array([[1, -1], [-1, 1]])
        np.testing.assert_allclose(pl.hessian(f)(np.array(x, np.float32)), curvature, rtol=1e-6)
    assert pl.jvp(function, (2.0, 2.0), (1.0, 0.0))[1] == 0.5


def test_ufuncs_take_no_array_to_write_into() -> None:
    assert jnp.add(1, 2, out=None, where=None) == 3
    assert jnp.logaddexp(0.0, 0.0, out=None, where=None) == jnp.log(2.0)
    for function in (jnp.add, jnp.subtract, jnp.logaddexp, jnp.logaddexp2):
        with pytest.raises(NotImplementedError, match="out"):
            function(1.0, 2.0, out=np.zeros(()))
        with pytest.raises(NotImplementedError, match=r"jnp\.where"):
            function(1.0, 2.0, where=np.array(True))


def test_indices_of_argsort_have_the_dtype_asked_for_if_it_holds_them() -> None:
    assert jnp.argsort(jnp.zeros((2, 128)), dtype="int8").dtype == np.int8
    for size, dtype in ((129, "int8"), (2, float), (2, bool)):
        with pytest.raises(ValueError, match="integer dtype"):
            jnp.argsort(jnp.zeros(size), dtype=dtype)


def test_searches_read_single_elements() -> None:
    text = str(pl.make_jaxpr(jnp.searchsorted)(jnp.zeros(1000), 1.0))
    assert text.count("f32[1000]") == 2  # operands of the program and of its loop
    a = np.array([-np.inf, -1.0, -0.0, 0.0, 2.0, np.nan, -np.nan], np.float32)
    for side in ("left", "right"):
        places = [jnp.searchsorted(a, a, side, method=m) for m in ("scan", "scan_unrolled")]
        np.testing.assert_array_equal(places, [np.searchsorted(a, a, side)] * 2)
    assert not jnp.searchsorted(jnp.zeros(0), jnp.ones(3)).any()


def test_none_is_no_array() -> None:
    for call in (
        lambda: jnp.array(None),
        lambda: jnp.array([1.0, None]),
        lambda: jnp.vectorize(lambda x: x)(None),
        lambda: jnp.vectorize(lambda x, y: y, signature="(n),(n)->(n)")(None, jnp.ones(2)),
    ):
        with pytest.raises(ValueError, match=r"needs numbers|without an array|besides None"):
            call()
    assert jnp.vectorize(lambda x, y: x)(1.0, None) == 1
    total = jnp.vectorize(lambda x: jnp.asarray(x.sum()), excluded={0})
    assert total(np.arange(3)) == 3  # an excluded array beside no other is no None


def test_a_function_that_is_given_sizes_as_arguments_names_itself() -> None:
    with pytest.raises(TypeError, match="empty: no dtype") as caught:
        jnp.empty(2, 3)
    assert "`empty((2, 3))`" in str(caught.value)


def test_signatures_of_vectorize_state_sizes() -> None:
    def add(x):
        return jnp.sum(x)

    pairs = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(jnp.vectorize(add, signature="(2)->()")(pairs), [2, 2, 2])
    outer = jnp.vectorize(lambda a, b: a @ b, signature="(3,n),(n)->(3)")
    assert outer(np.ones((3, 4)), np.ones((5, 4))).shape == (5, 3)
    with pytest.raises(ShapeError, match="argument 0 of `add` has another size"):
        jnp.vectorize(add, signature="(3)->()")(pairs)
    with pytest.raises(ShapeError, match=r"result 0 of .* has another size"):
        jnp.vectorize(lambda x: jnp.stack([x, x]), signature="()->(3)")(pairs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("x", [0.0, 1e-5, 1e-3, 0.3, -0.63, 0.65, 2.5])
def test_derivatives_of_sinc_near_its_removable_singularity(dtype, x) -> None:
    # sinc(x) is the integral of cos(pi x t) over t from 0 to 1, whose integrand has smooth derivatives.
    t, weights = np.polynomial.legendre.leggauss(40)
    t, weights = (t + 1) / 2, weights / 2
    with pl.enable_x64(True):
        x, derivative = np.dtype(dtype).type(x), jnp.sinc
        for order in range(7):
            phase = np.pi * float(x) * t + order * np.pi / 2
            expected = np.sum(weights * (np.pi * t) ** order * np.cos(phase))
            tolerance = 20 * np.pi**order * np.finfo(dtype).eps
            np.testing.assert_allclose(derivative(x), expected, rtol=0, atol=tolerance)
            derivative = pl.grad(derivative)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int4"])
def test_powers_of_known_powers_of_two_wrap_as_products_do(dtype):
    exponents = jnp.arange(8 if dtype == "int4" else 70).astype(dtype)
    for number in (-1, 0, 1, 2, -2, 4, -4, 1024, 3):
        if (dtype[0] == "u" and number < 0) or (dtype == "int4" and abs(number) > 4):
            continue
        found, other = number**exponents, jnp.full_like(exponents, number) ** exponents
        assert found.dtype == other.dtype
        np.testing.assert_array_equal(found, other)
    signs = np.asarray((-1) ** jnp.arange(-5, 6))
    np.testing.assert_array_equal(signs, [-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1])


def test_powers_of_known_numbers_are_few_operations():
    x = np.arange(3)
    for number, most in {-1: 8, 1: 2, 0: 5, 2: 40}.items():
        assert len(pl.make_jaxpr(lambda n, b=number: b**n)(x).jaxpr.eqns) <= most
    np.testing.assert_array_equal(pl.vmap(lambda n: 2**n)(jnp.arange(4)), [1, 2, 4, 8])
