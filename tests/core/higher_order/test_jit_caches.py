"""Caches of jit: their keys, sharing and lifetime; threads; errors that leave them usable."""

import concurrent.futures
import dataclasses
import functools
import gc
import itertools
import operator
import threading
import time
import types
import weakref
from unittest import mock

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import OutOfMemoryError
from pellucid._machine.base.events import CompilationFinished, TraceFinished, counting
from pellucid._machine.compilation import executable_cache
from pellucid._machine.compilation.pipeline import UnusedDonationWarning
from pellucid._machine.higher_order import misses
from pellucid._machine.runtime.executable import precompiled_metadata

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
    [program] = function.jitted.cache.programs.values()
    [executable] = program.executables.values()
    return weakref.ref(executable), weakref.ref(function), weakref.ref(array)


def test_a_dropped_function_frees_its_executables_and_arrays():
    array = pl.device_put(np.ones(3, np.float32))
    remaining = references_of(pl.jit(lambda x, w=array: x + w), array)
    del array
    gc.collect()
    assert [reference() for reference in remaining] == [None] * 3


@pytest.mark.parametrize(
    "use",
    [
        lambda f, x: pl.jit(f)(x),
        lambda f, x: pl.jit(f).lower(x).compile()(x),
        lambda f, x: pl.jit(lambda x, _: f(x), static_argnums=1)(x, "static"),
        lambda f, x: pl.jit(functools.partial(lambda g, x: g(x), f))(x),
        lambda f, x: pl.grad(pl.jit(lambda x: f(x).sum()))(x),
        lambda f, x: pl.jit(pl.vmap(f))(x),
        lambda f, x: pl.lax.scan(lambda c, y: (c + f(c).sum(), y), np.float32(0), x),
        lambda f, x: pl.lax.cond(True, f, lambda x: x, x),
        lambda f, x: pl.jit(pl.checkpoint(f))(x),
        lambda f, x: pl.jit(pl.vjp(f, x)[1])(x),
        lambda f, x: pl.linearize(f, x)[1](x),
        lambda f, x: pl.make_jaxpr(f)(x),
        lambda f, x: pl.eval_shape(f, x),
    ],
)  # fmt: skip
def test_transformations_of_a_closure_keep_no_array(use):
    def work():
        array = pl.device_put(np.full(3, 2.0, np.float32))
        use(lambda x: x * array + 1.0, np.ones(3, np.float32))
        return weakref.ref(array)

    remaining = [work() for _ in range(3)]
    gc.collect()
    assert [reference() for reference in remaining] == [None] * 3


# A function object has one program for each kind of call ---------------------------------------------------


def counted(use):
    """The result of `use()` as a list, and how many functions were traced and programs compiled for it."""
    with counting(TraceFinished) as traced, counting(CompilationFinished) as compiled:
        result = use()
    n_compiled = sum(event.cache == "miss" for event in compiled.events)
    return np.asarray(result).tolist(), traced.count, n_compiled


def test_a_function_object_jitted_again_finds_its_program():
    function = unique()
    expected, *first = counted(lambda: pl.jit(function)(X))
    assert first == [1, 1]
    for _ in range(3):
        assert counted(lambda: pl.jit(function)(X)) == (expected, 0, 0)
    assert counted(lambda: pl.jit(function, inline=True)(X)) == (expected, 1, 0)


def test_first_calls_of_a_function_jitted_again_are_run_in_cpp():
    calls, function, x = [], unique(), pl.device_put(X)
    for _ in range(4):
        jitted = pl.jit(function)
        miss = jitted.jitted.results
        jitted.jitted.results = lambda call, miss=miss: calls.append(call) or miss(call)
        jitted(x)
    assert len(calls) == 1


def test_a_function_defined_again_is_traced_again():
    seen = []

    def run():
        def f(x):
            seen.append(x.shape)
            return x * 2

        return pl.jit(f)(X)

    assert [run().tolist(), run().tolist()] == [[2, 2, 2]] * 2
    assert seen == [(3,), (3,)]


def test_objects_that_say_they_are_equal_have_programs_of_their_own():
    @dataclasses.dataclass(frozen=True)
    class Scaled:
        name: str
        factor: float = dataclasses.field(compare=False)

        def __call__(self, x, *_):
            return x * self.factor

    two, three = Scaled("f", 2.0), Scaled("f", 3.0)
    assert two == three
    assert [pl.jit(f)(X).tolist() for f in (two, three)] == [[2] * 3, [3] * 3]
    loops = [pl.lax.fori_loop(0, 1, lambda i, c, f=f: f(c), X).tolist() for f in (two, three)]
    assert loops == [[2] * 3, [3] * 3]
    branches = [pl.lax.cond(True, f, f, X).tolist() for f in (two, three)]
    assert branches == [[2] * 3, [3] * 3]


