"""What simulated cores did, as text."""

import numpy as np

import pellucid.numpy as jnp
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.kernels.simulator.call import recorded
from pellucid.kernels.simulator.machine import Machine
from pellucid.kernels.simulator.timeline import bubbles, timeline

X = np.ones((4, 1024), np.float32)


def in_turn(x_ref, o_ref, buffers, sems):
    """Each row is copied, then computed."""
    for i in range(4):
        tpu.async_copy(x_ref.at[i], buffers.at[0], sems.at[0]).wait()
        o_ref[i] = jnp.sin(buffers[0])


def ahead(x_ref, o_ref, buffers, sems):
    """The next row is copied while one is computed."""

    def fetch(i):
        return tpu.make_async_copy(x_ref.at[i], buffers.at[i % 2], sems.at[i % 2])

    fetch(0).start()
    for i in range(4):
        if i < 3:
            fetch(i + 1).start()
        fetch(i).wait()
        o_ref[i] = jnp.sin(buffers[i % 2])


def machine_of(kernel):
    anywhere = BlockSpec(memory_space=pallas.ANY)
    call = pallas_call(
        kernel,
        X,
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[tpu.VMEM((2, 1024), np.float32), tpu.SemaphoreType.DMA((2,))],
        interpret=tpu.InterpretParams(detect_races=True),
    )
    with recorded() as machines:
        np.testing.assert_allclose(call(X), np.sin(X), rtol=1e-6)
    return machines[0]


def test_waits_are_shorter_where_copies_run_ahead():
    # A row of 4,096 bytes takes five steps to copy, and one to compute.
    slow, fast = machine_of(in_turn), machine_of(ahead)
    [bubble] = bubbles(slow.trace)
    assert bubble.steps == 20
    assert "async_copy(x_ref.at[i], buffers.at[0], sems.at[0]).wait()" in bubble.line
    [bubble] = bubbles(fast.trace)
    assert bubble.steps < 20
    assert "fetch(i).wait()" in bubble.line


def test_the_drawing():
    text = timeline(machine_of(in_turn), width=24)
    assert text.splitlines()[:3] == [
        "24.0 steps",
        "device 0          |.....#.....#.....#.....#|",
        "  copies          |===== ===== ===== ===== |",
    ]
    assert "20.0 steps, test_timeline.py" in text
    assert timeline(Machine(tpu.InterpretParams(), 1, "nothing")) == "nothing took time"
