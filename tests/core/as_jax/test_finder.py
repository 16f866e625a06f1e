"""`import jax` answered by pellucid, each time in a process of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib.metadata, pickle, sys
import jax
import jax.numpy as jnp
assert "pellucid.experimental.multihost_utils" not in sys.modules
assert jax.experimental.multihost_utils.process_allgather and not hasattr(jax.experimental, "nothing")
import pellucid
import pellucid.as_jax
from jax.experimental import checkify
from jax._src import ad_util, core, dispatch, dtypes, flatten_util, literals, traceback_util
from jax.interpreters import ad
from pellucid._machine.base.events import CompilationFinished, counting
from jax.version import __version__

assert jax.__version__ == __version__ == importlib.metadata.version("jax") == "0.10.2"
assert jax.__version_info__ == (0, 10, 2) and pellucid.__version_info__ != jax.__version_info__
assert importlib.metadata.version("numpy")
assert jnp is pellucid.numpy is sys.modules["jax.numpy"] and jnp.__spec__.name == "jax.numpy"
assert ad_util.stop_gradient_p in ad.primitive_jvps
assert ad is pellucid.interpreters.ad and jax.grad is pellucid.grad
x = jax.jit(jnp.sin)(jnp.ones(3))
assert isinstance(x, jax.Array) and isinstance(x, pellucid.Array)
assert (pickle.loads(pickle.dumps(x)) == x).all()
assert pickle.loads(pickle.dumps(jax.P("a"))) == jax.P("a")
assert core.physical_aval(jax.typeof(jax.random.key(0))).shape == (2,)
assert core.trace_state_clean() and not jax.jit(lambda: core.trace_state_clean())()
from jax.extend import core as again, source_info_util
import jax.extend.source_info_util as adapter, jax.extend.core
assert adapter is source_info_util and again is jax.extend.core is pellucid.extend.core
source_info_util.register_exclusion("library.py")
assert traceback_util._exclude_paths == ["library.py"]
assert isinstance(jax.random.key(0).dtype, dtypes.ExtendedDType)
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
import jax.extend.mlir.dialects.sdy as sdy, jax.extend.mlir.ir
assert jax.extend.mlir.ir is ir and sdy.MeshOp.OPERATION_NAME == "sdy.mesh" and stablehlo.AddOp
from jax.experimental import key_reuse
from jax.experimental.compilation_cache import compilation_cache
assert compilation_cache.set_cache_dir and compilation_cache.is_initialized() is False
assert jax.interpreters.xla.apply_primitive and jax.api_util.safe_map
[error] = jax._src.tree_util.prefix_errors((0, [1, 2]), (5, [6, 7, 8]))
assert "in_axes[1]: got" in str(error("in_axes")) and isinstance(error("x"), ValueError)
assert jax.lax.dtype("int8") == jax.lax.dtype(jnp.int8) == "int8"
assert list(jax._src.xla_bridge._backends) == ["cpu"]
from jax._src import compiler
compile, clients = compiler.backend_compile_and_load, []
def listed(client, *arguments):
    clients.append(client.platform)
    return compile(client, *arguments)
compiler.backend_compile_and_load = listed
jax.jit(lambda x: x * 3.25 - 1)(1.0)
compiler.backend_compile_and_load = compile
jax.jit(lambda x: x * 3.25 - 2)(1.0)
assert clients == ["cpu"], clients
def step(x):
    return jnp.sin(jax.lax.mul(x, 0.77))
with counting(CompilationFinished) as compiled:
    for _ in range(3):
        jax.jit(step)(1.0)  # each jitted function finds the program of the last one
assert compiled.count == 1, compiled.events
pellucid.as_jax.install()  # nothing changes
assert sys.modules["jax"] is jax
for statement, error in [
    ("import jax.nothing", ModuleNotFoundError), ("from jax import nowhere", ImportError),
    ("import jax._src.nothing", ModuleNotFoundError), ("jnp.nobody", AttributeError),
]:
    try:
        exec(statement)
    except error as caught:
        assert "jax" in str(caught) or "pellucid" in str(caught)
    else:
        raise AssertionError(statement)
assert not hasattr(jax, "nope")
names = pellucid.as_jax.missing()
vain = ["jax.nothing", "jax.nowhere", "jax._src.nothing", "jax.numpy.nobody", "jax.nope"]
assert [n for n in names if n in vain] == vain, names
assert "jax._src.core" not in names
print(sys.argv, __name__)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_a_script_runs_with_its_arguments(tmp_path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    process = python("-m", "pellucid.as_jax", str(script), "--steps", "3")
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == f"{[str(script), '--steps', '3']} __main__"


@pytest.mark.parametrize(
    "setup", ["sys.modules['jax'] = types.ModuleType('jax'); import pellucid.as_jax",
              "import pellucid.as_jax; sys.modules['jax'] = types.ModuleType('jax')"]
)  # fmt: skip
def test_the_real_jax_must_not_be_there_first(setup) -> None:
    process = python("-c", f"import sys, types; {setup}; pellucid.as_jax.install()")
    assert process.returncode == 1
    assert "SharedProcessError" in process.stderr
    assert "Start a fresh interpreter" in process.stderr
