"""Charts of figures, by plotly."""

import sys

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.introspect.errors import ArgumentTypeError, UnsupportedError
from pellucid_kernel.debug import diverge

X = np.ones((64, 64), np.float32)


def looped(x):
    return pl.lax.scan(lambda c, _: (jnp.tanh(c @ c), c), x, length=5)


def test_memory_of_a_run_begins_with_arguments_and_holds_what_a_loop_stacks():
    figure = pl.viz.memory(looped)(X)
    curve = figure.chart().data[0].y
    assert curve[0] >= X.nbytes
    assert max(curve) >= 6 * X.nbytes
    assert max(curve) <= 4 * figure.record.memory.peak_bytes


def test_placements_are_points_of_time_and_memory():
    mesh = pl.sharding.AbstractMesh((8,), ("data",))
    x = pl.ShapeDtypeStruct((64, 64), "float32", sharding=pl.NamedSharding(mesh, pl.P("data")))
    figure = pl.viz.what_if(lambda x: (x @ x).sum())(x).search(count=3, seconds=2.0)
    chart = figure.chart()
    assert [trace.name for trace in chart.data][:2] == ["today", "what if"]
    best = figure.record.best
    assert list(chart.data[2].x) == [each.peak_bytes for each in best]
    assert "data=" in chart.data[2].text[0]


def test_a_roofline_has_the_operations_of_a_session():
    f = pl.jit(lambda x: jnp.tanh(x @ x))
    f(X)
    with pl.profiler.profile() as recorded:
        f(X).block_until_ready()
    figure = pl.viz.profile(recorded)
    record = figure.record
    counted = [
        bool(flops and size)
        for flops, size in zip(record.operations.flops, record.operations.bytes, strict=True)
    ]
    assert len(figure.chart().data[-1].x) == sum(counted) > 0


def test_errors_of_two_runs_are_a_curve():
    divergence = diverge(lambda x: jnp.exp(jnp.sin(x) * 3.0), a=np.float16, b=np.float32)(X)
    [line] = divergence.figure().chart().data
    assert len(line.y) == 3
    assert "exp" in divergence.figure().record.equations.primitive


def test_what_has_no_chart_says_so(monkeypatch):
    with pytest.raises(ArgumentTypeError, match="has no chart"):
        pl.viz.program(looped)(X).chart()
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(UnsupportedError, match="pip install plotly"):
        pl.viz.memory(looped)(X).chart()