class Slotted:
    """A callable that nothing refers to weakly."""

    __slots__ = ()

    def __call__(self, x):
        return x + 1.0


@dataclasses.dataclass
class Unhashable:
    factor: float

    def __call__(self, x):
        return x * self.factor


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (operator.itemgetter(0), ((X, 2 * X),), 1),
        (operator.add, (X, X), 2),
        (Slotted(), (X,), 2),
        (Slotted().__call__, (X,), 2),
        (Unhashable(3.0), (X,), 3),
        (functools.partial(operator.mul, 4 * X), (X,), 4),
        (types.MethodType(lambda a, x: x - a, 3.0), (X,), -2),
    ],
)
def test_callables_of_every_kind_are_jitted_again(function, arguments, expected):
    for _ in range(3):
        jitted = pl.jit(function)
        for _ in range(3):
            assert jitted(*arguments).tolist() == [expected] * 3
        assert jitted.lower(*arguments).compile()(*arguments).tolist() == [expected] * 3


class RefersToItself:
    """A callable object with an attribute that partials have too."""

    @property
    def func(self):
        return self

    def __call__(self, x):
        return x + 1.0


def test_attributes_of_callable_objects_are_theirs():
    assert pl.jit(RefersToItself())(X).tolist() == [2] * 3
    assert pl.jit(mock.Mock(return_value=2.0))(X) == 2.0


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
    assert [counted(lambda: pl.jit(function)(X))[:2] for _ in range(2)] == [
        ([2] * 3, 1),
        ([2] * 3, 0),
    ]


# Equal programs are compiled once ---------------------------------------------------------------------


def number():
    """A number in no other program."""
    return next(_numbers) + 0.123


PROGRAMS = {
    "jit": lambda k: pl.jit(lambda x: x * k)(X),
    "lower": lambda k: pl.jit(lambda x: x * k).lower(X).compile()(X),
    "gradient": lambda k: pl.grad(pl.jit(lambda x: (x * k).sum()))(X),
    "scan": lambda k: pl.lax.scan(lambda c, x: (c * k + x, c), np.float32(0), X)[1],
    "cond": lambda k: pl.lax.cond(True, lambda x: x * k, lambda x: x + k, X),
    "vmap": lambda k: pl.vmap(pl.jit(lambda x: x * k))(X),
    "custom_jvp": lambda k: pl.jit(pl.grad(lambda x: scaled_by(k)(x).sum()))(X),
    "of another thread": lambda k: in_thread(lambda: pl.jit(lambda x: x * k)(X)),
}


def scaled_by(k):
    @pl.custom_jvp
    def function(x):
        return x * k

    function.defjvp(lambda primals, tangents: (function(*primals), tangents[0] * k))
    return function


def in_thread(work):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_programs_are_compiled_once(name):
    k, program = number(), PROGRAMS[name]
    first, _, n_compiled = counted(lambda: program(k))
    assert n_compiled >= 1
    again, _, n_compiled = counted(lambda: program(k))
    assert (again, n_compiled) == (first, 0)
    other, _, n_compiled = counted(lambda: program(number()))
    assert n_compiled >= 1
    assert other != first


def test_a_call_and_a_compilation_ahead_share_an_executable():
    k, m = number(), number()
    function, other = pl.jit(lambda x: x * k), pl.jit(lambda x: x * m)
    function(X)
    assert counted(lambda: function.lower(X).compile()(X))[1:] == (0, 0)
    other.lower(X).compile()
    assert counted(lambda: other(X))[1:] == (0, 0)


def test_captured_arrays_are_operands_of_one_executable():
    def run(w):
        return pl.jit(lambda x: x * w + 17.25)(X)

    run(pl.device_put(X))
    for factor in (2, 3):
        w = pl.device_put(factor * X)
        assert counted(lambda w=w: run(w)) == ([factor + 17.25] * 3, 1, 0)


def test_captured_numbers_on_devices_are_operands_too():
    def run(scale):
        return pl.jit(lambda x: x * scale + 18.25)(X)

    run(pl.device_put(np.float32(1)))
    scale = pl.device_put(np.float32(3))
    assert counted(lambda: run(scale)) == ([21.25] * 3, 1, 0)


def test_backward_functions_are_compiled_once():
    def backward(x):
        return pl.jit(pl.vjp(lambda x: x * x * 3.625, x)[1])(X)[0]

    first = backward(X).tolist()
    assert counted(lambda: backward(2 * X)) == ([2 * y for y in first], 1, 0)


