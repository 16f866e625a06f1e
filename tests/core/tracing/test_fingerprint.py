"""Functions are the same by content, and never by accident."""

import functools
import types

import numpy as np
import pytest

import pellucid as pl
from pellucid.base.events import CompilationFinished, TraceFinished, counting
from pellucid.tracing.fingerprint import fingerprint


def define(code: str, **scope):
    """A function `f` defined by `code` in a module of its own, as a notebook cell does."""
    scope = {"__name__": "__main__", "pl": pl, **scope}
    exec(compile(code, "<cell>", "exec"), scope)
    return scope["f"]


SAME = "def f(x): return pl.jit(lambda y: -y)(x)"


def test_the_same_code_has_the_same_fingerprint() -> None:
    assert fingerprint(define("def f(x): return x + 1")) == fingerprint(
        define("def f(x): return x + 1")
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x): return x + 1", "def f(x): return x - 1"),
        ("def f(x, n=1): return x + n", "def f(x, n=2): return x + n"),
        ("def f(x, *, n=1): return x + n", "def f(x, *, n=2): return x + n"),
        ("def g(x): return x\ndef f(x): return g(x)", "def g(x): return -x\ndef f(x): return g(x)"),
        ("n = 1\ndef f(x): return x + n", "n = 2\ndef f(x): return x + n"),
        ("n = 1\ndef f(x): return x + n", "n = 1.0\ndef f(x): return x + n"),
        ("n = True\ndef f(x): return x + n", "n = 1\ndef f(x): return x + n"),
        ("n = 0.0\ndef f(x): return x + n", "n = -0.0\ndef f(x): return x + n"),
        (
            "def m(k):\n  def f(x): return x + k\n  return f\nf = m(1)",
            "def m(k):\n  def f(x): return x + k\n  return f\nf = m(2)",
        ),
        ("d = {'a': 1}\ndef f(x): return x + d['a']", "d = {'a': 2}\ndef f(x): return x + d['a']"),
        ("def f(x): return (lambda y: y + 1)(x)", "def f(x): return (lambda y: y + 2)(x)"),
    ],
)
def test_what_differs_has_another_fingerprint(one: str, other: str) -> None:
    first, second = fingerprint(define(one)), fingerprint(define(other))
    assert first is not None
    assert second is not None
    assert first != second


def test_a_helper_two_calls_away_counts() -> None:
    code = "def h(x): return x {}\ndef g(x): return h(x)\ndef f(x): return g(x)"
    assert fingerprint(define(code.format("+ 1"))) != fingerprint(define(code.format("+ 2")))


def test_recursion_ends() -> None:
    code = "def f(x, n=3): return x if n == 0 else f(x, n - 1)"
    assert fingerprint(define(code)) == fingerprint(define(code))


@pytest.mark.parametrize(
    "code",
    [
        "class C: pass\nc = C()\ndef f(x): return x + c.n",
        "import types\nm = types.ModuleType('mine')\nm.__file__ = '/somewhere/mine.py'\nm.k = 1\ndef f(x): return x + m.k",
        "n = list(range(10_000))\ndef f(x): return x + n[0]",
    ],
)
def test_what_can_change_unseen_has_no_fingerprint(code: str) -> None:
    assert fingerprint(define(code)) is None


def test_partials_and_methods() -> None:
    def base(n, x):
        return x + n

    assert fingerprint(functools.partial(base, 1)) == fingerprint(functools.partial(base, 1))
    assert fingerprint(functools.partial(base, 1)) != fingerprint(functools.partial(base, 2))
    assert fingerprint(types.SimpleNamespace(__call__=base)) is None


def test_arrays_count_by_identity_and_numpy_by_content() -> None:
    code = "def f(x): return x + w"
    w = np.ones(3, np.float32)
    assert fingerprint(define(code, w=w)) == fingerprint(define(code, w=w.copy()))
    assert fingerprint(define(code, w=w)) != fingerprint(define(code, w=w + 1))


def test_a_function_defined_again_finds_its_executable() -> None:
    code = "def f(x): return -x * 3.25"
    x = np.ones(5, np.float32)
    pl.jit(define(code))(x)
    with counting(TraceFinished) as traced, counting(CompilationFinished) as compiled:
        np.testing.assert_array_equal(pl.jit(define(code))(x), -3.25 * x)
    assert (traced.count, compiled.count) == (0, 0)


def test_a_changed_helper_is_never_missed() -> None:
    code = "def g(x): return x * {}\ndef f(x): return g(x)"
    x = np.ones(5, np.float32)
    for k in (2.0, 3.0, 2.0):
        np.testing.assert_array_equal(pl.jit(define(code.format(k)))(x), k * x)
