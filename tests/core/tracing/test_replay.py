"""Running a program: at once, step by step, and again under a trace."""

import numpy as np

from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.primitives.arithmetic import mul
from pellucid._machine.primitives.transcendental import sin
from pellucid._machine.tracing.staging import replay, stage, steps

VECTOR = shaped_array((3,), np.dtype(np.float32))
X = np.arange(3, dtype=np.float32)


def test_steps_pause_before_each_equation() -> None:
    jaxpr, consts = stage(lambda x: [mul(sin(x), 2.0)], [VECTOR])
    run = steps(jaxpr, consts, X)
    pauses = []
    try:
        while True:
            pause = next(run)
            pauses.append((pause.equation.primitive.name, len(pause.operands)))
    except StopIteration as stop:
        results = stop.value
    assert pauses == [("sin", 1), ("mul", 2)]
    np.testing.assert_array_equal(results[0], replay(jaxpr, consts, X)[0])


def test_a_program_traced_again_keeps_its_sources_and_names_its_origins() -> None:
    jaxpr, consts = stage(lambda x: [mul(sin(x), 2.0)], [VECTOR])
    again, _ = stage(lambda x: replay(jaxpr, consts, x), [VECTOR])
    for old, new in zip(jaxpr.equations, again.equations, strict=True):
        assert new.source is old.source
        assert new.lineage.origins == (old,)
        assert new.id != old.id
