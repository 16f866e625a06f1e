"""NumPy arrays and scalars as arguments of compiled functions, which are copied."""

import sys

import ml_dtypes
import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base import config, dtypes
from pellucid._machine.base.errors import ArgumentTypeError, TransferGuardError
from pellucid._machine.base.events import TransferFinished, TransferStarted, counting

# Not all jaxlibs compile for floats of 6 bits.
DTYPES = [d for d in map(np.dtype, dtypes.SUPPORTED) if d.kind != "V" or d.itemsize > 1]
DTYPES += map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.int4))


class Subclass(np.ndarray):
    """An array that C++ doesn't know."""


class OwnScalar(np.float32):
    """A scalar that C++ doesn't know."""


@pytest.mark.parametrize("x64", [False, True])
def test_arguments_of_each_dtype_come_as_they_are(x64):
    with config.enable_x64(x64):
        f = pl.jit(lambda *xs: xs)
        for dtype in DTYPES:
            array = np.array([[1, 2], [2, 1]]).astype(dtype)
            values = [array, array[::-1, 1:], array[1, 0], np.asfortranarray(array)]
            for _ in range(2):
                for value, result in zip(values, f(*values), strict=True):
                    assert result.dtype == dtypes.canonicalize(dtype)
                    assert not result.weak_type
                    np.testing.assert_array_equal(np.asarray(result), np.asarray(value))


def test_subclasses_of_numpy_are_taken():
    f = pl.jit(lambda x: x + 1)
    value = np.ones(2, np.float32).view(Subclass)
    for _ in range(2):
        np.testing.assert_array_equal(f(value), [2, 2])
    for _ in range(2):
        assert f(OwnScalar(1)) == 2


def test_float0_is_taken():
    f = pl.jit(lambda x, y: (x, y))
    for _ in range(2):
        zeros, y = f(np.zeros(3, dtypes.float0), np.ones(3, np.float32))
        assert zeros.dtype == dtypes.float0
        assert y.sum() == 3


def test_each_call_reads_what_is_in_the_array_then():
    x = aligned(1 << 16)
    f, scale = pl.jit(lambda x, s: jnp.sort(x * s)), np.array(2.0, np.float32)
    results = []
    for i in range(5):
        x[...], scale[...] = i, i
        results.append(f(x, scale))
        x[...], scale[...] = -1, -1
    assert [float(r[0]) for r in results] == [i * i for i in range(5)]


def aligned(n):
    """A NumPy array that a device could take as it is."""
    memory = np.zeros(n + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + n]


def after_a_while(x):
    """`x`, read when a large array is sorted."""
    smallest = jnp.sort(jnp.cos(jnp.arange(1 << 16)))[0]
    return jnp.where(smallest < 2, x, 0) * 1.0


KINDS = {
    "position": (pl.jit(after_a_while), lambda f, x: f(x)),
    "keyword": (pl.jit(after_a_while), lambda f, x: f(x=x)),
    "container": (
        pl.jit(lambda tree: {"x": [after_a_while(tree["x"][0])]}),
        lambda f, x: f({"x": [x, 1.0]})["x"][0],
    ),
    "static": (
        pl.jit(lambda n, x: after_a_while(x) * n / n, static_argnums=0),
        lambda f, x: f(2, x),
    ),
    "Compiled": (
        pl.jit(after_a_while).lower(np.zeros(16, np.float32)).compile(),
        lambda f, x: f(x),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_small_arrays_are_read_before_the_call_returns(kind):
    function, call = KINDS[kind]
    x, results = aligned(16), []
    for i in range(4):
        x[...] = i
        results.append(call(function, x))
        x[...] = -1
    assert [r.tolist() for r in results] == [[i] * 16 for i in range(4)]


def test_a_scalar_and_an_array_of_no_dimensions_take_turns():
    f, x = pl.jit(after_a_while), np.zeros((), np.float32)
    for value in (np.float32(3), x, np.float32(4), x):
        assert f(value) == value


def test_listeners_hear_of_each_transfer_and_guards_refuse_known_arguments():
    f, x = pl.jit(lambda x: x + 1), np.ones(3, np.float32)
    f(x), f(x)
    with counting(TransferStarted) as seen:
        f(x), f(x)
    assert seen.count == 2
    with pl.transfer_guard_host_to_device("disallow"), pytest.raises(TransferGuardError):
        f(x)


@pytest.mark.parametrize("number", [True, 1, 2.0, 3j])
@pytest.mark.parametrize("call", [pl.jit(lambda x, y: x + y), lambda x, y: x + y])
def test_numbers_are_guarded_and_are_no_copies_of_arrays(call, number):
    x = pl.device_put(np.ones(3, np.complex64))
    with counting(TransferStarted) as started, counting(TransferFinished) as finished:
        results = [call(x, number) for _ in range(3)]
    assert (started.count, finished.count) == (0, 0)
    assert [r.tolist() for r in results] == [[1 + number] * 3] * 3
    for _ in range(2):
        with pl.transfer_guard("disallow"), pytest.raises(TransferGuardError, match="host-to-dev"):
            call(x, number)
    with counting(TransferStarted) as started:
        pl.device_put(number)
    assert started.count == 1


@pytest.mark.parametrize("number", [True, 1, 2.0, 3j])
def test_cpp_places_numbers(monkeypatch, number):
    f = pl.jit(lambda x: x == number)
    f(number)
    monkeypatch.setattr("pellucid._machine.xla.arrays.put", None)
    assert f(number)


def test_results_keep_their_devices_and_guards_are_asked():
    f, x = pl.jit(lambda x: x + 1), np.ones(3, np.float32)
    for device in pl.devices()[:2]:
        with pl.default_device(device):
            for _ in range(2):
                assert f(x).devices() == {device}
    with pl.transfer_guard_host_to_device("disallow"), pytest.raises(TransferGuardError):
        f(x)
    assert f(x)[0] == 2


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([1], ">f4"), np.str_("a")])
def test_other_dtypes_are_refused(value):
    f = pl.jit(lambda x: x)
    for _ in range(2):
        with pytest.raises(ArgumentTypeError):
            f(value)


