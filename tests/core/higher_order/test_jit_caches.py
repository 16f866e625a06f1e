"""Caches of jit: their keys, sharing and lifetime; threads; errors that leave them usable."""

import dataclasses
import functools
import gc
import itertools
import threading
import time
import types
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid.base.errors import OutOfMemoryError
from pellucid.base.events import CompilationFinished, TraceFinished, counting
from pellucid.compilation.pipeline import UnusedDonationWarning
from pellucid.higher_order import jitted
from pellucid.tracing.fingerprint import fingerprint

X = np.ones(3, np.float32)


_numbers = itertools.count(1)


def unique():
    """A function like no other, so that no program of another test is found."""
    k = next(_numbers) + 0.123
    return lambda x: x * k + 1.0


# What is kept -------------------------------------------------------------------------------------


def references_of(function, array):
    """Weak references to a function, its executable, and an array."""
    function(1.0)
    [program] = function.jitted.programs.values()
    [executable] = program.executables.values()
    return weakref.ref(executable), weakref.ref(function), weakref.ref(array)


def test_a_dropped_function_frees_its_executables():
    large = pl.device_put(np.ones(1 << 19, np.float32))  # too large to be shared
    remaining = references_of(pl.jit(lambda x, w=large: x + w), large)
    del large
    gc.collect()
    assert [reference() for reference in remaining] == [None] * 3


# A function whose globals and closure have no content that can be known ----------------------------------


class Settings:
    """An object of a user: its attributes may change."""

    factor = 2.0

    def __init__(self, offset):
        self.offset = offset

    def applied(self, x):
        return x * self.factor + self.offset


def compilations(function, x=X):
    """The result of `function`, jitted anew, and how many programs were traced for it."""
    with counting(TraceFinished) as traced:
        result = pl.jit(function)(x)
    return result.tolist(), traced.count


def test_a_function_object_jitted_again_finds_its_program():
    settings = Settings(1.0)

    def function(x):
        return settings.applied(x)

    assert fingerprint(function) is None
    assert [compilations(function) for _ in range(3)] == [
        ([3, 3, 3], 1),
        ([3, 3, 3], 0),
        ([3, 3, 3], 0),
    ]
    assert pl.jit(function, inline=True)(X).tolist() == [3, 3, 3]
    assert compilations(lambda x: settings.applied(x))[1] == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda s: setattr(s, "offset", 2.0),
        lambda s: setattr(s, "__class__", type("Other", (Settings,), {"factor": 3.0})),
        lambda s: setattr(s, "applied", lambda x: x * 2 + 2.0),
    ],
    ids=["attribute", "class", "method"],
)
def test_what_an_object_has_become_is_not_missed(change):
    settings = Settings(1.0)

    def function(x):
        return settings.applied(x)

    assert compilations(function) == ([3, 3, 3], 1)
    change(settings)
    assert compilations(function) == ([4, 4, 4], 1)


def test_objects_that_nothing_refers_to_weakly():
    settings = types.SimpleNamespace(factor=2.0)

    def function(x):
        return x * settings.factor

    assert [compilations(function) for _ in range(2)] == [([2, 2, 2], 1), ([2, 2, 2], 0)]
    settings.factor = 3.0
    assert compilations(function) == ([3, 3, 3], 1)


@dataclasses.dataclass(frozen=True)
class Frozen:
    """An object whose methods name an exception and what every module has: `__setattr__`."""

    factor: float

    def applied(self, x):
        return x * self.factor


def test_objects_of_frozen_data_classes():
    settings = Frozen(2.0)

    def function(x):
        return settings.applied(x)

    assert [compilations(function) for _ in range(2)] == [([2, 2, 2], 1), ([2, 2, 2], 0)]
    settings = Frozen(3.0)
    assert compilations(function) == ([3, 3, 3], 1)


def test_an_old_program_is_no_entry_of_the_new_content():
    settings = types.SimpleNamespace(factor=2.0)

    def function(x):
        return x * settings.factor

    early = pl.jit(function)
    early.trace(X)
    settings.factor = 3.0
    assert early(X).tolist() == [2, 2, 2]  # as a function called before
    assert compilations(function) == ([3, 3, 3], 1)
    settings.factor = 2.0
    late = pl.jit(function)
    assert early(X).tolist() == late(X).tolist() == [2, 2, 2]


def test_a_function_jitted_again_asks_at_its_first_call():
    settings = Settings(1.0)

    def function(x):
        return settings.applied(x)

    for offset in (1.0, 2.0, 1.0, 3.0):
        jitted_before = pl.jit(function)
        settings.offset = offset
        for _ in range(3):
            assert jitted_before(X).tolist() == [2 + offset] * 3
        for x in (pl.device_put(X), 1.0, np.float32(1)):
            assert compilations(function, x)[0] == jitted_before(x).tolist()


