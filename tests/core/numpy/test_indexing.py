"""Indexing means what it means in NumPy; programs and edges are those of the reference library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pellucid
import pellucid.numpy as jnp
from pellucid._machine.base.dtypes import KeyDType, prng_key
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    IndexingError,
    MissingRule,
    NonConcreteBooleanIndexError,
    ShapeError,
)
from pellucid._machine.base.events import CompilationFinished, Observer
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.lowering.module import ModuleOptions, lower_module
from pellucid._machine.tracing.staging import stage
from tests.core.numpy.index_expressions import (
    OPERANDS,
    OUTSIDE_PROGRAMS,
    SAME_ERRORS,
    SAME_PROGRAM,
    SAME_VALUES,
    errors,
    functions,
    results,
    texts,
)

# Random indices -------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, Any]:
    """An array and an index that is valid for it: of every kind of entry, arrays that broadcast together."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    block = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "new", "stop"]))
        if kind == "stop":
            break
        if kind == "new":
            items.append(None)
            continue
        size = shape[axis]
        axis += 1
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bound = st.one_of(st.none(), st.integers(-size - 1, size + 1))
            step = draw(st.one_of(st.none(), st.sampled_from([1, 2, 3, -1, -2])))
            items.append(slice(draw(bound), draw(bound), step))
        elif kind == "array":
            local = tuple(
                draw(st.sampled_from([n, 1])) for n in block[draw(st.integers(0, len(block))) :]
            )
            elements = draw(
                st.lists(
                    st.integers(-size, size - 1),
                    min_size=int(np.prod(local)),
                    max_size=int(np.prod(local)),
                )
            )
            items.append(np.array(elements, np.int32).reshape(local))
        else:
            # A mask selects one element, so that it broadcasts with any other array.
            mask = np.zeros(size, bool)
            mask[draw(st.integers(0, size - 1))] = True
            items.append(mask)
    if draw(st.booleans()):
        # After the ellipsis, nothing: an int that came first would count from the other end.
        items.append(...)
    x = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return x, tuple(items)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_getting_agrees_with_numpy(case) -> None:
    x, index = case
    expected = x[index]
    eager = jnp.asarray(x)[index]
    assert eager.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(eager), expected)


@settings(max_examples=25, deadline=None)
@given(cases())
def test_getting_in_a_program_agrees_with_numpy(case) -> None:
    x, index = case
    np.testing.assert_array_equal(np.asarray(pellucid.jit(lambda x: x[index])(x)), x[index])


@settings(max_examples=40, deadline=None)
@given(cases())
def test_setting_agrees_with_numpy(case) -> None:
    x, index = case
    expected = x.copy()
    expected[index] = -1.0
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x).at[index].set(-1.0)), expected)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_adding_agrees_with_numpy(case) -> None:
    x, index = case
    values = np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)
    expected = x.copy()
    np.add.at(expected, index, values)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x).at[index].add(values)), expected)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_setting_arrays_agrees_with_numpy_where_places_differ(case) -> None:
    x, index = case
    places = np.arange(x.size).reshape(x.shape)[index]
    values = -np.arange(1, 1 + places.size, dtype=np.float32).reshape(places.shape)
    if len(np.unique(places)) == places.size:
        expected = x.copy()
        expected[index] = values
        np.testing.assert_array_equal(np.asarray(jnp.asarray(x).at[index].set(values)), expected)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_the_derivative_of_getting_is_adding(case) -> None:
    x, index = case
    weights = np.cos(np.arange(x[index].size, dtype=np.float32)).reshape(x[index].shape)
    gradient = pellucid.grad(
        lambda x: (x[index] * weights).sum() if weights.size else 0.0 * x.reshape(-1)[0]
    )(jnp.asarray(x))
    expected = np.zeros_like(x)
    np.add.at(expected, index, weights)
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-5, atol=1e-6)


# The reference library --------------------------------------------------------------------------------