def test_scalars_of_small_floating_dtypes():
    f = pl.jit(lambda x: x + x)
    for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        for _ in range(2):
            assert float(f(kind(1.0))) == 2


# Programs that have run when their call returns ---------------------------------------------------

LONG = 1 << 18
"""Steps of a loop that takes milliseconds, and of which XLA counts the flops of one step."""


def long_of(x):
    """`x`, read again and again for some milliseconds by a program of few flops."""
    return pl.lax.fori_loop(0, LONG, lambda i, y: jnp.where(i < LONG, x, y), x)


def python_frames(call):
    """The number of Python functions that run in `call()`."""
    entered = []
    sys.setprofile(lambda frame, event, arg: entered.append(frame) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered) - 1


IN_MEMORY = {
    "aligned": lambda: aligned(16),
    "unaligned": lambda: aligned(17)[1:],
    "with gaps": lambda: aligned(32)[::-2],
    "in Fortran's order": lambda: np.asfortranarray(aligned(16).reshape(4, 4)),
    "of no dimensions": lambda: aligned(1).reshape(()),
    "64 bits": lambda: np.zeros(16),
    "4 bits": lambda: np.zeros(16, ml_dtypes.int4),
}


@pytest.mark.parametrize("donated", [(), (0,)])
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_programs_of_few_flops_have_read_their_arrays_when_the_call_returns(kind, donated):
    for f in (long_of, lambda x: x, jnp.ravel)[: 2 if donated else 3]:
        function = pl.jit(f, donate_argnums=donated)
        x, results = IN_MEMORY[kind](), []
        for i in range(4):
            x[...] = i
            results.append(function(x))
            x[...] = -1
        assert [np.unique(r).tolist() for r in results] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("x", [np.ones(8, np.float32), np.float32(1), np.ones(8)])
def test_calls_of_programs_of_few_flops_need_no_python(x):
    f = pl.jit(lambda x: x + 1)
    f(x)
    assert python_frames(lambda: f(x)) == 0
    f = pl.jit(after_a_while)
    f(x)
    assert python_frames(lambda: f(x)) > 0


def test_arrays_that_are_awaited_leave_no_time_to_write():
    slow = pl.jit(lambda x: jnp.sort(jnp.cos(x))[:16])
    use = pl.jit(lambda y, x: y * 0 + x)
    x, results = aligned(16), []
    for i in range(4):
        y = slow(jnp.arange(float(1 << 18)))
        x[...] = i
        results.append(use(y, x))
        x[...] = -1
    assert [r.tolist() for r in results] == [[i] * 16 for i in range(4)]


def test_constants_that_are_awaited_leave_no_time_to_write():
    slow, x = pl.jit(lambda x: jnp.sort(jnp.cos(x))[:16]), aligned(16)
    many = jnp.arange(float(1 << 19))
    slow(many).block_until_ready()
    y, results = slow(many), []
    f = pl.jit(lambda x: y * 0 + x)
    for i in range(6):
        x[...] = i
        results.append(f(x))
        x[...] = -1
    assert [r.tolist() for r in results] == [[i] * 16 for i in range(6)]


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float32, np.complex64])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_descriptions_of_arrays_have_no_values(shape, dtype):
    described = pl.ShapeDtypeStruct(shape, dtype)
    for run in (pl.device_put, pl.jit(lambda x: x), jnp.array, lambda x: jnp.where(x, 1, 2)):
        with pytest.raises(ArgumentTypeError, match="the values of an array, not its description"):
            run(described)
