"""While `import jax` is answered, modules, functions and classes say that they are of `jax`."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from corpus import metadata

from pellucid.as_jax import identity

TESTS = Path(__file__).parents[2]

NAMES = """
import pickle, sys
import jax, jax.numpy as jnp
import jax.profiler, jax.scipy.stats.norm

assert jax.__name__ == "jax" and jnp.__name__ == "jax.numpy" and jax.profiler.__name__ == "jax.profiler"
loaded = "numpy lax nn random tree_util sharding errors profiler interpreters.ad lax.linalg scipy stages".split()
assert all(f"jax.{name}" in sys.modules for name in loaded)
assert jax.Array.__module__ == "jax" and jax.Array.all and jax.Array.__name__ == "Array"
kinds = []
def keep(x):
    kinds.append(type(x))
    return x * 2.0
jax.jit(keep)(1.0); jax.vmap(keep)(jnp.ones(2)); jax.grad(keep)(1.0)
x = jnp.ones(2)
assert all(kind.__module__.split(".")[0] == "jax" for kind in kinds), kinds
assert type(x).__module__.split(".")[0] == "jaxlib"
assert jnp.abs.__module__ == "jax.numpy" and jax.jit.__module__ == "jax"
assert jax.sharding.NamedSharding.__module__ == "jax.sharding"
try:
    jax.jit(bool)(1.0)
except TypeError as error:
    assert repr(type(error)) == "<class 'jax.errors.TracerBoolConversionError'>"
for value in (
    jnp.sin, jax.P("a"), x, jax.nn.relu, jax.tree.map, jax.tree_util.Partial(jnp.sin), jax.jit, jax.typeof(x), kinds[0],
    jax.ShapeDtypeStruct((2,), jnp.float32), jax.errors.JaxRuntimeError("no memory"), type(jax.random.key(0)),
    jax.disable_jit, jax.tree.structure([1, 2]), jax.random.key(0),
):
    pickle.loads(pickle.dumps(value))
"""

MESSAGES = """
import jax
for statement, text in [
    ("import jax.nothing", "No module named 'jax.nothing'"),
    ("import jax._src.nothing", "No module named 'jax._src.nothing'"),
    ("from jax import nowhere", "cannot import name 'nowhere' from 'jax' "),
    ("from jax.numpy import nobody", "cannot import name 'nobody' from 'jax.numpy' "),
    ("jax.numpy.nobody", "module 'jax.numpy' has no attribute 'nobody'"),
    ("jax.scipy.nobody", "module 'jax.scipy' has no attribute 'nobody'"),
    ("jax.scipy.stats.nobody", "module 'jax.scipy.stats' has no attribute 'nobody'"),
    ("jax.example_libraries.nobody", "module 'jax.example_libraries' has no attribute 'nobody'"),
    ("jax.nobody", "module 'jax' has no attribute 'nobody'"),
]:
    try:
        exec(statement)
    except (ImportError, AttributeError) as error:
        assert str(error).startswith(text), str(error)
    else:
        raise AssertionError(statement)
"""

MODULES = """
import importlib, importlib.resources, importlib.util, pathlib, sys
import jax, jax.numpy as jnp
from jax import profiler
for module, name in ((jax, "jax"), (jnp, "jax.numpy"), (profiler, "jax.profiler"), (jax.scipy.stats, "jax.scipy.stats")):
    assert repr(module) == f"<module {name!r} from {module.__file__!r}>", module
    assert module.__package__ == name and importlib.util.find_spec(name).name == name
    assert importlib.resources.files(name) == pathlib.Path(module.__file__).parent
assert not any(n.startswith("pellucid_profiler.") for n in sys.modules)
add, array = jnp.add, jax.Array
assert importlib.reload(jnp) is jnp and importlib.reload(jax) is jax is sys.modules["jax"]
assert jnp.add is add and jax.Array is array and jax.numpy is jnp and jnp.ones(2).sum() == 2
import pellucid.numpy
assert pellucid.numpy is jnp and pellucid.__name__ == "pellucid"
"""

METHODS = """
import inspect
import jax, jax.numpy as jnp, jax.experimental.sparse
traced = []
jax.jit(lambda x: traced.append(x))(1.0)
classes = [jax.Array, jnp.ufunc, jax.sharding.Mesh, jax.stages.Compiled, jax.experimental.sparse.BCOO]
for owner in (*classes, type(traced[0]), type(jnp.ones(2)), type(jax.jit(jnp.sin))):
    methods = [method for _, method in inspect.getmembers(owner, inspect.isroutine)]
    methods += [p.fget for p in vars(owner).values() if isinstance(p, property)]
    assert methods
    for member in filter(inspect.isfunction, methods):
        assert not member.__module__.startswith("pellucid"), (owner, member)
