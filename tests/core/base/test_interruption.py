"""Ctrl-C during a compilation."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

from pellucid.base.interruption import interruptible

CODE = """
    import os, signal, threading, time
    import numpy as np
    import pellucid
    from pellucid.base.events import CompilationFinished, counting
    from pellucid.higher_order.jitted import jit
    from pellucid.primitives.arithmetic import add
    from pellucid.primitives.transcendental import sin

    pellucid.config.update("call_repeated_layers", False)  # which compiles quickly

    def deep(x):
        for _ in range(700):
            x = sin(add(x, x))
        return x

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    function = jit(deep)
    x = np.ones(3, np.float32)
    lowered = function.lower(x)
    shot = []

    def shoot():
        time.sleep(0.15)
        shot.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=shoot).start()
    try:
        lowered.compile()
    except KeyboardInterrupt:
        print("interrupted", time.perf_counter() - shot[0] < 0.2)
    print(jit(lambda x: add(x, x))(1.5))
"""


def run(code):
    """The end of a process that compiles as users' do, which takes long enough to be interrupted."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_prompt_comes_back_and_the_process_ends_well():
    finished = run(CODE)
    assert finished.stdout.splitlines() == ["interrupted True", "3.0"]
    assert finished.returncode == 0, finished.stderr


def test_the_same_function_can_be_compiled_afterwards():
    finished = run(
        CODE
        + """
    with counting(CompilationFinished) as seen:
        print(function(x).shape)
    print(seen.count)
    """
    )
    assert finished.stdout.splitlines()[2:] == ["(3,)", "1"]
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("wait", ["y.block_until_ready()", "pellucid.block_until_ready([y])"])
def test_ctrl_c_ends_a_wait_for_an_array(wait):
    finished = run(
        f"""
    import os, signal, threading, time
    import pellucid
    import pellucid.numpy as jnp

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    long = lambda x: pellucid.lax.fori_loop(0, 10**7, lambda i, c: c @ c * 0.01, x)
    y = pellucid.jit(long)(jnp.ones((100, 100)))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        {wait}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    os._exit(0)
    """
    )
    assert finished.stdout.splitlines() == ["interrupted"], finished.stderr


def test_results_and_errors_come_back():
    assert interruptible(lambda x: x + 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)


def test_other_threads_do_the_work_themselves():
    names = []
    thread = threading.Thread(
        target=lambda: interruptible(lambda: names.append(threading.current_thread().name)),
        name="mine",
    )
    thread.start()
    thread.join()
    interruptible(lambda: names.append(threading.current_thread().name))
    assert names == ["mine", "pellucid-work"]


def test_a_check_ends_the_wait_for_a_call_that_goes_on():
    called = threading.Event()

    def check():
        if called.is_set():
            raise RuntimeError("enough")

    def work():
        called.set()
        threading.Event().wait(20)

    with pytest.raises(RuntimeError, match="enough"):
        interruptible(work, check=check)
    assert interruptible(lambda: 3, check=lambda: None) == 3
