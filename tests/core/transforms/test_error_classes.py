"""Exception classes that an `except` of a ported program names."""

import concurrent.futures

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid._machine.base.errors import MissingRule, ShapeError, UnexpectedTracerError

X = np.ones(3, np.float32)
STRINGS = np.array(["a", "bc"], np.dtypes.StringDType())
SCALAR = pl.ShapeDtypeStruct((), np.float32)


def doubled(c):
    return c * 2


def traced_in_another_thread(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(doubled, x).result()


def steps_are_known_later(x):
    return lax.while_loop(lambda c: c < 3, doubled, x)


CALLS = {
    "reverse mode of while_loop": (ValueError, lambda: pl.grad(steps_are_known_later)(1.0)),
    "static and donated": (ValueError, lambda: pl.jit(doubled, static_argnums=0, donate_argnums=0)),
    "static and donated names": (
        ValueError,
        lambda: pl.jit(doubled, static_argnames="c", donate_argnames="c"),
    ),
    "shape of an initial value": (ValueError, lambda: lax.reduce(X, X[:2], lax.add, (0,))),
    "no initial value": (ValueError, lambda: lax.reduce(X, None, lax.add, (0,))),
    "negative size": (TypeError, lambda: lax.broadcast_in_dim(1.0, (-1,), ())),
    "negative size of zeros": (TypeError, lambda: jnp.zeros((-1,))),
    "traced in another thread": (
        UnexpectedTracerError,
        lambda: pl.jit(traced_in_another_thread)(1.0),
    ),
    "strings on a device": (TypeError, lambda: pl.device_put(STRINGS)),
    "strings as an array": (TypeError, lambda: jnp.asarray(STRINGS)),
    "strings of a compiled function": (TypeError, lambda: pl.jit(doubled)(STRINGS)),
    "derivative by strings": (TypeError, lambda: pl.grad(doubled)(STRINGS)),
    "vmap of a callback": (
        NotImplementedError,
        lambda: pl.vmap(lambda x: pl.pure_callback(np.sin, SCALAR, x))(X),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_of_the_classes_that_programs_catch(name):
    kind, call = CALLS[name]
    with pytest.raises(kind):
        call()


def test_initial_values_that_do_not_fit_are_told_by_shape():
    with pytest.raises(ShapeError, match=r"(?s)scalar initial values.*f32\[2\]"):
        lax.reduce(X, X[:2], lax.add, (0,))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * x,
        pl.jit(lambda x: x * x),
        lambda x: x @ x,
        lambda x: lax.conv(x[None, None], x[None, None], (1,), "SAME"),
        jnp.sin,
    ],
)
def test_the_transpose_of_a_function_that_is_not_linear_says_so(f):
    with pytest.raises(MissingRule, match=r"linear_transpose: `.*` is not linear"):
        pl.linear_transpose(f, X)(f(X))


def test_a_product_with_a_constant_is_linear():
    [transposed] = pl.linear_transpose(lambda x: 3 * x @ X, X)(2.0)
    np.testing.assert_array_equal(transposed, [6, 6, 6])
