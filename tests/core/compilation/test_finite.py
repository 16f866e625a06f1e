"""`debug_nans` and `debug_infs`."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import NonFiniteError

jnp = pl.numpy
SOURCE = Path(__file__).read_text().splitlines()
LINE = 1 + next(i for i, line in enumerate(SOURCE) if line.endswith("# here"))
ZERO = np.zeros(2, np.float32)


def text(function, *arguments):
    with pytest.raises(NonFiniteError) as caught:
        function(*arguments)
    return str(caught.value).splitlines()


def test_a_jitted_function_names_equation_and_line():
    @pl.jit
    def function(x):
        y = x + 1
        z = jnp.log(x - 1)  # here
        return y * z

    assert np.isnan(function(ZERO)).all()
    with pl.debug_nans():
        assert text(function, ZERO) == [
            "`function` gave a result with NaN in it.",
            "  first made by `log`",
            f"  in test_finite.py, line {LINE}: `z = jnp.log(x - 1)  # here`",
            "  Turn off the option `debug_nans` to get the value nevertheless.",
        ]
        assert function(ZERO + 2).shape == (2,)
    assert np.isnan(function(ZERO)).all()


def test_the_equation_is_found_inside_inner_functions():
    inner = pl.jit(lambda x: jnp.sqrt(x - 1) * 2)
    function = pl.jit(lambda x: inner(x) + x)
    with pl.debug_nans():
        assert "  first made by `sqrt`" in text(function, ZERO)


def test_eager_operations_are_looked_at():
    x = pl.device_put(ZERO)
    assert np.isnan(x / x).all()
    with pl.debug_nans():
        assert text(lambda: pl.lax.div(x, x))[0] == "`div` gave a result with NaN in it."
        assert "test_finite.py" in text(lambda: x / x)[-2]
    assert np.isnan(x / x).all()


def test_infinities_are_another_option():
    function = pl.jit(lambda x: 1 / x)
    with pl.debug_nans():
        assert np.isinf(function(ZERO)).all()
    with pl.debug_infs():
        lines = text(function, ZERO)
        assert lines[0] == "`<lambda>` gave a result with infinity in it."
        assert lines[-1] == "  Turn off the option `debug_infs` to get the value nevertheless."
        assert np.isnan(pl.jit(lambda x: x * np.float32(np.nan))(ZERO)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "float8_e4m3fn"])
def test_every_inexact_dtype_is_looked_at(dtype):
    bad = np.array([np.nan]).astype(getattr(ml_dtypes, dtype, None) or dtype)
    function = pl.jit(lambda x: (x, 1))
    with pl.debug_nans():
        assert "NaN" in text(function, bad)[0]
        assert function(np.ones(1, bad.dtype))[1].tolist() == 1


BAD = np.float32(np.nan)
CAME_IN = {
    "argument": (lambda: pl.jit(lambda x, y: x * y)(1.0, BAD), "argument y, first taken by `mul`"),
    "Python number": (lambda: pl.jit(lambda x: x + 1)(float("nan")), "argument x, first taken by `add`"),
    "part of a tree": (lambda: pl.jit(lambda x: x["a"] * 2)({"a": BAD}), "argument x['a'], first taken by `mul`"),
    "literal": (lambda: pl.jit(lambda x: x * float("nan"))(1.0), "a constant, first taken by `mul`"),
    "constant": (lambda: pl.jit(lambda x: x + np.full(3, BAD))(1.0), "a constant, first taken by `add`"),
    "returned": (lambda: pl.jit(lambda x: x)(BAD), "argument x"),
    "inner function": (
        lambda: pl.jit(lambda x: pl.jit(lambda z: jnp.exp(z))(x + 1) * 2)(BAD),
        "argument x, first taken by `add`",
    ),
    "beside one that is handled": (
        lambda: pl.jit(lambda x, y: jnp.where(x > 0, jnp.log(x), 0.0) + y)(-1.0, BAD),
        "argument y, first taken by `add`",
    ),
    "library function": (lambda: jnp.exp(pl.numpy.asarray(ZERO)) * BAD, "argument y, first taken by `mul`"),
    "one operation": (lambda: pl.lax.exp(BAD), "an operand"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "origin"), CAME_IN.values(), ids=CAME_IN)
def test_what_came_in_was_made_by_no_equation(call, origin):
    with pl.debug_nans():
        assert text(call)[1] == f"  came in by {origin}"


def test_what_was_made_is_told_from_what_came_in_and_was_handled():
    function = pl.jit(lambda x, y: jnp.where(jnp.isnan(x), 0.0, x) + jnp.log(y))
    with pl.debug_nans():
        assert text(function, BAD, -1.0)[1] == "  first made by `log`"


def test_donated_arguments_can_t_be_run_again():
    function = pl.jit(lambda x: x * np.float32(np.nan), donate_argnums=0)
    with pl.debug_nans():
        assert text(function, pl.device_put(ZERO))[1] == (
            "  its arguments were donated, so it can't be run again to find where"
        )


def test_functions_that_use_references_name_the_equation_or_say_why_not():
    ref = pl.new_ref(jnp.float32(0))
    with pl.debug_nans():
        assert text(pl.jit(lambda x: ref[...] - jnp.log(x)), np.float32(-1))[1] == (
            "  first made by `log`"
        )

        @pl.jit
        def written(x):
            ref[...] += x
            return jnp.log(x)

        assert "donated" in text(written, np.float32(-1))[1]
    assert ref[...] == -1


def test_results_without_dtypes_pass():
    with pl.debug_nans():
        assert pl.jit(lambda x: (x > 0, x.astype(np.int32), None))(ZERO)[2] is None


def test_intermediate_values_that_come_to_nothing_pass():
    with pl.debug_nans():
        function = pl.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))
        assert function(ZERO).tolist() == [0, 0]


MAPPED = {
    "pmap": lambda f, x: pl.pmap(f)(x[:, None]),
    "pmap of donated arguments": lambda f, x: pl.pmap(f, donate_argnums=0)(jnp.asarray(x[:, None])),
    "shard_map": lambda f, x: pl.jit(
        pl.shard_map(
            f, mesh=pl.sharding.Mesh(pl.devices()[:4], "x"), in_specs=pl.P("x"), out_specs=pl.P("x")
        )
    )(x),
}


@pytest.mark.parametrize("name", MAPPED)
def test_programs_of_several_devices_name_the_line_of_the_call(name):
    x = np.zeros(4, np.float32)
    with pl.debug_nans():
        MAPPED[name](lambda x: x + 1, x)
        lines = text(MAPPED[name], lambda x: jnp.log(x - 1), x)
    assert lines[0].endswith("gave a result with NaN in it.")
    assert "in test_finite.py" in lines[-2]


def test_compiled_functions_are_checked_too():
    compiled = pl.jit(lambda x: jnp.log(x)).lower(1.0).compile()
    with pl.debug_nans():
        assert compiled(1.0) == 0
        assert "  first made by `log`" in text(compiled, -1.0)


def test_functions_of_known_values_are_one_operation_under_a_trace():
    """What they make on the way may be infinite, as where they are called eagerly."""

    @pl.jit
    def function(x):
        with pl.ensure_compile_time_eval():
            known = pl.scipy.special.erfinv(pl.numpy.linspace(-1.0, 1.0, 7)[1:-1])
            assert isinstance(float(known[0]), float)
        return x + known

    with pl.debug_infs(True):
        assert function(1.0).shape == (5,)