@pytest.mark.parametrize(
    "other",
    [
        {"donate_argnums": 0},
        {"keep_unused": True, "unused": True},
        {"compiler_options": {"xla_cpu_enable_fast_math": True}},
        {"device": 1},
    ],
)
def test_programs_that_are_compiled_otherwise_are_others(other):
    k, other = number(), dict(other)
    device = other.pop("device", None)
    if other.pop("unused", False):
        make = lambda **options: pl.jit(lambda x, y: x * k, **options)(X, X)
    else:
        x = pl.device_put(X, pl.devices()[device or 0])
        make = lambda **options: pl.jit(lambda x: x * k, **options)(x)
    pl.jit(lambda x: x * k)(X)
    expected = (X * np.float32(k)).tolist()
    assert counted(lambda: make(**other)) == (expected, 1, 1)


def test_an_executable_has_the_lines_and_scopes_of_the_newest_program():
    def define(scope):
        def f(x):
            with pl.named_scope(scope):
                return pl.numpy.sin(x) * 5.375

        return pl.jit(f).lower(X).compile()

    first, second, third = define("a"), define("a"), define("b")
    facts = second._executable.precompiled
    assert first._executable.precompiled is third._executable.precompiled is None
    assert facts.source == "memory"
    assert first._executable.loaded is second._executable.loaded is not third._executable.loaded
    ids = {e.id for e in second._program.params.jaxpr.jaxpr.equations}
    assert ids & {origin.id for origin in facts.origins.values()}
    assert precompiled_metadata(first._executable.loaded) is facts
    del second, facts
    gc.collect()
    assert precompiled_metadata(first._executable.loaded) is None


def test_callbacks_count_by_identity():
    lists = [], []

    def program(seen):
        append = seen.append
        return pl.jit(lambda x: pl.debug.callback(append, x.sum() * 2.375) or x + 1)

    functions = [program(seen) for seen in (*lists, lists[0])]
    n_compiled = [counted(lambda f=f: f(X))[2] for f in functions]
    pl.effects_barrier()
    assert [len(seen) for seen in lists] == [2, 1]
    assert n_compiled == [1, 1, 1]  # `seen.append` is another object each time
    seen = []

    def noted(x):
        seen.append(float(x))

    functions = [pl.jit(lambda x: pl.debug.callback(noted, x.sum()) or x + 2) for _ in range(3)]
    assert [counted(lambda f=f: f(X))[2] for f in functions] == [1, 0, 0]
    pl.effects_barrier()
    assert seen == [3.0] * 3


def test_host_functions_go_with_their_programs():
    def work():
        array = pl.device_put(X)
        pl.jit(lambda x: pl.debug.callback(lambda y: array, x) or x + 3)(X)
        return weakref.ref(array)

    remaining = [work() for _ in range(3)]
    pl.effects_barrier()
    gc.collect()
    # The thread of XLA that called a host function last keeps it until it calls another one.
    assert [reference() for reference in remaining[:2]] == [None] * 2


def test_the_executables_that_nobody_uses_are_bounded_by_bytes(monkeypatch):
    programs = executable_cache.executables
    monkeypatch.setattr(programs, "max_bytes", programs.n_bytes + (1 << 20))
    for _ in range(12):
        pl.jit(unique()).lower(X).compile()
    assert programs.n_bytes <= programs.max_bytes
    k = number()
    kept = pl.jit(lambda x: x * k)
    kept(X)
    for _ in range(12):
        pl.jit(unique()).lower(X).compile()
    assert counted(lambda: pl.jit(lambda x: x * k)(X))[2] == 0  # in use elsewhere


def test_clear_caches_forgets_everything():
    function = pl.jit(unique())
    function(X)
    pl.clear_caches()
    with counting(TraceFinished) as traced, counting(CompilationFinished) as compiled:
        function(X)
    assert (traced.count, compiled.count) == (1, 1)


@pytest.mark.parametrize("options", [{}, {"static_argnames": "k"}, {"donate_argnums": 0}])
def test_the_size_of_a_functions_cache(options):
    function = pl.jit(lambda x, k=1: x + k, **options)
    for x in (1.0, 1, np.ones(3)):
        function(x)
    assert function._cache_size() == 3


def test_clear_cache_of_one_function():
    function, other = pl.jit(unique()), pl.jit(unique())
    function(X), other(X)
    function.clear_cache()
    assert counted(lambda: (function(X), other(X))[0])[1:] == (1, 0)
    assert function._cache_size() == 1


