"""Ctrl-C during a compilation."""

import logging
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import pellucid
from pellucid import NamedSharding, P
from pellucid._machine.base.interruption import interruptible
from pellucid._machine.runtime import waiting
from pellucid.experimental.buffer_callback import buffer_callback

CODE = """
    import os, signal, threading, time
    import numpy as np
    import pellucid
    from pellucid._machine.base.events import CompilationFinished, counting
    from pellucid._machine.higher_order.jitted import jit
    from pellucid._machine.primitives.arithmetic import add
    from pellucid._machine.primitives.transcendental import sin

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


WAITS = {
    "block_until_ready": "y.block_until_ready()",
    "several": "pellucid.block_until_ready([y, x])",
    "float": "float(first)",
    "bool": "bool(first)",
    "int": "int(first)",
    "item": "first.item()",
    "tolist": "y.tolist()",
    "tobytes": "y.tobytes()",
    "repr": "repr(y)",
    "print": "print(y)",
    "format": "f'{first:.2f}'",
    "device_get": "pellucid.device_get(y)",
    "array method": "y.__array__()",
    "sharded": "pellucid.device_get(pellucid.device_put(y, both))",
    "copied": "pellucid.device_put(y, pellucid.devices()[1]).tolist()",
    "keys": "repr(key)",
    "control flow": "first and 1",
}
if sys.version_info >= (3, 12):  # before, C++ gives NumPy its memory
    WAITS |= {"asarray": "np.asarray(y)", "memoryview": "memoryview(y)"}


@pytest.fixture(scope="module")
def interrupted_waits():
    """What a process says whose program runs on while one wait for it after another is interrupted."""
    waits = "".join(f"{name!r}: lambda: {text}, " for name, text in WAITS.items())
    return run(
        f"""
    import os, signal, threading, time
    import numpy as np
    import pellucid
    import pellucid.numpy as jnp

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    pellucid.config.update("num_cpu_devices", 2)
    mesh = pellucid.make_mesh((2,), ("i",))
    both = pellucid.NamedSharding(mesh, pellucid.P("i"))
    long = lambda x: pellucid.lax.fori_loop(0, 10**7, lambda i, c: c @ c * 0.01, x)
    x = jnp.ones((100, 100))
    y = pellucid.jit(long)(x)
    first, key = y[0, 0], pellucid.random.wrap_key_data(y[0, :2].astype("uint32"))

    for name, wait in {{{waits}}}.items():
        start = time.perf_counter()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            wait()
            print(name, "ended", flush=True)
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", ["nothing was said"])
            print(name, "|", time.perf_counter() - start < 5, "|", *notes, flush=True)
    os._exit(0)
    """
    )


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait_and_says_that_the_device_goes_on(name, interrupted_waits):
    rows = [line.split(" | ") for line in interrupted_waits.stdout.splitlines()]
    [(is_soon, note)] = [rest for first, *rest in rows if first == name]
    assert is_soon == "True"
    assert "The device is not interrupted: CpuDevice(id=" in note


def test_a_wait_for_a_device_that_runs_an_interrupted_program_says_so(interrupted_waits):
    warned = interrupted_waits.stderr.count("still runs a program for which a wait was interrupted")
    assert warned == len(WAITS) - 1, interrupted_waits.stderr  # all but the first


def test_a_wait_that_nobody_interrupted_says_nothing(caplog):
    x = np.ones(3, np.float32)
    y = pellucid.jit(lambda x: x + 1)(x)
    with caplog.at_level(logging.WARNING, "pellucid"):
        y.block_until_ready()
    assert not caplog.records
    assert not waiting._left


def test_a_wait_is_told_to_observers_unless_there_is_nothing_to_wait_for():
    told = []

    class Waits(pellucid.Observer):
        def wait_started(self, event):
            told.append([x.aval.text() for x in event.arrays])

        def wait_ended(self, event):
            told.append(event.is_left)

    x = np.full((300, 300), 0.001, np.float32)
    long = pellucid.jit(lambda x: pellucid.lax.fori_loop(0, 300, lambda i, c: c @ c, x))
    with pellucid.observe(Waits()):
        long(x).block_until_ready()
        assert told in ([["f32[300,300]"], False], [])  # it may be ready before anybody asks
        told.clear()
        y = pellucid.device_put(x)
        y.block_until_ready()
        told.clear()
        y.block_until_ready()
    assert told == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("devices", [1, 2])
def test_ctrl_c_in_a_function_that_a_program_calls_is_no_failure_of_the_program(error, devices):
    def ends(x):
        raise error

    x = pellucid.numpy.ones(4)
    if devices > 1:
        x = pellucid.device_put(x, NamedSharding(pellucid.make_mesh((2,), ("i",)), P("i")))
    function = pellucid.jit(lambda x: pellucid.pure_callback(ends, x, x))
    with pytest.raises(error):
        function(x).block_until_ready()


def test_ctrl_c_in_a_function_that_fills_buffers_is_no_failure_of_the_program():
    def ends(*_):
        raise KeyboardInterrupt

    x = np.ones(3, np.float32)
    call = buffer_callback(ends, pellucid.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(KeyboardInterrupt):
        pellucid.jit(call)(x).block_until_ready()


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
