"""`pure_callback` and `io_callback`: arguments, results, failures."""

import threading

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import CallbackError, DtypeError, EffectsError
from pellucid.experimental import io_callback

X = np.arange(3, dtype=np.float32)
VECTOR = pl.ShapeDtypeStruct((3,), np.float32)
SCALAR = pl.ShapeDtypeStruct((), np.float32)
EVERYWHERE = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])


def maybe_jit(function, compiled):
    return pl.jit(function) if compiled else function


@EVERYWHERE
@pytest.mark.parametrize("call", [pl.pure_callback, io_callback])
def test_keys_come_as_the_words_that_hold_them(compiled, call):
    keys = pl.random.split(pl.random.key(3), 2)
    words = pl.ShapeDtypeStruct((2, 2), np.uint32)
    results = maybe_jit(lambda keys: call(np.asarray, words, keys), compiled)(keys)
    np.testing.assert_array_equal(results, pl.random.key_data(keys))


@EVERYWHERE
def test_it_gets_arrays_and_its_results_come_back(compiled):
    kinds = []

    def host(x, scale, *, shift):
        kinds.extend(map(type, (x, scale, shift)))
        return {"sum": np.asarray(x).sum() * scale, "all": x + shift}

    def f(x):
        result = {"sum": SCALAR, "all": VECTOR}
        return pl.pure_callback(host, result, x, 2.0, shift=jnp.float32(1))

    actual = maybe_jit(f, compiled)(X)
    assert float(actual["sum"]) == 6
    assert actual["all"].tolist() == [1, 2, 3]
    assert set(kinds) == {type(jnp.asarray(X))}


@EVERYWHERE
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_dtypes_travel(compiled, dtype):
    x = jnp.asarray([[0, 1], [1, 1]]).astype(dtype)
    actual = maybe_jit(lambda x: pl.pure_callback(lambda v: v, x, x), compiled)(x)
    assert actual.dtype == x.dtype
    assert (actual == x).all()


@EVERYWHERE
def test_empty_arrays_travel(compiled):
    x = np.zeros((0, 3), np.float32)
    actual = maybe_jit(lambda x: pl.pure_callback(lambda v: v, x, x), compiled)(x)
    assert actual.shape == (0, 3)


@EVERYWHERE
@pytest.mark.parametrize(
    ("returned", "like", "expected"),
    [(1.5, SCALAR, 1.5), (2, pl.ShapeDtypeStruct((), np.int32), 2), (np.float64(1.5), SCALAR, 1.5),
     (np.arange(3.0), VECTOR, None), (np.int64(3), pl.ShapeDtypeStruct((), np.int32), 3)],
)  # fmt: skip
def test_numbers_and_64_bit_values_become_what_arrays_would_be(compiled, returned, like, expected):
    actual = maybe_jit(lambda: pl.pure_callback(lambda: returned, like), compiled)()
    assert actual.dtype == like.dtype
    assert expected is None or actual == expected


@EVERYWHERE
@pytest.mark.parametrize(
    ("returned", "fragments"),
    [
        (np.zeros(4, np.float32), ['result["a"]', "expected f32[3]", "got f32[4]"]),
        (np.zeros(3, np.int32), ['result["a"]', "got i32[3]"]),
        (1.5, ["got f32[]"]),
        ("text", ["expected f32[3]"]),
        (None, ['result["a"]', "None"]),
        ((X, X), ['result["a"]', "tuple"]),
    ],
)
def test_results_of_another_kind_are_refused(compiled, returned, fragments):
    call = maybe_jit(lambda: pl.pure_callback(lambda: {"a": returned}, {"a": VECTOR}), compiled)
    with pytest.raises(CallbackError) as caught:
        call()
    assert all(fragment in str(caught.value) for fragment in fragments)


@EVERYWHERE
@pytest.mark.parametrize("returned", [2, True, np.int32(2), 1j])
def test_numbers_of_another_dtype_are_refused(compiled, returned):
    with pytest.raises(CallbackError, match=r"expected f32\[\]"):
        maybe_jit(lambda: pl.pure_callback(lambda: returned, SCALAR), compiled)()


