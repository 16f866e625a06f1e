"""Late bindings: every one resolves, is used, and is there whichever module is imported first."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid
from pellucid._machine.base.late import late, origins
from pellucid._machine.tracing.array_methods import OPERATORS
from pellucid._machine.tracing.tracer import Tracer
from pellucid._machine.xla.arrays import ArrayImpl

SOURCES = [p.read_text() for p in Path(pellucid.__file__).parent.rglob("*.py")]


def test_every_late_binding_resolves_and_is_used():
    used = {name for text in SOURCES for name in re.findall(r'\blate\("([^"]+)"\)', text)}
    assert used == set(origins)
    for name in origins:
        assert late(name) is not None


@pytest.mark.parametrize("cls", [ArrayImpl, Tracer])
def test_the_numpy_api_replaces_every_late_operator(cls):
    assert pellucid.numpy  # loaded
    methods = {name: vars(cls)[f"__{name}__"] for name in OPERATORS}
    modules = {name: getattr(m, "__module__", None) for name, m in methods.items()}
    assert "pellucid._machine.tracing.array_methods" not in modules.values(), modules
    assert "__getattr__" not in vars(ArrayImpl)


def test_arrays_and_tracers_have_methods_whichever_module_comes_first():
    code = "import sys, pellucid, numpy as np;x = pellucid.device_put(np.arange(3.0));assert 'pellucid.numpy' not in sys.modules;print(hasattr(x, 'fill'), x.sum(), (x + 1).max());print(pellucid.numpy.float32(3), 1 - x)"  # fmt: skip
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.stdout.splitlines() == ["False 3.0 3.0", "3.0 [ 1.  0. -1.]"], run.stderr


def test_a_scalar_makes_an_array_right_after_the_numpy_api_is_imported():
    code = "import pellucid.numpy as jnp; print(repr(jnp.float32(3)))"
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.stdout.strip() == "Array(3., dtype=float32)", run.stderr
