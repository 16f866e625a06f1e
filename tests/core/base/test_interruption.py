"""Ctrl-C during a compilation."""

import os
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
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


def test_one_thread_makes_one_call_after_another_and_keeps_nothing():
    value = np.zeros(3)
    threads = [interruptible(threading.get_ident), interruptible(threading.get_ident)]
    assert threads[0] == threads[1] != threading.get_ident()
    assert interruptible(np.negative, value) is not value
    gone = weakref.ref(value)
    del value
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_threads_of_its_own():
    finished = run(
        """
    import os, warnings
    warnings.simplefilter("ignore")
    from pellucid.base.interruption import interruptible
    interruptible(int)
    child = os.fork()
    if child == 0:
        os._exit(interruptible(lambda: 3))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    )
    assert finished.stdout.splitlines()[-1] == "3", finished.stderr


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
