"""Private names of the reference are served from one table; what isn't says so."""

import subprocess
import sys
from pathlib import Path

from pellucid.as_jax import private_names

TOOL = Path(__file__).parents[3] / "tools" / "private_names.py"
REFUSED = {
    "interpreters.partial_eval.TracingEqn",
    "interpreters.partial_eval.custom_staging_rules",
    "pjit.pjit_staging_rule",
}
"""Names that libraries read and that can't be served."""

MEANINGS = """
import inspect
import numpy as np
import jax, jax.numpy as jnp
from jax._src import api, api_util, config, core, dtypes, lax, lib, mesh, pjit, test_util, tree_util, typing, util
from jax._src import compiler, distributed, effects, linear_util, pretty_printer, sharding_impls, xla_bridge
from jax._src.lax.control_flow import scan_p, while_p
from jax._src.numpy.util import check_arraylike, promote_dtypes_complex, promote_dtypes_inexact
from jax._src.public_test_util import check_close
from jax._src.scipy.special import gammaln
import jax._src.numpy.lax_numpy as lax_numpy

function = linear_util.wrap_init(lambda x, y: [x + y], debug_info=api_util.debug_info("call", max, (1, 2), {}))
assert core.call_p.bind(1.0, 2.0, subfuns=(function,)) == [3.0]
program = jax.make_jaxpr(lambda x: core.call_p.bind(x, x, subfuns=(function,)))(1.0)
assert program.eqns[0].primitive is core.call_p

assert api.jit is jax.jit and lax_numpy.where is jnp.where and gammaln is jax.scipy.special.gammaln
assert lax.add_p is jax.lax.add_p and lax.control_flow.scan_p is scan_p is jax.lax.scan_p
assert pjit.jit_p.name == "jit" and pjit.mesh_lib is mesh and pjit.auto_axes is jax.sharding.auto_axes
assert core.Primitive is jax.extend.core.Primitive and core.no_effects == frozenset()
assert config.enable_checks.value is False and config.threefry_partitionable.value is True
config.update("jax_enable_x64", False)
assert lib.version == jax.lib.__version__.split(".") or lib.version_str == jax.lib.__version__
assert dtypes.dtype(1.0) == np.float32 and api._dtype(jnp.ones(2, jnp.int8)) == np.int8
assert dtypes.to_complex_dtype(np.float32) == np.complex64
assert [x.dtype for x in promote_dtypes_inexact(np.int8(1), 2)] == [np.float32] * 2
assert [x.dtype for x in promote_dtypes_complex(np.float32(1))] == [np.complex64]
try:
    check_arraylike("my_function", "text")
except TypeError as error:
    assert "my_function" in str(error)
assert util.split_list([1, 2, 3], [1]) == [[1], [2, 3]] and util.unzip2([(1, 2)]) == ((1,), (2,))
assert util.tuple_update((1, 2, 3), 1, 5) == util.subvals([1, 2, 3], [(1, 5)]) == (1, 5, 3)
assert util.curry(lambda *x: x)(1, 2)(3) == (1, 2, 3) and util.set_module("m")(lambda: 0).__module__ == "m"
calls, squares = [], util.memoize(lambda x: calls.append(x) or x * x)
assert squares(3) == squares(3) == 9 and calls == [3]
lengths = util.weakref_lru_cache(maxsize=8)(lambda function, *, n: calls.append(n) or n)
assert lengths(squares, n=2) == lengths(squares, n=2) == 2 and calls == [3, 2]
with jax.enable_x64(True):
    assert lengths(squares, n=2) == 2 and squares(3) == 9 and calls == [3, 2, 2, 3]
lengths.cache_clear()
assert lengths(squares, n=2) == 2 and calls == [3, 2, 2, 3, 2] and lib.jaxlib.__name__ == "jaxlib"
signature = inspect.signature(lambda x, axis=0: x)
assert api_util.infer_argnums_and_argnames(signature, (1,), None) == ((1,), ("axis",))
to_iter, from_iter = tree_util._registry[dict]
children, aux = to_iter({"a": [1], "b": 2})
assert from_iter(aux, children) == {"a": [1], "b": 2}
assert dict in tree_util._registry and int not in tree_util._registry
assert jax.jit(np.add)._fun is np.add and jax.jit(f := lambda x: x, static_argnums=0)._fun is f
from jax.lax import select_and_scatter_p
assert select_and_scatter_p is jax.lax.select_and_scatter_p and select_and_scatter_p.name == "select_and_scatter"
from jax._src.literals import TypedFloat, TypedInt
narrow = jax.jit(lambda x: x)(TypedInt(5, np.dtype("int8")))
assert (narrow.dtype, narrow.weak_type, int(narrow)) == (np.int8, True, 5)
assert jnp.asarray(TypedFloat(1.5, np.float16)).dtype == np.float16 and TypedInt(5, np.int8) + 1 == 6
assert list(xla_bridge._backends) == ["cpu"] and distributed.global_state.client is None
assert mesh.get_concrete_mesh().empty and sharding_impls.UNSPECIFIED
spec = sharding_impls.canonicalize_sharding(None, "f")
check_close([np.float32(1)], [np.float32(1)])
try:
    check_close(np.ones(2), np.array([1, 1.1]))
except AssertionError:
    pass
else:
    raise AssertionError("check_close")
text = pretty_printer.group(pretty_printer.concat([pretty_printer.text("a"), pretty_printer.brk(), pretty_printer.text("b")]))
assert text.format(width=80) == "a b" and str(text + pretty_printer.nil()) == "a b"
assert effects.lowerable_effects.add_type and effects.Effect is core.Effect
assert test_util.check_grads and typing.DTypeLike and linear_util.wrap_init
compile = compiler.backend_compile_and_load
compiler.backend_compile_and_load = compile
try:
    core.JaxprEqnContext("device_host")
except NotImplementedError as error:
    assert "compute_type" in str(error)
"""