def test_first_calls_of_a_function_jitted_again_are_run_in_cpp():
    settings, calls = Settings(1.0), []

    def function(x):
        return settings.applied(x)

    def first_call(x):
        function_jitted = pl.jit(function)
        miss = function_jitted.jitted._results
        function_jitted.jitted._results = lambda call: calls.append(call) or miss(call)
        results = [function_jitted(x) for _ in range(3)]
        return [result.tolist() for result in results]

    x = pl.device_put(X)
    assert [first_call(x) for _ in range(4)] == [[[3] * 3] * 3] * 4
    assert len(calls) == 4  # the first call of two, and the second call of each of the others


def test_a_failing_first_call_leaves_the_function_usable():
    fails = [True]

    def function(x):
        if fails[0]:
            raise KeyError("not yet")
        return x + 1

    for _ in range(2):
        with pytest.raises(KeyError):
            pl.jit(function)(X)
    fails[0] = False
    assert [compilations(function) for _ in range(2)] == [([2] * 3, 1), ([2] * 3, 0)]


def test_a_replaced_function_of_a_module_is_not_missed():
    module = types.ModuleType("module_of_a_user")
    module.helper = lambda x: x + 1.0

    def function(x):
        return module.helper(x)

    assert compilations(function) == ([2, 2, 2], 1)
    assert compilations(function) == ([2, 2, 2], 0)
    module.helper = lambda x: x + 2.0
    assert compilations(function) == ([3, 3, 3], 1)


def test_a_method_whose_code_was_replaced_is_not_missed(monkeypatch):
    settings = Settings(1.0)

    def function(x):
        return settings.applied(x)

    assert compilations(function) == ([3, 3, 3], 1)
    code = (lambda self, x: x * 2 + self.offset + 1).__code__  # as reloading in a notebook does
    monkeypatch.setattr(Settings.applied, "__code__", code)
    assert compilations(function) == ([4, 4, 4], 1)


def test_a_function_that_reads_what_has_no_attributes_is_traced_each_time():
    numbers, large = iter((1.0, 2.0)), np.zeros(5000)

    def of_iterator(x):
        return x + next(numbers)

    def of_array(x):
        return x + float(large[0])

    assert [compilations(of_iterator)[0] for _ in range(2)] == [[2] * 3, [3] * 3]
    assert compilations(of_array) == ([1] * 3, 1)
    large[0] = 1.0
    assert compilations(of_array) == ([2] * 3, 1)


def test_programs_of_a_function_object_go_with_it():
    def references():
        settings = Settings(1.0)

        def function(x, settings=settings):
            return settings.applied(x)

        jitted = pl.jit(function)
        jitted(X)
        [program] = jitted.jitted.programs.values()
        return weakref.ref(function), weakref.ref(program), weakref.ref(settings)

    remaining = references()
    gc.collect()
    assert [reference() for reference in remaining] == [None] * 3


# ---------------------------------------------------------------------------------------------------


def test_shared_programs_are_few_and_small():
    for _ in range(jitted._MAX_SHARED_PROGRAMS + 5):
        pl.jit(unique()).trace(X)
    assert jitted._shared.cache_info().currsize == jitted._MAX_SHARED_PROGRAMS


def test_clear_caches_forgets_everything():
    function = pl.jit(unique())
    function(X)
    pl.clear_caches()
    with counting(TraceFinished) as traced, counting(CompilationFinished) as compiled:
        function(X)
    assert (traced.count, compiled.count) == (1, 1)


def test_clear_cache_of_one_function():
    function, other = pl.jit(unique()), pl.jit(unique())
    function(X), other(X)
    function.clear_cache()
    with counting(TraceFinished) as traced:
        function(X), other(X)
    assert traced.count == 0  # found among the shared programs
    assert function._cache_size() == 1


def test_the_second_call_asks_no_python():
    calls = []
    function = pl.jit(unique())
    miss = function.jitted._results
    function.jitted._results = lambda call: calls.append(call) or miss(call)
    for argument in (pl.device_put(X), X, 1.0, np.float32(1), True):
        function(argument)
        before = len(calls)
        function(argument)
        assert len(calls) == before, argument


def test_a_program_with_constants_takes_the_call_path():
    w = np.full(3, 2.0, np.float32)
    function = pl.jit(lambda x, y: x * w + y)
    for _ in range(3):
        assert function(X, 1.0).tolist() == [3, 3, 3]
    unused = pl.jit(lambda x, y: x * w)
    for _ in range(3):
        assert unused(X, X).tolist() == [2, 2, 2]


# Threads ------------------------------------------------------------------------------------------


def in_threads(n, work):
    failures = []
    start = threading.Barrier(n)

    def run(i):
        try:
            start.wait(30)
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    assert not failures, failures


