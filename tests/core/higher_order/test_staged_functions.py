"""Functions of the library have the stages of jitted functions."""

import numpy as np
import pytest

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
}


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


def test_only_public_functions_of_arrays_get_stages():
    def of_names(name: str) -> str:
        return name

    def of_arrays(x: "ArrayLike") -> int:  # noqa: F821
        return 1

    give_stages({"of_names": of_names, "_private": of_arrays, "number": 3})
    assert not any(hasattr(of_names, s) or hasattr(of_arrays, s) for s in STAGES)
    give_stages({"of_arrays": of_arrays})
    assert all(hasattr(of_arrays, s) for s in STAGES)
