"""Functions of the library have the stages of jitted functions."""

import functools
import itertools
from operator import ne

import numpy as np
import pytest
from corpus import library_calls, staged_calls

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax, nn, scipy
from pellucid._machine.higher_order.staged_functions import STAGES, give_stages

SQUARE = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)
VECTOR = np.array([3.0, 1.0, 2.0], np.float32)

CALLS = {
    "compiled": (jnp.cos, (VECTOR,), {}),
    "under another name": (jnp.abs, (VECTOR,), {}),
    "with a number": (jnp.power, (VECTOR, 2), {}),
    "axis by place": (jnp.sort, (SQUARE, 0), {}),
    "axis by name": (jnp.quantile, (SQUARE, 0.5), {"axis": 1, "keepdims": True}),
    "several results": (jnp.linalg.svd, (SQUARE,), {"full_matrices": False}),
    "any number of arrays": (jnp.atleast_2d, (VECTOR,), {}),
    "a list": (jnp.block, ([VECTOR, VECTOR],), {}),
    "a function": (jnp.apply_along_axis, (jnp.sum, 0, SQUARE), {}),
    "no array": (scipy.linalg.hilbert, (3,), {}),
    "nn": (nn.gelu, (VECTOR,), {"approximate": False}),
    "lax": (lax.dynamic_index_in_dim, (SQUARE, 1, 0, False), {}),
    "a text": (jnp.einsum, ("ij,jk->ik", SQUARE, SQUARE), {}),
    "axes as lists": (jnp.einsum, (SQUARE, (0, 1), SQUARE, (1, 2)), {}),
    "a width": (jnp.pad, (SQUARE, 1), {}),
    "widths as lists": (jnp.pad, (SQUARE, ((0, 1), (2, 0))), {"mode": "mean", "stat_length": 1}),
    "a text beside an array": (jnp.interp, (VECTOR, VECTOR, VECTOR), {"left": "extrapolate"}),
    "a number of parts": (jnp.split, (SQUARE, 2), {}),
    "a number of bins": (jnp.histogram, (VECTOR, 2), {}),
}
"""Functions with arguments; tuples among these are static."""


@pytest.mark.parametrize("name", CALLS)
def test_what_stages_give_is_what_the_call_gives(name):
    function, args, kwargs = CALLS[name]
    expected = pl.tree.leaves(function(*args, **kwargs))
    shapes = pl.tree.leaves(function.eval_shape(*args, **kwargs))
    assert [(s.shape, s.dtype) for s in shapes] == [(x.shape, x.dtype) for x in expected]
    traced = function.trace(*args, **kwargs)
    assert traced.fun_name == function.__name__
    lowered = function.lower(*args, **kwargs)
    assert f"@jit_{function.__name__}" in lowered.as_text()
    dynamic = [x for x in args if isinstance(x, (np.ndarray, float, list))]
    if name == "with a number":
        dynamic.append(2)
    if name == "lax":
        dynamic.append(1)
    for x, y in zip(pl.tree.leaves(lowered.compile()(*dynamic)), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    function.clear_cache()
    np.testing.assert_array_equal(pl.tree.leaves(function(*args, **kwargs))[0], expected[0])


def test_functions_of_the_library_are_exported():
    for function, operands in ((jnp.cos, (VECTOR,)), (jnp.dot, (SQUARE, SQUARE))):
        exported = pl.export.export(function)(*operands)
        np.testing.assert_allclose(exported.call(*operands), function(*operands), rtol=1e-6)
    for function, args, operands in (
        (jnp.einsum, ("ij,jk->ik", SQUARE, SQUARE), (SQUARE, SQUARE)),
        (jnp.pad, (SQUARE, 1), (SQUARE,)),
    ):
        exported = pl.export.export(function)(*args)
        np.testing.assert_allclose(exported.call(*operands), function(*args), rtol=1e-6)


def test_arguments_that_may_be_known_are_traced_where_they_are_arrays():
    traced = jnp.repeat.trace(VECTOR, jnp.array([1, 2, 0]), total_repeat_length=3)
    assert len(traced.jaxpr.in_avals) == 2
    assert len(jnp.repeat.trace(VECTOR, np.array([1, 2, 3])).jaxpr.in_avals) == 1


WITHOUT_TRACES = {
    "numpy.repeat", "numpy.result_type", "numpy.promote_types", "numpy.einsum_path", "numpy.frombuffer", "numpy.trim_zeros",
    "numpy.from_dlpack", "numpy.delete", "scipy.linalg.cho_factor", "scipy.linalg.cho_solve",
}  # fmt: skip
"""Functions some calls of which, without stages in the reference, need values, or take and give what is no array."""
OTHERWISE_STATIC = {"numpy.trace", "numpy.triu", "numpy.tril"}
"""Functions with a number that is static in the reference only, or here only."""


@functools.cache
def staged_library(static):
    """(failed, inputs) of all calls of the corpus, as `Staged` has them."""
    library = library_calls.Library(pl)
    failed, inputs = {}, {}
    for name, module in library.names.items():
        if name != "np":
            library.names[name] = staged_calls.Staged(module, pl, dict(static), failed, inputs)
    for call in library_calls.all_calls():
        if call.table == "library_calls":
            library_calls.failures(library, call, ["plain"])
    return failed, inputs


@pytest.fixture
def static(oracle_8_devices):
    """The static arguments of the reference's functions, as what can be hashed."""
    names = oracle_8_devices.call(staged_calls.static_names)
    return tuple((name, tuple(static)) for name, static in names.items())


def test_functions_with_stages_in_the_reference_have_them(static):
    here = staged_calls.public_functions(pl)
    assert {*dict(static)} - {*here} == {"experimental.rnn.sigmoid", "experimental.rnn.tanh"}


def test_stages_take_what_calls_take(static):
    failed, _ = staged_library(static)
    assert {name: e for name, e in failed.items() if name not in WITHOUT_TRACES} == {}


def test_programs_of_stages_take_what_those_of_the_reference_take(static):
    _, inputs = staged_library(static)
    differ = {name for name, counts in inputs.items() if any(itertools.starmap(ne, counts))}
    assert differ <= OTHERWISE_STATIC
    assert len(inputs) > 150


def test_only_public_functions_of_arrays_that_give_some_get_stages():
    def of_names(name: str) -> str:
        return name

    def size(x: "ArrayLike") -> int:  # noqa: F821
        return x.size

    def of_arrays(x: "ArrayLike") -> "Array":  # noqa: F821
        return x

    give_stages({"of_names": of_names, "size": size, "_private": of_arrays, "number": 3})
    assert not any(hasattr(f, s) for s in STAGES for f in (of_names, size, of_arrays))
    give_stages({"of_arrays": of_arrays})
    assert all(hasattr(of_arrays, s) for s in STAGES)