def test_threads_compile_a_function_once():
    def slow(x):
        time.sleep(0.05)
        for _ in range(50):
            x = pl.numpy.sin(x) * 1.25
        return x

    function = pl.jit(slow)
    results = [None] * 6
    arguments = [X, pl.device_put(X), X, pl.device_put(X, pl.devices()[0]), X, pl.device_put(X)]

    def work(i):
        results[i] = np.asarray(function(arguments[i]))

    pl.numpy.sin(X)
    with counting(CompilationFinished) as compiled:
        in_threads(6, work)
    # Once for arguments that may lie anywhere, once for those that were put on a device.
    assert sum(event.name == "slow" for event in compiled.events) == 2
    assert all((r == results[0]).all() for r in results)


def test_threads_that_call_each_other_s_functions_don_t_deadlock():
    functions = []
    for i in range(6):
        inner = functions[-1] if functions else (lambda x: x)

        @pl.jit
        def function(x, inner=inner, i=i):
            time.sleep(0.005)
            return inner(x) + inner(np.float32(i))

        functions.append(function)

    in_threads(6, lambda i: (functions[i](X), functions[5 - i](X)))
    assert functions[1](X).tolist() == functions[1](X).tolist()


def test_caches_may_be_cleared_while_functions_run():
    function = pl.jit(unique())
    expected = function(X).tolist()
    stop = time.monotonic() + 0.5

    def work(i):
        while time.monotonic() < stop:
            if i == 0:
                function.clear_cache()
                pl.clear_caches()
                time.sleep(0.01)
            else:
                assert function(X).tolist() == expected

    in_threads(3, work)


def test_options_are_of_the_thread_while_functions_run():
    def work(i):
        for _ in range(20):
            with pl.enable_x64(i % 2 == 0):
                expected = np.float64 if i % 2 == 0 else np.float32
                assert pl.jit(lambda x: x * 2)(np.ones(2)).dtype == expected

    in_threads(4, work)


# Errors -------------------------------------------------------------------------------------------


def test_an_exception_while_tracing_leaves_the_function_usable():
    fail = [True]

    @pl.jit
    def function(x):
        if fail[0]:
            raise RuntimeError("not yet")
        return x * 2

    for _ in range(2):
        with pytest.raises(RuntimeError, match="not yet"):
            function(X)
    fail[0] = False
    assert function(X).tolist() == [2, 2, 2]
    calls = []
    function.jitted._results = calls.append
    assert function(X).tolist() == [2, 2, 2]  # through C++ again
    assert not calls


def test_an_interrupted_trace_leaves_no_half_program():
    interrupt = [True]

    @pl.jit
    def function(x):
        y = pl.numpy.sin(x)
        if interrupt[0]:
            raise KeyboardInterrupt
        return y

    with pytest.raises(KeyboardInterrupt):
        function(X)
    interrupt[0] = False
    assert np.allclose(function(X), np.sin(1))
    assert pl.jit(lambda x: x + 1)(1.0).tolist() == 2


def test_an_eager_operation_that_failed_is_quick_again():
    x = pl.device_put(X)
    with pytest.raises(TypeError):
        pl.lax.add(x, np.ones(4, np.float32))
    pl.lax.add(x, x)
    with counting(CompilationFinished) as compiled:
        assert pl.lax.add(x, x).tolist() == [2, 2, 2]
    assert compiled.count == 0


def test_recursion_on_static_arguments():
    @functools.partial(pl.jit, static_argnums=1)
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert power(np.float32(2), 5).tolist() == 32


def test_endless_recursion_says_so_and_leaves_the_process_usable():
    @pl.jit
    def function(x):
        return function(x) + 1

    for _ in range(2):
        with pytest.raises(RecursionError):
            function(np.float32(1))
    assert pl.jit(lambda x: x + 1)(np.float32(1)).tolist() == 2


def test_unhashable_static_arguments_on_both_paths():
    function = pl.jit(lambda x, how: x * how[0], static_argnames="how")
    for _ in range(2):
        assert function(X, how=(2.0,)).tolist() == [2, 2, 2]
        with pytest.raises(ValueError, match="the static argument 'how' can't be hashed"):
            function(X, how=[2.0])
        with pytest.raises(ValueError, match="how: list"):
            function(X, [2.0])


def test_static_arguments_that_can_t_be_compared():
    class Odd:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise ZeroDivisionError("can't compare")

    function = pl.jit(lambda x, how: x, static_argnums=1)
    function(X, Odd())
    with pytest.raises(ValueError, match="static arguments should be comparable"):
        function(X, Odd())
    assert function(X, 3).tolist() == [1, 1, 1]