def run(*arguments: str) -> str:
    process = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def run_program(program: str) -> str:
    return run("-c", "import pellucid.as_jax; pellucid.as_jax.install()\n" + program)


def test_what_libraries_read_is_served_or_says_what_to_use():
    *lines, count = run(str(TOOL)).splitlines()
    uses = dict(line.split(": ", 1) for line in lines)
    assert set(uses) == REFUSED
    assert all(use.startswith(("Use", "Call", "Read", "Programs")) for use in uses.values()), uses
    assert count.startswith(f"{len(REFUSED)} of ")


def test_each_way_to_a_refused_name_says_what_to_use():
    run_program(f"""
import importlib
from pellucid.as_jax.private_names import REFUSED
assert {sorted(REFUSED)} == sorted(REFUSED)
for full, use in [*REFUSED.items(), ("core.nobody", "Use public names"), ("core.tree_map", "Use `jax.tree_util.tree_map`.")]:
    module, _, name = f"jax._src.{{full}}".rpartition(".")
    try:
        getattr(importlib.import_module(module), name)
    except AttributeError as error:
        assert f"{{module}}.{{name}}" in str(error) and use in str(error), error
    else:
        raise AssertionError(full)
    try:
        exec(f"from {{module}} import {{name}}")
    except ImportError as error:
        assert str(error).startswith(f"cannot import name {{name!r}} from {{module!r}}") and use in str(error), error
    else:
        raise AssertionError(full)
""")


def test_private_names_mean_what_they_do_in_the_reference():
    run_program(MEANINGS)


def test_every_row_of_the_table_is_there():
    targets = f"""
import importlib
from pellucid.as_jax.private import resolve
for target in {[*private_names.OBJECTS.values(), *private_names.READ_ANEW.values()]}:
    resolve(target.removesuffix("()"))
for module, sources in {private_names.SOURCES}.items():
    importlib.import_module(f"jax._src.{{module}}")
    for source in sources:
        importlib.import_module(f"jax.{{source}}".strip("."))
"""
    run_program(targets)
