"""Functions are the same by content, and never by accident."""

import functools
import gc
import importlib
import sys
import types
import weakref

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


def test_a_module_is_asked_only_for_what_the_function_reads(monkeypatch) -> None:
    requests: list[str] = []
    monkeypatch.setattr(pl, "__getattr__", requests.append)
    assert fingerprint(define("def f(x): return pl.jit(x)")) is not None
    assert requests == []


def test_a_library_that_is_no_package_has_no_modules() -> None:
    code = "import io\ndef f(x): return io.StringIO and pl.numpy.sin(x)"  # `io` has a `__getattr__`
    assert float(pl.jit(define(code))(0.0)) == 0


def test_a_user_s_module_without_a_file_has_no_fingerprint(monkeypatch) -> None:
    module = types.ModuleType("dynamic_module_of_a_user")
    module.k = 1
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert fingerprint(define("def f(x): return x + m.k", m=module)) is None
    exec("def g(x): return x", vars(module))
    assert fingerprint(define("def f(x): return g(x)", g=module.g)) is not None


@pytest.mark.parametrize(
    "code",
    ["def f(x): return x + np.pi", "def made(np): return lambda x: x + np.pi\nf = made(np)"],
    ids=["global", "captured"],
)
def test_a_replaced_attribute_of_a_library_counts(code, monkeypatch) -> None:
    first = fingerprint(define(code, np=np))
    assert first == fingerprint(define(code, np=np))
    monkeypatch.setattr(np, "pi", 3.0)
    assert first != fingerprint(define(code, np=np))


def test_attributes_of_functions_count() -> None:
    code = "def f(x): return x + f.k\nf.k = {}"
    assert fingerprint(define(code.format(1))) == fingerprint(define(code.format(1)))
    assert fingerprint(define(code.format(1))) != fingerprint(define(code.format(2)))


def test_methods_of_containers_count_by_what_they_are_of() -> None:
    code = "def f(x): return x + get('k')"
    first = fingerprint(define(code, get={"k": 1}.get))
    assert first == fingerprint(define(code, get={"k": 1}.get))
    assert first != fingerprint(define(code, get={"k": 2}.get))


@pytest.mark.parametrize(
    "code",
    [
        "import random\ndef f(x): return x + random.random()",
        "import numpy as np\ndef f(x): return x + np.random.randn()",
        "def f(x):\n  import random\n  return x + random.random()",
        "import threading\ndef f(x): return x + threading.get_ident()",
        "import uuid\ndef f(x): return x + uuid.uuid4().int",
        "from numpy.random import default_rng\ndef f(x): return x + default_rng().random()",
        "import numpy as np\ndef f(x): return x + np.load('x.npy')",
        "import platform\ndef f(x): return x + len(platform.node())",
        "import sys\ndef f(x): return x + sys.getrecursionlimit()",
        "import dataclasses\ndef f(x): return x + len(dataclasses.__dict__)",
        "def f(x):\n  import a_module_that_is_not_loaded\n  return x",
        "def f(x): return x + globals()['n']",
        "def f(x): return x + eval('n')",
        "def f(x): return x + float(open('n').read())",
        "class C:\n  k = 1\ndef f(x): return x + C.k",
        "class C:\n  k = 1\n  def f(self, x): return x + self.k\nf = C().f",
    ],
)
def test_what_code_reads_unseen_has_no_fingerprint(code: str) -> None:
    assert fingerprint(define(code)) is None


@pytest.mark.parametrize(
    "code",
    [
        "import math\ndef f(x): return x + math.sqrt(2) * math.pi",
        "import numpy as np\ndef f(x): return np.float32(2) * x.mean() + np.prod((2, 3)) + np.zeros(2)",
        "import functools\ndef f(x): return functools.reduce(lambda a, b: a + b, [x, x])",
        "import textwrap\ndef f(x): return x * len(textwrap.indent('a', 'b'))",
        "import numpy as np\ndef f(x): return np.linalg.norm(np.ones(2)) * x",
    ],
)
def test_functions_that_give_equal_results_are_shared(code: str) -> None:
    assert fingerprint(define(code)) == fingerprint(define(code)) is not None


def test_our_own_modules_of_that_name_are_pure() -> None:
    code = "def f(x): return x + pl.random.normal(pl.random.key(0))"
    assert fingerprint(define(code)) == fingerprint(define(code)) is not None