def test_unknown_compiler_options_are_named():
    with pytest.raises(ValueError) as caught:
        pl.jit(unique(), compiler_options={"xla_cpu_enable_fast_mth": True})(X)
    assert str(caught.value).splitlines() == [
        "there is no compiler option 'xla_cpu_enable_fast_mth'.",
        "  Did you mean 'xla_cpu_enable_fast_math' or "
        + str(caught.value).splitlines()[1].partition(" or ")[2],
    ]
    with pytest.raises(ValueError, match="'xla_cpu_enable_fast_math' does not take this value"):
        pl.jit(unique(), compiler_options={"xla_cpu_enable_fast_math": 3})(X)
    with pytest.raises(TypeError, match="compiler_options maps names"):
        pl.jit(unique(), compiler_options={"xla_cpu_enable_fast_math": [1]})
    assert pl.jit(unique(), compiler_options={"xla_cpu_enable_fast_math": True})(X).shape == (3,)


def test_a_failing_program_raises_our_error_each_time():
    function = pl.jit(lambda x: pl.lax.broadcast_in_dim(x, (1 << 40,), ()))
    for _ in range(3):
        with pytest.raises(OutOfMemoryError):
            function(np.float32(1))


# Shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2), (1, 1, 1)])
def test_odd_shapes(shape):
    function = pl.jit(lambda x: (x * 2 + 1, x.sum()))
    for _ in range(2):
        y, total = function(np.ones(shape, np.float32))
        assert y.shape == shape
        assert total.tolist() == np.prod(shape)


@pytest.mark.parametrize("shape", [(2**31,), (2**31 + 8, 1), (2**16, 2**16), (2, 2**31)])
def test_more_elements_than_32_bits_count(shape):
    struct = pl.ShapeDtypeStruct(shape, np.int8)
    function = pl.jit(lambda x: (-x, x.sum(dtype=np.int32)))
    y, total = function.eval_shape(struct)
    assert (y.shape, total.shape) == (shape, ())
    compiled = function.lower(struct).compile()
    assert compiled.memory_analysis().argument_size_in_bytes == np.prod(shape)


# Donation -----------------------------------------------------------------------------------------


def test_a_donated_argument_names_the_call_that_took_it():
    @pl.jit
    def first(x):
        return x + 1

    @functools.partial(pl.jit, donate_argnames="state")
    def update(state, x):
        return {"w": state["w"] + x}

    state = {"w": pl.device_put(np.ones(37, np.float32))}
    for _ in range(2):
        new = update(state, 1.0)
        assert state["w"].is_deleted()
        with pytest.raises(RuntimeError, match=r"was donated to `update`.*\n.*its argument state"):
            first(state["w"])
        state = new
    assert state["w"].tolist()[0] == 3


def test_an_array_can_t_be_donated_and_used_in_one_call():
    function = pl.jit(lambda x, y: x + y, donate_argnums=0)
    x = pl.device_put(X)
    with pytest.raises((RuntimeError, ValueError)):
        function(x, x).block_until_ready()
    assert function(pl.device_put(X), pl.device_put(X)).tolist() == [2, 2, 2]


def test_donations_that_help_nobody_are_told():
    function = pl.jit(lambda x, y: x.sum() + y, donate_argnums=(0, 1))
    with pytest.warns(UnusedDonationWarning, match=r"is not reused: f32\[3\]\.") as warned:
        function(pl.device_put(X), pl.device_put(np.float32(1)))
    assert warned[0].filename == __file__
    function(pl.device_put(X), pl.device_put(np.float32(1)))  # not told again


def test_numpy_arguments_survive_donation():
    function = pl.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(3):
        assert function(X).tolist() == [2, 2, 2]
        assert X.tolist() == [1, 1, 1]


# Options ------------------------------------------------------------------------------------------


def test_disable_jit_runs_python():
    seen = []

    @pl.jit
    def function(x, n=2):
        seen.append(type(x))
        y = pl.numpy.where(x > 0, x, 0) + pl.numpy.ones(3)
        return y[0] if float(y[0]) > 1 else y[1]

    with pl.disable_jit():
        assert function(pl.device_put(X)).tolist() == 2
        assert function(X).tolist() == 2
        assert (pl.device_put(X) + X).tolist() == [2, 2, 2]
        assert pl.grad(lambda x: (x * x).sum())(X).tolist() == [2, 2, 2]
    assert seen[1] is np.ndarray


def test_keep_unused_keeps_arguments():
    def function(x, y):
        return x

    for keep, count in ((False, 1), (True, 2)):
        lowered = pl.jit(function, keep_unused=keep).lower(X, X)
        assert lowered.as_text().split("@main(")[1].split(")")[0].count("tensor") == count
        assert lowered.compile()(X, 2 * X).tolist() == [1, 1, 1]
