"""Functions that transformations give are pickled by value, and read the globals of the process that they come to."""

from __future__ import annotations

import contextlib
import pickle
import types
from typing import Any

import cloudpickle
import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import P
from pellucid._machine.base import config
from pellucid._machine.tracing import context
from pellucid._machine.xla import flags, pickling, pytree
from pellucid.experimental import checkify

MESH = pl.make_mesh((1,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))


def cube():
    """A function that is found under no name."""
    return lambda x: x * x * x


def with_a_rule(kind: Any, define: Any) -> Any:
    function = kind(cube())
    define(function)
    return function


FUNCTIONS = {
    "jit": lambda f: pl.jit(f),
    "jit with options": lambda f: pl.jit(lambda x, n=2: n * f(x), static_argnames="n", inline=True),
    "jit with a donated argument": lambda f: pl.jit(f, donate_argnums=0),
    "jit of jit": lambda f: pl.jit(lambda x: pl.jit(f)(x) + 1),
    "vmap": lambda f: pl.vmap(f),
    "grad": lambda f: pl.grad(f),
    "value_and_grad": lambda f: pl.value_and_grad(f),
    "jacfwd": lambda f: pl.jacfwd(f),
    "hessian": lambda f: pl.hessian(f),
    "jit of vmap of grad": lambda f: pl.jit(pl.vmap(pl.grad(f))),
    "checkpoint": lambda f: pl.checkpoint(f),
    "pmap": lambda f: pl.pmap(f),
    "vectorize": lambda f: jnp.vectorize(f),
    "checkify": lambda f: checkify.checkify(f),
    "named_call": lambda f: pl.named_call(f, name="cubed"),
    "named_scope": lambda f: pl.named_scope("cubed")(f),
    "an option": lambda f: pl.default_matmul_precision("float32")(f),
    "custom_jvp": lambda f: with_a_rule(
        pl.custom_jvp, lambda g: g.defjvps(lambda t, y, x: 5 * x * t)
    ),
    "custom_vjp": lambda f: with_a_rule(
        pl.custom_vjp, lambda g: g.defvjp(lambda x: (x, x), lambda x, ct: (5 * x * ct,))
    ),
    "custom_vmap": lambda f: with_a_rule(
        pl.custom_batching.custom_vmap, lambda g: g.def_vmap(lambda n, b, x: (7 * x, b[0]))
    ),
    "shard_map": lambda f: pl.shard_map(f, mesh=MESH.abstract_mesh, in_specs=P(), out_specs=P()),
    "composite": lambda f: pl.lax.composite(f, "my.cube"),
    "tree_util.Partial": lambda f: pl.tree_util.Partial(f),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transformed_functions_are_pickled_by_value(name: str) -> None:
    function = FUNCTIONS[name](cube())
    copied = pickle.loads(cloudpickle.dumps(function))
    assert copied is not function
    x = jnp.ones(1) if name in ("vmap", "pmap", "jit of vmap of grad") else 2.0
    with pl.set_mesh(MESH) if name == "shard_map" else contextlib.nullcontext():
        expected, results = function(x), copied(x)
    np.testing.assert_array_equal(pl.tree.leaves(results)[-1], pl.tree.leaves(expected)[-1])
    if name in ("custom_jvp", "custom_vjp"):
        assert pl.grad(copied)(2.0) == 10
    if name == "custom_vmap":
        assert pl.vmap(copied)(np.ones(1)) == 7


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_state_is_copied_along(name: str) -> None:
    for holder, value in mutable_globals(
        pickle.loads(cloudpickle.dumps(FUNCTIONS[name](cube()))), set()
    ):
        raise AssertionError(f"{name}: {holder} has a {type(value).__name__} of its own")


def mutable_globals(x: Any, seen: set[int]) -> Any:
    """Dictionaries, lists and sets that functions of pellucid in `x` read as globals, with the functions' names."""
    if id(x) in seen:
        return
    seen.add(id(x))
    module = pickling.sys.modules.get(getattr(x, "__module__", None) or "")
    if isinstance(x, types.FunctionType) and x.__globals__ is not vars(module):
        for name in x.__code__.co_names:
            value = x.__globals__.get(name)
            if isinstance(value, (dict, list, set)):
                yield x.__qualname__, value
            yield from mutable_globals(value, seen)
        for cell in x.__closure__ or ():
            yield from mutable_globals(cell.cell_contents, seen)


def test_single_objects_are_the_process_s_own():
    singles = [
        context, pytree.flatten, pytree.default_registry, config.debug_nans,
        config.debug_nans.state, flags.tracing_now, config.transfer_guard_host_to_device.state,
    ]  # fmt: skip
    copies = pickle.loads(pickle.dumps(singles))
    assert copies.pop(1).__self__ is singles.pop(1).__self__
    assert [id(x) for x in copies] == [id(x) for x in singles]


def test_another_flag_is_refused():
    with pytest.raises(pickle.PicklingError, match="no global of pellucid"):
        pickle.dumps(flags.flag("of a test", None))


def test_names_of_main_are_taken_by_plain_pickle_alone(monkeypatch):
    function = pl.jit(cube())
    main = types.ModuleType("__main__")
    function.__module__, function.__qualname__, main.cubed = "__main__", "cubed", function
    monkeypatch.setitem(pickling.sys.modules, "__main__", main)
    assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(cloudpickle.dumps(function)) is not function