@EVERYWHERE
@pytest.mark.parametrize("call", [pl.pure_callback, io_callback])
@pytest.mark.parametrize(
    ("returned", "like"),
    [((X, X), [VECTOR, VECTOR]), ([X], VECTOR), (X, (VECTOR,)), ([], ()), (None, []),
     ({"a": X}, [VECTOR]), ([(X,), X], (VECTOR, [VECTOR]))],
)  # fmt: skip
def test_leaves_count_and_containers_may_differ(compiled, call, returned, like):
    actual = maybe_jit(lambda: call(lambda: returned, like), compiled)()
    assert pl.tree.structure(actual) == pl.tree.structure(like)
    assert all((x == X).all() for x in pl.tree.leaves(actual))


@EVERYWHERE
@pytest.mark.parametrize(
    ("returned", "like"),
    [({"b": X, "c": X}, {"a": VECTOR, "b": VECTOR}), ((X, X), VECTOR), ((), VECTOR)],
)
def test_other_keys_and_other_numbers_of_leaves_are_refused(compiled, returned, like):
    with pytest.raises(CallbackError, match="another structure"):
        maybe_jit(lambda: pl.pure_callback(lambda: returned, like), compiled)()


@pytest.mark.parametrize("call", [pl.pure_callback, io_callback])
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64, np.complex128])
def test_results_have_no_64_bits_while_these_are_off(call, dtype):
    wide = pl.ShapeDtypeStruct((), dtype)
    with pytest.raises(DtypeError, match="64 bits"):
        call(lambda: dtype(1), {"a": wide})
    with pytest.raises(ValueError, match=r'result\["a"\]'):
        pl.jit(lambda: call(lambda: dtype(1), {"a": wide}))()
    with pl.enable_x64(True):
        assert call(lambda: dtype(1), wide).dtype == dtype


@EVERYWHERE
def test_a_failure_is_told_with_its_traceback_and_later_calls_work(compiled):
    fails = True

    def host(x):
        if fails:
            raise KeyError("boom")
        return x

    f = maybe_jit(lambda x: pl.pure_callback(host, VECTOR, x) * 2, compiled)
    for _ in range(3):
        with pytest.raises(CallbackError, match="raised KeyError") as caught:
            f(X)
        assert isinstance(caught.value.__cause__, KeyError)
        assert 'raise KeyError("boom")' in str(caught.value)
    fails = False
    assert f(X).tolist() == [0, 2, 4]


def test_the_latest_of_many_failures_is_the_one_that_is_told():
    def host(i):
        raise ValueError(f"number {int(i)}")

    f = pl.jit(lambda i: io_callback(host, None, i))
    for i in range(100):
        with pytest.raises(CallbackError, match=f"number {i}"):
            f(i)


def test_a_failure_in_a_loop():
    def host(i):
        if i == 2:
            raise RuntimeError("at two")

    def f(n):
        return lax.fori_loop(
            0, n, lambda i, c: (io_callback(host, None, i, ordered=True), c + 1)[1], 0
        )

    with pytest.raises(CallbackError, match="at two"):
        pl.jit(f)(5)
    assert int(pl.jit(f)(2)) == 2
    pl.effects_barrier()


def test_python_that_a_program_calls_may_run_programs():
    inner = pl.jit(lambda x: (x * 2).sum())
    outer = pl.jit(lambda x: pl.pure_callback(lambda v: inner(v) + 1, SCALAR, x))
    assert float(outer(X)) == 7


def test_arguments_may_be_kept():
    received = []
    f = pl.jit(lambda x: io_callback(received.append, None, x * 2))
    for i in range(5):
        f(X + i)
    assert [k.tolist() for k in received] == [[2 * i, 2 + 2 * i, 4 + 2 * i] for i in range(5)]


def test_calls_from_threads():
    f = pl.jit(lambda x: pl.pure_callback(lambda v: np.asarray(v) + 1, SCALAR, x))
    results = {}

    def run(i):
        results[i] = [float(f(np.float32(i + k))) for k in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [i + k + 1.0 for k in range(20)] for i in range(4)}


