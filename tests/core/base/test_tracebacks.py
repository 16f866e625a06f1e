"""Which frames Python prints of exceptions that nobody catches."""

import json
import subprocess
import sys
import traceback

import pytest

import pellucid as pl
from pellucid import introspect
from pellucid._machine.base.source import is_internal_file
from pellucid._machine.base.tracebacks import filter_tracebacks, without_internal_frames

PROGRAM = """
import threading, pellucid as pl
def inner(x):
    return {"a": x}["b"]
def looped(x):
    return pl.lax.scan(lambda c, _: (inner(c), None), x, None, length=2)[0]
def run():
    pl.jit(pl.grad(looped))(1.0)
"""
IN_A_THREAD = PROGRAM + "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n"


def printed(program, mode):
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={"JAX_TRACEBACK_FILTERING": mode, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    return run.stderr.rstrip().splitlines()


@pytest.mark.parametrize("mode", ["auto", "quiet_remove_frames", "off"])
@pytest.mark.parametrize("program", [PROGRAM + "run()", IN_A_THREAD])
def test_uncaught_exceptions_show_the_users_frames(program, mode):
    lines = printed(program, mode)
    frames = [line for line in lines if line.startswith("  File ")]
    files = [frame.split('"')[1] for frame in frames]
    assert any(map(is_internal_file, files)) == (mode == "off")
    functions = [frame.rsplit(" in ", 1)[1] for frame in frames if '"<string>"' in frame]
    assert functions[-4:] == ["run", "looped", "<lambda>", "inner"]
    assert "KeyError: 'b'" in lines[-2:]
    assert lines[-1].startswith("(Frames of pellucid are left out") == (mode == "auto")


def test_errors_say_where_they_are_documented():
    lines = printed("import pellucid as pl\npl.jit(lambda x: 1 if x else 0)(1.0)", "auto")
    assert "(More: docs/errors.md#tracerboolconversionerror)" in lines[-2:]


def raised(call):
    try:
        call()
    except Exception as error:  # any: it is looked at
        return error
    raise AssertionError("nothing was raised")


def test_the_exception_itself_keeps_all_frames():
    error = raised(lambda: pl.jit(lambda x: {}[x.shape])(1.0))
    whole = traceback.extract_tb(error.__traceback__)
    with filter_tracebacks(error):
        shown = traceback.extract_tb(error.__traceback__)
        assert error.__notes__
    assert traceback.extract_tb(error.__traceback__) == whole
    assert not hasattr(error, "__notes__")
    assert [f.filename for f in shown] == [__file__] * 3
    assert len(whole) > len(shown)


def test_frames_of_libraries_that_the_user_calls_stay():
    error = raised(lambda: pl.jit(lambda x: json.loads("{"))(1.0))
    shown = traceback.extract_tb(without_internal_frames(error.__traceback__))
    assert "json" in shown[-1].filename
    assert not any(is_internal_file(f.filename) for f in shown)


def interrupted():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pl.jit(lambda x: {}["b"])(1.0), "KeyError"),
        (lambda: pl.vmap(lambda x: x.missing)(pl.numpy.ones(3)), "AttributeError"),
        (lambda: pl.jit(lambda x: 1 // 0)(1.0), "ZeroDivisionError"),
        (lambda: pl.jit(lambda x: interrupted())(1.0), "KeyboardInterrupt"),
    ],
)
def test_exceptions_of_traced_functions_become_records(call, name):
    try:
        call()
    except BaseException as error:  # KeyboardInterrupt too
        record = introspect.error(error)
    assert record.name == name
    assert record.what
    assert not any(is_internal_file(frame.source.path) for frame in record.frames)
    assert "staging.py" in record.traceback or "vmap.py" in record.traceback
    with pl.config.option("traceback_filtering")("off"):
        assert introspect.error(raised(lambda: pl.jit(lambda x: {}["b"])(1.0))) is None
