"""JupyterLab's debugger in the code of a library that runs on pellucid in the place of jax."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from debugged_kernel import DebuggedKernel
from running_kernel import kernel, run

DEFINE = """\
import jax, jax.numpy as jnp
from flax import nnx

class Net(nnx.Module):
    def __init__(self, rngs):
        self.inner = nnx.Linear(3, 4, rngs=rngs)

    def __call__(self, x):
        h = self.inner(x)
        return jnp.tanh(h)

net = Net(nnx.Rngs(0))

@jax.jit
def total(x):
    y = net(x)
    return y.sum()
"""
INNER, TANH, Y, SUM = 9, 10, 16, 17
CALL = "value = total(jnp.ones(3))\nfloat(value)"


@pytest.fixture(scope="module")
def debugged() -> Iterator[DebuggedKernel]:
    with kernel() as (_, client):
        debugged = DebuggedKernel(client)
        run(client, "%pellucid as_jax")
        run(client, DEFINE)
        debugged.plain = run(client, CALL)["result"]
        debugged.start()
        yield debugged


def places(frames):
    return [(frame["source"]["path"].rpartition("/")[2], frame["line"]) for frame in frames]


def test_steps_go_into_a_library_and_out_of_it(debugged: DebuggedKernel) -> None:
    cell = debugged.break_at(DEFINE, Y).rpartition("/")[2]
    debugged.run(CALL)
    assert places(debugged.stopped())[0] == (cell, Y)
    assert places(debugged.go("stepIn"))[:2] == [(cell, INNER), (cell, Y)]
    frames = debugged.go("stepIn")
    assert places(frames)[1:3] == [(cell, INNER), (cell, Y)]
    path, line = frames[0]["source"]["path"], frames[0]["line"]
    assert path.endswith("flax/nnx/nn/linear.py")
    assert frames[0]["name"] == "Linear.__call__"
    after = debugged.go("next")[0]
    assert after["line"] > line
    assert debugged.variables(after)["y"]["value"] == "f32[4]"
    assert places(debugged.go("stepOut"))[0] == (cell, TANH)
    debugged.break_at(DEFINE)
    # A breakpoint in the library's own file.
    source = {"path": path}
    debugged.body("setBreakpoints", source=source, breakpoints=[{"line": line}])
    assert debugged.finish() == debugged.plain
    debugged.run(CALL)
    assert places(debugged.stopped())[:2] == [("linear.py", line), (cell, INNER)]
    debugged.body("setBreakpoints", source=source, breakpoints=[])
    assert debugged.finish() == debugged.plain
