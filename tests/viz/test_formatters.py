"""Types that a notebook shows as figures, under pellucid's names and while `import jax` is answered."""

import subprocess
import sys

import pytest

TYPES = """
import importlib
from pellucid_viz import formatters
for module, name in formatters.FIGURES:
    cls = getattr(importlib.import_module(module), name)
    assert cls.__module__ in (module, formatters.SERVED_AS.get(module)), (cls, cls.__module__)
"""
SHOWN = """
import pellucid as pl, pellucid.numpy as jnp
from IPython.core.interactiveshell import InteractiveShell
from pellucid_viz import formatters
shell = InteractiveShell.instance()
formatters.register(shell)
mesh = pl.make_mesh((1,), ("x",))
shown = [mesh, pl.NamedSharding(mesh, pl.P("x")), pl.make_jaxpr(jnp.sin)(1.0), pl.jit(jnp.sin).lower(1.0)]
for value in shown:
    data, _ = shell.display_formatter.format(value)
    assert any(kind.startswith("application/vnd.pellucid") for kind in data), (value, list(data))
formatters.unregister(shell)
assert list(shell.display_formatter.format(mesh)[0]) == ["text/plain"]
"""


@pytest.mark.parametrize(
    "start", ["", "import pellucid.as_jax; pellucid.as_jax.install(); import jax"]
)
def test_each_type_is_known_by_its_name(start):
    for program in (TYPES, SHOWN):
        subprocess.run([sys.executable, "-c", f"{start}\n{program}"], check=True, timeout=120)