def test_a_fingerprint_keeps_no_array() -> None:
    w = pl.device_put(np.ones(3, np.float32))
    code = "def f(x): return x + w"
    first = fingerprint(define(code, w=w))
    assert first == fingerprint(define(code, w=w))
    assert first != fingerprint(define(code, w=pl.device_put(np.ones(3, np.float32))))
    reference = weakref.ref(w)
    del w
    gc.collect()
    assert reference() is None


def test_a_reloaded_module_is_never_missed(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    helper = tmp_path / "helper_of_a_user.py"
    x = np.ones(2, np.float32)
    for k in (2.0, 3.0, 4.0):
        helper.write_text(f"K = {k}\ndef g(x): return x * K\n")
        importlib.invalidate_caches()
        module = importlib.import_module("helper_of_a_user")
        importlib.reload(module)
        for code in (
            "import helper_of_a_user as h\ndef f(x): return h.g(x)",
            "from helper_of_a_user import g\ndef f(x): return g(x)",
            "def f(x):\n  from helper_of_a_user import g\n  return g(x)",
        ):
            np.testing.assert_array_equal(pl.jit(define(code))(x), k * x)


def test_a_changed_class_attribute_is_never_missed() -> None:
    x = np.ones(2, np.float32)
    for k in (2.0, 3.0):
        code = f"class C:\n  k = {k}\ndef f(x): return x * C.k"
        np.testing.assert_array_equal(pl.jit(define(code))(x), k * x)


def test_a_changed_rule_is_never_missed() -> None:
    @pl.custom_jvp
    def g(x):
        return x

    for k in (2.0, 3.0):
        g.defjvp(lambda primals, tangents: (primals[0], k * tangents[0]))  # noqa: B023
        f = define("def f(x): return pl.jvp(g, (x,), (x,))[1]", g=g)
        np.testing.assert_array_equal(pl.jit(f)(np.float32(1)), k)


CUSTOM = """
@pl.custom_{kind}
def g(x): return 2 * x
g.def{kind}({rules})
def f(x): return g(x)
"""


@pytest.mark.parametrize(
    ("kind", "rules", "other"),
    [
        ("jvp", "lambda p, t: (g(*p), t[0])", "lambda p, t: (g(*p), -t[0])"),
        ("vjp", "lambda x: (g(x), None), lambda r, ct: (ct,)", "lambda x: (g(x), x), lambda r, ct: (ct,)"),
    ],
)  # fmt: skip
def test_functions_with_rules_count_by_content(kind: str, rules: str, other: str) -> None:
    one, again, third = (
        fingerprint(define(CUSTOM.format(kind=kind, rules=text))) for text in (rules, rules, other)
    )
    assert one is not None
    assert one == again
    assert one != third


def test_functions_that_a_call_of_ours_defines_count_by_what_they_close_over() -> None:
    one, again, other = (fingerprint(pl.vmap(pl.numpy.sin, in_axes=n)) for n in (0, 0, 1))
    assert one is not None
    assert one == again
    assert one != other


def test_a_function_around_a_jitted_one_is_another_function():
    @pl.jit
    def inner(x):
        return x * x

    @functools.wraps(inner)
    def around(x):
        return inner(x) + 1.0

    assert float(pl.jit(inner)(3.0)) == 9.0
    assert float(pl.jit(around)(3.0)) == 10.0
    assert float(pl.jit(pl.grad(inner))(3.0)) == 6.0
    assert not hasattr(pl.grad(inner), "lower")


@pytest.mark.parametrize(
    ("called", "code"),
    [
        ("@pl.jit\ndef called(x): return x * k", "def f(x): return called(x) + 1"),
        (
            "def called(c, x): return c * k, None",
            "def f(x): return pl.lax.scan(called, x, None, length=1)[0] + 1",
        ),
        (
            "@pl.checkpoint\ndef called(x): return x * k",
            "def f(x): return pl.jit(lambda x: called(x))(x) + 1",
        ),
    ],
    ids=["jit", "scan", "inside"],
)
def test_a_program_with_an_old_one_inside_is_not_shared(called, code) -> None:
    """A called function keeps its program when a global changes, but no new function takes it over."""
    scope = {"__name__": "__main__", "pl": pl, "k": 3.0}

    def defined():
        exec(compile(code, "<cell>", "exec"), scope)
        return pl.jit(scope["f"])

    exec(compile(called, "<cell>", "exec"), scope)
    assert float(defined()(1.0)) == 4
    scope["k"] = 5.0
    assert float(defined()(1.0)) == 4  # as in the reference
    exec(compile(called, "<cell>", "exec"), scope)
    assert float(defined()(1.0)) == 6