"""

METADATA = f"""
import importlib, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {str(TESTS)!r})
from corpus import metadata
reference = metadata.reference_facts()
for (owner, name), facts in metadata.all_facts("jax").items():
    x = getattr(importlib.import_module(owner), name)
    where = getattr(x, "__module__", None) or ""
    assert not where.startswith("pellucid"), (owner, name, where)
    theirs = reference[owner, name].module if (owner, name) in reference else None
    # What is one object here may be two in the reference: it is in both of their modules.
    if theirs not in (None, where) and where.startswith("jax."):
        assert getattr(importlib.import_module(where), facts.name) is x, (owner, name, where)
"""

LOADED = """
import sys
import jax
reference = {  # modules that it loads by itself
    "jax", "jax.api_util", "jax.core", "jax.custom_batching", "jax.custom_derivatives", "jax.debug",
    "jax.distributed", "jax.dlpack", "jax.dtypes", "jax.errors", "jax.experimental", "jax.experimental.compilation_cache",
    "jax.experimental.compilation_cache.compilation_cache", "jax.export", "jax.ffi", "jax.image", "jax.interpreters",
    "jax.interpreters.ad", "jax.interpreters.batching", "jax.interpreters.mlir", "jax.interpreters.partial_eval",
    "jax.interpreters.pxla", "jax.interpreters.xla", "jax.lax", "jax.lax.linalg", "jax.lib", "jax.monitoring", "jax.nn",
    "jax.nn.initializers", "jax.numpy", "jax.numpy.fft", "jax.numpy.linalg", "jax.ops", "jax.profiler", "jax.random",
    "jax.ref", "jax.scipy", "jax.sharding", "jax.stages", "jax.tree", "jax.tree_util", "jax.typing", "jax.version",
}
assert not reference - set(sys.modules), reference - set(sys.modules)
for name in reference:
    value = jax
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    assert value is sys.modules[name], name
"""

OPT_EINSUM = """
import jax, jax.numpy as jnp
import opt_einsum
x = jnp.ones((3, 3))
assert float(jax.jit(lambda x: opt_einsum.contract("ij,jk->ik", x, x))(x)[0, 0]) == 3
assert float(jax.vmap(lambda x: opt_einsum.contract("i,i->", x, x))(x)[0]) == 3
"""


def run(program: str, *, version: str = "None") -> str:
    start = f"import pellucid.as_jax; pellucid.as_jax.install({version})\n"
    process = subprocess.run(
        [sys.executable, "-c", start + program],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize(
    "program",
    [NAMES, MESSAGES, MODULES, METHODS, METADATA, LOADED],
    ids=["names", "messages", "modules", "methods", "law", "loaded"],
)
def test_what_is_answered_is_of_jax(program):
    run(program)


def test_a_library_that_asks_for_the_module_of_a_class_finds_the_backend():
    pytest.importorskip("opt_einsum")
    run(OPT_EINSUM)


def test_public_modules_are_those_of_the_reference():
    listed = {m.removeprefix("jax").removeprefix(".") for m in metadata.public_modules()}
    assert listed - identity.PUBLIC <= {"extend.pallas"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pellucid", "jax"),
        ("pellucid.numpy", "jax.numpy"),
        ("pellucid.numpy.elementwise", "jax._src.numpy.elementwise"),
        ("pellucid.as_jax.modules.lib", "jax.lib"),
        ("pellucid_kernel.page", "pellucid_kernel.page"),
        ("numpy", "numpy"),
    ],
)
def test_modules_are_served_under_one_name(name, shown):
    assert identity.as_jax(name) == shown


@pytest.mark.parametrize(
    ("module", "option"),
    [
        ("jax.tools.jax_to_ir", "--input_shapes"),
        ("jax.tools.pgo_nsys_converter", "--pgle_output_path"),
        ("jax.collect_profile", "--no_perfetto_link"),
    ],
)
def test_modules_run_as_programs(module, option):
    process = subprocess.run(
        [sys.executable, "-m", "pellucid.as_jax", "-m", module, "--help"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert option in process.stdout
    assert process.stdout.startswith(f"usage: python -m {module} ")
    assert "pellucid" not in process.stdout


def test_a_module_that_import_jax_loads_runs_as_a_program():
    process = subprocess.run(
        [sys.executable, "-m", "pellucid.as_jax", "-m", "jax.debug"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


def test_the_version_is_chosen():
    program = "import importlib.metadata, jax; print(jax.__version__, importlib.metadata.version('jax'), jax.__version_info__)"
    assert run(program, version="'0.11.1'").strip() == "0.11.1 0.11.1 (0, 11, 1)"


def test_the_command_line_and_the_environment_choose_the_version(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import jax; print(jax.__version__)", encoding="utf-8")
    for options, variables in (
        (["--jax-version", "0.11.0"], {}),
        ([], {"PELLUCID_AS_JAX_VERSION": "0.11.0"}),
    ):
        process = subprocess.run(
            [sys.executable, "-m", "pellucid.as_jax", *options, str(script)],
            capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables},
        )  # fmt: skip
        assert process.stdout.strip() == "0.11.0", process.stderr


def test_pellucid_itself_keeps_its_names():
    assert importlib.import_module("pellucid.numpy").__name__ == "pellucid.numpy"