@pytest.mark.parametrize(
    ("method", "shapes"),
    [("sequential", [((), ())] * 3), ("sequential_unrolled", [((), ())] * 3), ("expand_dims", [((3,), (1,))]),
     ("broadcast_all", [((3,), (3,))]), ("legacy_vectorized", [((3,), ())])],
)  # fmt: skip
@EVERYWHERE
def test_vmap_methods(compiled, method, shapes):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    call = lambda x, y: pl.pure_callback(host, SCALAR, x, y, vmap_method=method)
    actual = maybe_jit(pl.vmap(call, in_axes=(0, None)), compiled)(X, 10.0)
    assert actual.tolist() == [10, 11, 12]
    assert seen == shapes


def test_nested_batches():
    m = np.arange(6, dtype=np.float32).reshape(2, 3)
    for method in ("sequential", "expand_dims", "broadcast_all"):
        call = lambda x: pl.pure_callback(np.square, SCALAR, x, vmap_method=method)  # noqa: B023
        assert pl.vmap(pl.vmap(call))(m).tolist() == (m**2).tolist()


def test_what_nobody_uses_is_not_called_if_it_is_pure():
    calls = []

    def f(x):
        pl.pure_callback(lambda v: calls.append(1) or v, VECTOR, x)
        io_callback(lambda v: calls.append(2), None, x)
        return x

    pl.jit(f)(X)
    pl.effects_barrier()
    assert calls == [2]


def test_custom_derivatives_around_a_callback():
    @pl.custom_jvp
    def sine(x):
        return pl.pure_callback(np.sin, x, x, vmap_method="broadcast_all")

    sine.defjvp(lambda primals, tangents: (sine(*primals), jnp.cos(primals[0]) * tangents[0]))
    np.testing.assert_allclose(pl.vmap(pl.grad(sine))(X), np.cos(X), rtol=1e-6)


def test_io_in_each_element_of_a_batch():
    seen = []
    f = pl.vmap(lambda x: io_callback(lambda v: seen.append(float(v)) or v, SCALAR, x))
    assert f(X).tolist() == pl.jit(f)(X).tolist() == X.tolist()
    assert sorted(seen) == [0, 0, 1, 1, 2, 2]


def test_io_where_elements_of_a_batch_go_apart_is_refused():
    def write(x):
        io_callback(lambda v: None, None, x)
        return x

    with pytest.raises(EffectsError, match="same for the whole batch"):
        pl.vmap(lambda x: lax.cond(x > 0, write, lambda x: x, x))(X)
    with pytest.raises(EffectsError, match="same for the whole batch"):
        pl.vmap(lambda n: lax.while_loop(lambda c: c < 2, lambda c: write(c) + 1, n))(X)


def test_equal_callbacks_make_equal_programs():
    f = lambda x: pl.pure_callback(np.sin, VECTOR, x)
    first, second = (pl.make_jaxpr(f)(X).equations[0].params for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)


def test_64_bit_results_with_x64():
    with pl.enable_x64():
        like = pl.ShapeDtypeStruct((), np.float64)
        actual = pl.jit(lambda: pl.pure_callback(lambda: np.float64(1 / 3), like))()
        assert actual.dtype == np.float64
        assert float(actual) == 1 / 3
        with pytest.raises(CallbackError, match=r"expected f32\[\], got f64\[\]"):
            pl.jit(lambda: pl.pure_callback(lambda: np.float64(1), SCALAR))()


def test_large_arrays_that_are_still_computed():
    big = jnp.ones((600, 600))
    seen = []

    @pl.jit
    def f(x):
        y = x @ x / 600
        io_callback(lambda v: seen.append(float(np.asarray(v).mean())), None, y)
        return y

    y = f(f(big))
    pl.effects_barrier()
    assert seen == [1.0, 1.0]
    assert float(y[0, 0]) == 1


@pytest.mark.parametrize("within", [lambda f: f, lambda f: lambda x: lax.cond(x > 0, f, f, x)])
def test_a_function_that_is_defined_again_speaks_to_its_own_objects(within):
    def run():
        seen = []

        def function(x):
            pl.debug.callback(lambda v: seen.append(float(v)), x)
            return x

        pl.jit(within(function))(1.0)
        pl.effects_barrier()
        return seen

    assert run() == run() == [1.0]