X = OPERANDS[0]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_programs_are_those_of_the_reference(oracle) -> None:
    theirs = oracle.call(texts, SAME_PROGRAM)
    for expression, ours, expected in zip(
        SAME_PROGRAM, texts(pellucid, SAME_PROGRAM), theirs, strict=True
    ):
        assert ours == expected, expression


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_values_are_those_of_the_reference(oracle) -> None:
    theirs = oracle.call(results, SAME_VALUES)
    for expression, ours, expected in zip(
        SAME_VALUES, results(pellucid, SAME_VALUES), theirs, strict=True
    ):
        assert ours.dtype == expected.dtype, expression
        np.testing.assert_array_equal(as_numbers(ours), as_numbers(expected), err_msg=expression)


def test_errors_can_be_caught_as_those_of_the_reference(oracle) -> None:
    builtin = ("TypeError", "ValueError", "IndexError", "OverflowError")
    theirs = oracle.call(errors, SAME_ERRORS)
    for expression, ours, expected in zip(
        SAME_ERRORS, errors(pellucid, SAME_ERRORS), theirs, strict=True
    ):
        assert ours is not None, expression
        assert next(name for name in expected if name in builtin) in ours, expression


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_values_outside_programs_are_those_inside() -> None:
    inside = results(pellucid, OUTSIDE_PROGRAMS)
    x, i, v = OPERANDS
    for expression, function, expected in zip(
        OUTSIDE_PROGRAMS, functions(OUTSIDE_PROGRAMS), inside, strict=True
    ):
        ours = np.asarray(function(jnp.asarray(x), int(i), jnp.asarray(v)))
        assert ours.dtype == expected.dtype, expression
        np.testing.assert_array_equal(as_numbers(ours), as_numbers(expected), err_msg=expression)


def as_numbers(x: np.ndarray) -> np.ndarray:
    """`x` as NumPy's own floating numbers, if its dtype is none of NumPy's."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


# Outside traces -----------------------------------------------------------------------------------------


class Compilations(Observer):
    def __init__(self) -> None:
        self.names: list[str] = []

    def compilation_finished(self, event: CompilationFinished) -> None:
        self.names.append(event.name)


def compilations(*calls: Any) -> int:
    """How many programs are compiled by `calls`."""
    observer = Compilations()
    with pellucid.observe(observer):
        for call in calls:
            call()
    return len(observer.names)


def test_one_program_serves_all_indices_of_one_structure() -> None:
    x = jnp.asarray(np.arange(35.0, dtype=np.float32).reshape(7, 5))
    assert compilations(*(lambda i=i: x[i] for i in range(-7, 7))) == 1
    assert compilations(*(lambda i=i: x[i, 2 * i : 2 * i + 1] for i in range(1, 3))) == 1
    assert compilations(*(lambda i=i: x[i : i + 3] for i in range(1, 4))) == 1
    assert compilations(*(lambda i=i: x[np.array([i, i + 1])] for i in range(3))) == 1
    assert compilations(*(lambda i=i: x.at[i].set(i) for i in range(3))) == 1


def test_integer_scalars_of_any_kind_are_indices() -> None:
    x = jnp.asarray(X)
    for index in (2, np.int8(2), np.uint32(2), np.array(2), jnp.asarray(2), jnp.uint8(2)):
        np.testing.assert_array_equal(np.asarray(x[index]), X[2])


def test_integers_that_no_index_dtype_holds_are_out_of_bounds() -> None:
    rows = {
        lambda x: x[2**40]: X[-1],
        lambda x: x[-(2**40)]: X[0],
        lambda x: x[np.array([2**31, -(2**32), 1])]: X[[-1, 0, 1]],
        lambda x: x[np.array([2**64 - 1], np.uint64)]: X[[-1]],
        lambda x: x.at[10**30].set(0): X,
        lambda x: x.at[2**32].get(mode="fill", fill_value=7): np.full_like(X[0], 7),
        lambda x: jnp.take(x, -(2**31) - 1, axis=0): np.full_like(X[0], np.nan),
    }
    for row, expected in rows.items():
        for function in (row, pellucid.jit(row)):
            np.testing.assert_array_equal(np.asarray(function(jnp.asarray(X))), expected)


def test_indices_of_functions_may_be_wider_than_the_index_dtype() -> None:
    """They are out of bounds, or count modulo the size, and don't lose their leading bits."""
    x, wide = jnp.arange(5.0), np.array([2**32, 1])
    for take in (lambda i: jnp.take(x, i), lambda i: jnp.take_along_axis(x, i, 0)):
        np.testing.assert_array_equal(take(wide), [np.nan, 1])
        np.testing.assert_array_equal(take(wide.astype(np.uint64)), [np.nan, 1])
    assert np.isnan(jnp.take(x, np.int64(2**32)))
    put_along = jnp.put_along_axis(x, wide, 9, 0, inplace=False)
    np.testing.assert_array_equal(put_along, [0, 9, 2, 3, 4])
    np.testing.assert_array_equal(jnp.put(x, wide, 9, inplace=False), [0, 9, 2, 3, 9])
    # 2³² is 1 modulo 5.
    np.testing.assert_array_equal(jnp.take(x, np.array([2**32, -1]), mode="wrap"), [1, 4])
    assert jnp.take(x, 2**32, mode="wrap") == 1
    np.testing.assert_array_equal(
        jnp.put(x, np.array([2**32]), 9, "wrap", inplace=False), [0, 9, 2, 3, 4]
    )