def test_the_second_call_asks_no_python():
    calls = []
    function = pl.jit(unique())
    miss = function.jitted.results
    function.jitted.results = lambda call: calls.append(call) or miss(call)
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


def test_threads_define_functions_while_caches_are_cleared():
    """Each thread has its values, whatever the others define, compile and forget."""
    shared = [pl.jit(lambda x, k=k: x * k) for k in range(4)]
    body = lambda c, _: (c * 2.0, None)
    shape = pl.ShapeDtypeStruct(X.shape, X.dtype)

    def called_back(k):
        host = lambda y: np.asarray(y) * np.float32(k)
        return pl.jit(lambda x: pl.pure_callback(host, shape, x))(X)

    uses = (
        lambda k: (shared[k](X), k),
        lambda k: (pl.jit(lambda x: x * k)(X), k),
        lambda k: (pl.lax.scan(body, X, None, length=2)[0], 4),
        lambda k: (pl.grad(lambda x: (shared[k](x) * x).sum())(X), 2 * k),
        lambda k: (pl.lax.map(lambda y: y * k, X), k),
        lambda k: (pl.vmap(pl.jit(lambda x: x * k + 1))(X), k + 1),
        lambda k: (called_back(k), k),
        lambda k: (pl.device_put(X).at[:].apply(lambda y: y * k), k),
    )
    stop = time.monotonic() + 2

    def work(i):
        for n in itertools.count(i):
            if time.monotonic() > stop:
                return
            if i == 0:
                shared[n % 4].clear_cache()
                pl.clear_caches()
                time.sleep(0.005)
            else:
                result, expected = uses[n % len(uses)](n % 4)
                assert np.asarray(result).tolist() == [expected] * 3

    in_threads(5, work)


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
    function.jitted.results = calls.append
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
    with pytest.raises(TypeError, match="compiler_options must map names"):
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


@pytest.mark.parametrize("sharded", [False, True])
def test_an_array_that_a_function_closes_over_may_be_donated_to_it(sharded):
    x = pl.numpy.arange(4.0)
    if sharded:
        x = pl.device_put(x, pl.NamedSharding(pl.make_mesh((2,), ("i",)), pl.P("i")))
    function = pl.jit(lambda v: v + x, donate_argnums=0)
    other = x + 1
    for _ in range(3):
        assert function(other + 0).tolist() == [1, 3, 5, 7]
    assert function(x).tolist() == [0, 2, 4, 6]
    assert x.is_deleted()
    assert function(other + 0).tolist() == [1, 3, 5, 7]
    assert function(other).tolist() == [1, 3, 5, 7]
    with pytest.raises(RuntimeError, match="was donated to"):
        function(x)


def test_a_compiled_function_may_be_given_an_array_that_it_closes_over():
    x = pl.numpy.arange(3.0)
    function = pl.jit(lambda v, n: v * n + x, donate_argnums=(0,), static_argnums=1)
    assert function.lower(x, 2).compile()(x).tolist() == [0, 3, 6]


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


# What the commonest recompilations are ----------------------------------------------------------------------


def reasons(function, x=X):
    function(x)
    return [str(reason) for reason in misses.recent[-1].reasons]


def test_another_value_in_the_closure_is_named():
    def make(eps, w):
        return pl.jit(lambda x: x * eps + w)

    w = pl.device_put(X)
    assert reasons(make(0.02, w)) == ["it was never called before"]
    assert reasons(make(0.024, w)) == [
        "`eps` in the closure: was 0.02, is 0.024. Pass it as an argument, and make `jit` once."
    ]
    assert reasons(make(0.024, 2 * w)) == [
        "the same line has defined it 3 times. Make it, and `jit` of it, once, outside of loops and functions."
    ]


def test_other_defaults_globals_and_wrappers_are_named():
    scope = {"pl": pl, "SCALE": 1.5}
    code = "def make(n):\n    def f(x, k=n):\n        return x * k * SCALE\n    return pl.jit(f)"
    exec(code, scope)
    reasons(scope["make"](2))
    assert reasons(scope["make"](3))[0].startswith("default of `k`: was 2, is 3. Pass it")
    scope["SCALE"] = 2.5
    assert reasons(scope["make"](3))[0].startswith("global `SCALE`: was 1.5, is 2.5. Pass it")

    def scaled(factor, x):
        return x * factor

    reasons(pl.jit(functools.partial(scaled, 2.0)))
    [again] = reasons(pl.jit(functools.partial(scaled, 3.0)))
    assert again.startswith("the same line has wrapped it 2 times.")
