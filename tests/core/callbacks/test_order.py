"""Ordered effects happen in program order: within loops, calls and branches, and from one program to the next."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import CallbackError
from pellucid.experimental import io_callback


class Log:
    def __init__(self):
        self.entries = []

    def __call__(self, name, *values):
        io_callback(
            lambda *v: self.entries.append((name, *map(int, v))), None, *values, ordered=True
        )


def test_programs_come_one_after_another():
    log = Log()
    f = pl.jit(lambda x: log("f", x))
    g = pl.jit(lambda x: (log("g", x), log("h", x)))
    for i in range(20):
        f(i)
        g(i)
        log("eager", i)
    pl.effects_barrier()
    assert log.entries == [(n, i) for i in range(20) for n in ("f", "g", "h", "eager")]


def test_results_pass_from_call_to_call():
    state = [0]

    def count(x):
        state[0] += 1
        return np.int32(state[0] * 10 + int(x))

    @pl.jit
    def f(x):
        result = pl.ShapeDtypeStruct((), np.int32)
        a = io_callback(count, result, x, ordered=True)
        b = io_callback(count, result, a * 0 + 5, ordered=True)
        c = io_callback(count, result, x, ordered=True)
        return c, b, a

    assert [int(v) for v in f(1)] == [31, 25, 11]
    assert [int(v) for v in f(1)] == [61, 55, 41]


def expected_of_nest():
    entries = []
    for i in range(3):
        entries.append(("outer", i))
        c = i
        while c < 4:
            entries.append(("turn", i, c))
            entries += [("even" if c % 2 == 0 else "odd", c)]
            c += 1
        entries += [("scan", k) for k in range(2)]
    return entries


@pytest.mark.parametrize("wrap", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_loops_within_loops(wrap):
    log = Log()

    @pl.jit
    def turn(i, c):
        log("turn", i, c)
        lax.cond(c % 2 == 0, lambda v: log("even", v), lambda v: log("odd", v), c)
        return c + 1

    def outer(i, carry):
        log("outer", i)
        lax.while_loop(lambda c: c < 4, lambda c: turn(i, c), i)
        lax.scan(lambda k, _: (k + 1, log("scan", k)), 0, length=2)
        return carry

    wrap(lambda: lax.fori_loop(0, 3, outer, 0))()
    pl.effects_barrier()
    assert log.entries == expected_of_nest()


def test_kinds_of_effects_keep_their_own_order(capsys):
    log = Log()

    @pl.jit
    def f(x):
        for i in range(4):
            pl.debug.print("print {}", i, ordered=True)
            log("io", x + i)

    f(0)
    pl.effects_barrier()
    assert log.entries == [("io", i) for i in range(4)]
    assert capsys.readouterr().out == "".join(f"print {i}\n" for i in range(4))


def test_order_in_remat_and_custom_rules():
    log = []
    note = lambda name: pl.debug.callback(lambda: log.append(name), ordered=True)

    @pl.custom_vjp
    def f(x):
        return x

    def forward(x):
        note("forward")
        return x, None

    def backward(_, ct):
        note("backward")
        return (ct,)

    f.defvjp(forward, backward)

    def g(x):
        note("begin")
        y = f(x) * 2
        note("end")
        return y

    pl.jit(pl.grad(g))(1.0)
    pl.effects_barrier()
    assert log == ["begin", "forward", "end", "backward"]


def test_the_order_goes_on_after_a_failure():
    log = Log()

    def fail(x):
        raise ValueError("no")

    bad = pl.jit(
        lambda x: (log("before", x), io_callback(fail, None, x, ordered=True), log("never", x))
    )
    good = pl.jit(lambda x: log("good", x))
    good(1)
    with pytest.raises(CallbackError):
        bad(2)
    good(3)
    pl.effects_barrier()
    assert log.entries == [("good", 1), ("before", 2), ("good", 3)]


def test_unordered_effects_all_happen():
    seen = []
    f = pl.jit(
        lambda xs: lax.map(lambda x: pl.debug.callback(lambda v: seen.append(int(v)), x), xs)
    )
    f(jnp.arange(50))
    pl.effects_barrier()
    assert sorted(seen) == list(range(50))


def test_logs_say_where_they_were_written(caplog):
    with caplog.at_level("INFO", logger="pellucid.debug"):
        pl.jit(lambda x: pl.debug.log("x = {}", x))(3)
        pl.effects_barrier()
    [record] = caplog.records
    assert record.getMessage() == "x = 3"
    assert record.filename == "test_order.py"


def test_options_first():
    seen = []
    f = pl.jit(
        lambda x: pl.debug.callback(ordered=True)(lambda **k: seen.append(sorted(k)), ordered=x)
    )
    f(1)
    assert seen == [["ordered"]]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("policy", [None, pl.checkpoint_policies.everything_saveable])
def test_a_differentiated_checkpoint_refuses_effects_that_would_happen_again(ordered, policy):
    calls = []

    def f(x):
        io_callback(lambda: calls.append(1), None, ordered=ordered)
        return jnp.sin(x)

    f = pl.checkpoint(f, policy=policy)
    assert f(0.0) == 0
    pl.jit(f)(0.0)
    pl.effects_barrier()
    assert len(calls) == 2
    looped = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
    for g in (pl.grad(f), pl.jit(pl.grad(f)), pl.grad(looped), lambda x: pl.linearize(f, x)):
        with pytest.raises(NotImplementedError, match="would happen again"):
            g(1.0)
    assert len(calls) == 2
    printed = pl.checkpoint(lambda x: (pl.debug.callback(lambda: None), jnp.sin(x))[1])
    assert pl.grad(printed)(0.0) == 1