def test_arrays_of_keys_are_indexed_and_updated() -> None:
    keys = shaped_array((4, 3), KeyDType("key<fry>", prng_key, np.dtype(np.uint32), (2,)))
    row = shaped_array((3,), keys.dtype)
    for function, operands, result in (
        (lambda k: k[1], [keys], (3,)),
        (lambda k: k[1:, ::2], [keys], (3, 2)),
        (lambda k: k[np.array([0, 2]), 1], [keys], (2,)),
        (lambda k: k.at[np.array([0, 9])].get(mode="fill"), [keys], (2, 3)),
        (lambda k, r: k.at[1].set(r), [keys, row], (4, 3)),
        (lambda k, r: k.at[np.array([1, 2])].set(r), [keys, row], (4, 3)),
    ):
        jaxpr, consts = stage(lambda *xs, f=function: [f(*xs)], operands)
        assert jaxpr.out_avals[0].shape == result
        whole = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
        module = lower_module(whole, ModuleOptions("keys", ("cpu",))).module
        assert module.operation.verify()
        assert f"tensor<{'x'.join(map(str, result))}x2xui32>" in str(module)
        del consts


# Messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: x[[0, 1]], IndexingError, "a list can't be an index"),
        (lambda x: x[0, 0, 0, 0], IndexingError, "the array has 3 dimensions, but 4 were indexed"),
        (lambda x: x[np.zeros(3, bool)], IndexingError, r"a mask needs the shape .* \(5,\)"),
        (pellucid.jit(lambda x: x[x > 0]), NonConcreteBooleanIndexError, "jnp.where"),
        (lambda x: pellucid.jit(lambda x, i: x[i:])(x, 1), IndexingError, "lax.dynamic_slice"),
        (
            lambda x: x.at[0].set(np.ones((2, 2))),
            ShapeError,
            r"shape \(2, 2\) don't fit into .* \(4, 3\)",
        ),
        (lambda x: x.__setitem__(0, 1.0), ArgumentTypeError, r"x.at\[index\].set"),
        (lambda x: x[:0][np.array([1])], IndexingError, "no elements along axis 0"),
        (
            pellucid.grad(lambda x: x.at[np.array([0, 0])].apply(lambda e: e).sum()),
            MissingRule,
            "unique",
        ),
    ],
)
def test_messages_say_what_to_do(call, kind, text) -> None:
    with pytest.raises(kind, match=text):
        call(jnp.asarray(X))


def test_unsafe_casts_of_values_warn() -> None:
    with pytest.warns(FutureWarning, match="float32 are converted to int32"):
        jnp.arange(3).at[0].set(1.5)
