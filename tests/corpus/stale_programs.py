"""Static arguments, options and all else that changes between two uses, and what array libraries make of them.

`record` writes down what jax makes of these and of `stale_readers`.
"""

import contextlib
import dataclasses
import decimal
import enum
import fractions
import functools
import importlib
import io
import json
import pathlib
import types
from collections import OrderedDict, namedtuple
from typing import Any

import ml_dtypes
import numpy as np

from .stale_readers import QUESTIONS, counted, read, t

# Static arguments ---------------------------------------------------------------------------------

STATIC: dict[str, Any] = {}


def static(name, values, describe):
    """Static arguments, and a number that a function reads of them."""
    STATIC[name] = values, describe


def sign(x):
    return float(np.copysign(1, x))


@dataclasses.dataclass(frozen=True)
class Named:
    name: str
    k: float = dataclasses.field(compare=False)


class Equal:
    """Equal to all of its class."""

    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 1

    def method(self):
        return self.k


class Plain:
    def __init__(self, k):
        self.k = k


def returning(k):
    return lambda: k


class Once(int):
    """A number with more than its value."""

    def __new__(cls, value, k):
        number = super().__new__(cls, value)
        number.k = k
        return number


class Text(str):  # noqa: SLOT000
    def __new__(cls, value, k):
        text = super().__new__(cls, value)
        text.k = k
        return text


class One(enum.IntEnum):
    A = 1


class Other(enum.IntEnum):
    A = 1


class Mode(enum.Enum):
    A = 1
    B = 2
    C = 1  # noqa: PIE796  (the same member)


class Flag(enum.Flag):
    A = 1
    B = 2


P = namedtuple("P", "a")  # noqa: PYI024
Q = namedtuple("P", "b")  # noqa: PYI024
KINDS = (
    bool, int, float, complex, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.float16, np.float32, np.float64,
    One, Other, ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2, str, bytes, np.str_, P, Q, tuple, type(None), Text, fractions.Fraction,
)  # fmt: skip


def kind(x):
    return KINDS.index(type(x))


def kind_within(x):
    return KINDS.index(type(x[0]))


NANS = float("nan"), float("nan")
static("zeros", (0.0, -0.0, 0.0), sign)
static("zeros_in_tuples", ((0.0,), (-0.0,)), lambda x: sign(x[0]))
static("zeros_of_numpy", (np.float32(0.0), np.float32(-0.0)), sign)
static("complex_zeros", (complex(0.0, 0.0), complex(0.0, -0.0)), lambda x: sign(x.imag))
static(
    "ones", (True, 1, 1.0, 1 + 0j, np.bool_(True), np.int32(1), np.float32(1), One.A, Other.A), kind
)
static("ones_in_tuples", ((True,), (1,), (1.0,)), kind_within)
static("ones_of_numpy", (np.int8(1), np.int16(1), np.int64(1), np.uint8(1), np.float16(1)), kind)
static(
    "ones_of_ml_dtypes",
    (
        ml_dtypes.bfloat16(1), ml_dtypes.int4(1), ml_dtypes.uint4(1), ml_dtypes.int2(1), ml_dtypes.float8_e4m3fn(1),
        ml_dtypes.float8_e5m2(1),
    ),
    kind,
)  # fmt: skip
static("nan", (NANS[0], NANS[0], NANS[1]), lambda x: 1.0)
static("nothing", (None, 0, False, "", (), 0.0), lambda x: len(repr(x)))
static(
    "small_dtypes",
    [np.dtype(getattr(ml_dtypes, n)) for n in ("int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float8_e5m2",
     "float8_e4m3b11fnuz", "bfloat16")] + [np.dtype("int8"), np.dtype("float16")],
    lambda x: sum(map(ord, x.name)),
)  # fmt: skip
static(
    "names_of_a_dtype",
    (np.float32, np.dtype("float32"), "float32", "f4", "<f4", "single"),
    lambda x: len(str(x)),
)
static("byte_orders", (np.dtype("<f4"), np.dtype(">f4")), lambda x: ord(x.str[0]))
static(
    "metadata_of_dtypes",
    (np.dtype("f4", metadata={"k": 2}), np.dtype("f4", metadata={"k": 3})),
    lambda x: x.metadata["k"],
)
static(
    "fields_of_dtypes",
    (np.dtype([("a", "f4")]), np.dtype([("b", "f4")]), np.dtype([("a", "i4")]), np.dtype([("a", "f4", 2)])),
    lambda x: sum(map(ord, str(x))),
)  # fmt: skip
static("long_and_long_long", (np.dtype("l"), np.dtype("q")), lambda x: ord(x.char))
static("texts", ("a", b"a", np.str_("a"), Text("a", 2)), kind)
static("texts_with_more", (Text("a", 2.0), Text("a", 3.0)), lambda x: x.k)
static("numbers_with_more", (Once(1, 2.0), Once(1, 3.0)), lambda x: x.k)
static("not_compared_fields", (Named("a", 2.0), Named("a", 3.0), Named("b", 3.0)), lambda x: x.k)
static("equal_objects", (Equal(2.0), Equal(3.0)), lambda x: x.k)
static("methods_of_equal_objects", (Equal(2.0).method, Equal(3.0).method), lambda x: x())
static("other_objects", (Plain(2.0), Plain(3.0)), lambda x: x.k)
static("classes_of_one_name", (type("A", (), {"k": 2.0}), type("A", (), {"k": 3.0})), lambda x: x.k)
static("functions_of_one_code", (returning(2.0), returning(3.0)), lambda x: x())
static("partials", (functools.partial(float, 2.0), functools.partial(float, 3.0)), lambda x: x())
static("ranges", (range(0, 3, 2), range(0, 4, 2)), lambda x: x.stop)
static("decimals", (decimal.Decimal("1.0"), decimal.Decimal("1.00")), lambda x: len(str(x)))
static("fractions", (1, fractions.Fraction(1), 1.0), kind)
static("enumerations", (Mode.A, Mode.B, Mode.C), lambda x: x.value)
static("flags", (Flag.A, Flag.B, Flag.A | Flag.B, Flag(0)), lambda x: x.value)
static("named_tuples", (P(1), Q(1), (1,)), kind)
static("named_tuples_in_tuples", ((P(1),), (Q(1),), ((1,),)), kind_within)
static("frozen_sets", (frozenset([1]), frozenset([True])), lambda x: kind(next(iter(x))))
static("modules", tuple(types.ModuleType("m", str(k)) for k in (2, 3)), lambda x: float(x.__doc__))
static("big_numbers", (2**53, float(2**53), 2**53 + 1), lambda x: int(x) % 1000)


def with_static(jax, name, place):
    """What a jitted function reads of static arguments, one after the other, and how often it was traced."""
    values, describe = STATIC[name]
    kept = []
    x = jax.numpy.float32(1)
    if place == "position":
        f = jax.jit(lambda x, s: x * t(describe(s)), static_argnums=1)
        call = f
    elif place == "keyword":
        f = jax.jit(lambda x, *, s: x * t(describe(s)), static_argnames="s")
        call = lambda x, s: f(x, s=s)
    elif place == "within":
        f = jax.jit(lambda x, s: x * t(describe(s)), static_argnums=1)
        call = lambda x, s: jax.jit(lambda x: f(x, s))(x)
    elif place == "lowered":
        f = jax.jit(lambda x, s: x * t(describe(s)), static_argnums=1)
        call = lambda x, s: f.lower(x, s).compile()(x)
    elif place == "checkpoint":
        f = jax.checkpoint(lambda x, s: x * t(describe(s)), static_argnums=1)
        call = f
    elif place == "custom_jvp":
        f = jax.custom_jvp(lambda s, x: x * t(describe(s)), nondiff_argnums=(0,))
        f.defjvp(lambda s, primals, tangents: (f(s, *primals), tangents[0] * t(describe(s))))
        call = lambda x, s: jax.grad(lambda x: f(s, x))(x)
    elif place == "custom_vjp":
        f = jax.custom_vjp(lambda s, x: x * t(describe(s)), nondiff_argnums=(0,))
        f.defvjp(lambda s, x: (f(s, x), None), lambda s, _, ct: (ct * t(describe(s)),))
        call = lambda x, s: jax.grad(lambda x: f(s, x))(x)
    elif place == "partial":
        g = lambda s, x: x * t(describe(s))
        call = lambda x, s: jax.jit(functools.partial(g, s))(x)
    elif place == "aux":
        f = jax.jit(lambda tree: tree.leaf * t(describe(tree.aux)))
        call = lambda x, s: f(tree_of(jax)(x, s))
    elif place == "aux_of_result":
        f = jax.jit(lambda tree: (t(tree), tree)[1])
        call = lambda x, s: describe(f(tree_of(jax)(x, s)).aux)
    elif place == "aux_in_scan":
        body = lambda c, _: (tree_of(jax)(c.leaf * t(describe(c.aux)), c.aux), None)
        call = lambda x, s: jax.lax.scan(body, tree_of(jax)(x, s), None, length=1)[0].leaf
    elif place == "aux_in_cond":
        branch = lambda tree: tree.leaf * t(describe(tree.aux))
        call = lambda x, s: jax.lax.cond(True, branch, branch, tree_of(jax)(x, s))
    elif place == "aux_in_checkpoint":
        f = jax.checkpoint(lambda tree: tree.leaf * t(describe(tree.aux)))
        call = lambda x, s: f(tree_of(jax)(x, s))
    elif place == "aux_for_host":
        host = lambda tree: np.float32(describe(tree.aux))
        shape = jax.ShapeDtypeStruct((), np.float32)
        make = lambda s: jax.jit(lambda x: jax.pure_callback(host, shape, tree_of(jax)(x, s)))
        call = lambda x, s: kept.append(make(s)) or kept[-1](x)
    elif place == "aux_for_host_eager":
        host = lambda tree: np.float32(describe(tree.aux))
        shape = jax.ShapeDtypeStruct((), np.float32)
        call = lambda x, s: jax.pure_callback(host, shape, tree_of(jax)(x, s))
    elif place == "aux_for_io":
        host = lambda tree: np.float32(describe(tree.aux))
        shape = jax.ShapeDtypeStruct((), np.float32)
        io_callback = importlib.import_module(jax.__name__ + ".experimental").io_callback
        make = lambda s: jax.jit(lambda x: io_callback(host, shape, tree_of(jax)(x, s)))
        call = lambda x, s: kept.append(make(s)) or kept[-1](x)
    elif place == "static_for_debug":
        seen = []
        host = lambda x, s: seen.append(describe(s))

        def call(x, s):
            kept.append(jax.jit(lambda x: jax.debug.callback(host, x, s) or x))
            kept[-1](x)
            jax.effects_barrier()
            return seen[-1]
    elif place == "static_for_debug_eager":
        seen = []
        host = lambda x, s: seen.append(describe(s))

        def call(x, s):
            jax.debug.callback(host, x, s)
            jax.effects_barrier()
            return seen[-1]
    elif place == "key_of_dictionary":
        f = jax.jit(lambda d: next(iter(d.values())) * t(describe(next(iter(d)))))
        call = lambda x, s: f({s: x})
    else:
        assert place == "key_for_host"
        host = lambda d: np.float32(describe(next(iter(d))))
        shape = jax.ShapeDtypeStruct((), np.float32)
        make = lambda s: jax.jit(lambda x: jax.pure_callback(host, shape, {s: x}))
        call = lambda x, s: kept.append(make(s)) or kept[-1](x)
    made = [counted(lambda s=s: call(x, s)) for s in (*values, *values)]
    return [[value.rpartition(" ")[2], n] for value, n in made]


def expected_of_static(name):
    """What a function would read if nothing were remembered."""
    values, describe = STATIC[name]
    return [repr(float(np.float32(describe(s)))) for s in (*values, *values)]


PLACES = (
    "position", "keyword", "within", "lowered", "checkpoint", "custom_jvp", "custom_vjp", "partial", "aux", "aux_of_result",
    "aux_in_scan", "aux_in_cond", "aux_in_checkpoint", "aux_for_host", "aux_for_host_eager", "aux_for_io", "static_for_debug",
    "static_for_debug_eager", "key_of_dictionary", "key_for_host",
)  # fmt: skip
PLACED = ("zeros", "ones", "not_compared_fields", "equal_objects", "zeros_in_tuples")
STATIC_QUESTIONS = [(name, "position") for name in STATIC]
STATIC_QUESTIONS += [
    (name, place)
    for place in PLACES[1:]
    for name in PLACED
    if name != "ones" or not place.startswith("static_for_debug")  # numbers become arrays
]


@functools.cache
def tree_of(jax):
    """A registered tree of a leaf and of what the structure holds."""

    class Tree:
        def __init__(self, leaf, aux):
            self.leaf, self.aux = leaf, aux

    jax.tree_util.register_pytree_node(
        Tree, lambda tree: ((tree.leaf,), tree.aux), lambda aux, children: Tree(*children, aux)
    )
    return Tree


# All else -----------------------------------------------------------------------------------------

PROGRAMS: dict[str, Any] = {}


def program(run):
    PROGRAMS[run.__name__] = run
    return run


def vector(jax):
    return jax.numpy.arange(1.0, 4.0, dtype="float32")


def outcomes(*uses):
    return [counted(use) for use in uses]


@program
def other_types_of_arguments(jax):
    f = jax.jit(lambda x: x * t(2))
    values = (
        1,
        True,
        1.0,
        1j,
        np.float32(1),
        np.int8(1),
        np.ones(3, "f4"),
        np.ones(3),
        jax.numpy.ones(3),
        np.ones((3, 1)),
    )
    return [counted(lambda v=v: f(v)) for v in (*values, *values)]


@program
def keys_of_dictionaries(jax):
    f = jax.jit(lambda d: sum(d.values()) * t(len(d)))
    trees = (
        {"a": 1.0},
        {"b": 1.0},
        {"a": 1.0, "b": 2.0},
        {"b": 2.0, "a": 1.0},
        OrderedDict(a=1.0),
        OrderedDict(b=1.0),
    )
    return [counted(lambda d=d: f(d)) for d in (*trees, *trees)]


@program
def order_of_ordered_dictionaries(jax):
    f = jax.jit(lambda d: next(iter(d.values())) * t(1))
    trees = OrderedDict(a=1.0, b=2.0), OrderedDict(b=2.0, a=1.0)
    return [counted(lambda d=d: f(d)) for d in (*trees, *trees)]


@program
def containers(jax):
    f = jax.jit(lambda tree: jax.numpy.float32(len(repr(jax.tree_util.tree_structure(t(tree))))))
    trees = ((1.0,), [1.0], P(1.0), Q(1.0), {"a": 1.0}, (1.0, None), (1.0, ()), ((1.0,),))
    return [counted(lambda d=d: f(d)) for d in (*trees, *trees)]


@program
def registered_data_classes(jax):
    @dataclasses.dataclass
    class Layer:
        w: Any
        k: float

    jax.tree_util.register_dataclass(Layer, ["w"], ["k"])
    f = jax.jit(lambda layer: layer.w * t(layer.k))
    return [counted(lambda k=k: f(Layer(1.0, k))) for k in (2.0, 3.0, 2.0)]


@program
def lists_that_traces_append_to(jax):
    seen = []
    define = lambda: lambda x: seen.append(1) or x
    x, f = vector(jax), define()
    n = lambda use: (use(x), len(seen))[1]
    steps = (
        jax.jit(f),
        jax.jit(f),
        jax.jit(define()),
        jax.grad(lambda x: f(x).sum()),
        jax.vmap(f),
        jax.make_jaxpr(define()),
    )
    return [
        counted(lambda use=use: n(use))
        for use in (*steps, jax.jit(define()).lower, jax.checkpoint(define()))
    ]


@program
def trees_stored_by_traces(jax):
    stored = []

    def flat(tree):
        leaves, structure = jax.tree_util.tree_flatten(tree)

        def run(*leaves):
            results, out = jax.tree_util.tree_flatten({"a": t(structure.unflatten(leaves))})
            stored.append(out)
            return results

        results = jax.jit(run)(*leaves)
        return str(jax.tree_util.tree_unflatten(stored[-1], map(float, results)))

    return outcomes(
        lambda: flat((1.0,)),
        lambda: flat([1.0]),
        lambda: flat({"k": 1.0}),
        lambda: flat((1.0, 2.0)),
    )


@program
def printed_by_traces(jax):
    texts = []

    def define(text):
        return jax.jit(lambda x: texts.append(text) or x)

    return outcomes(*[lambda k=k: (define(k)(1.0), len(texts))[1] for k in ("a", "a", "b")])


@program
def counters_of_traces(jax):
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n

    x = vector(jax)
    return outcomes(*[lambda: jax.jit(lambda x: f(x))(x)] * 3, *[lambda: jax.jit(f)(x)] * 2)


@program
def options_of_one_function(jax):
    def f(x, y=1.0):
        return x * t(y)

    x = vector(jax)
    return outcomes(
        lambda: jax.jit(f)(x, 2.0), lambda: jax.jit(f, static_argnums=1)(x, 2.0), lambda: jax.jit(f, static_argnames="y")(x, y=2.0),
        lambda: jax.jit(f, static_argnames="y")(x, y=3.0), lambda: jax.jit(f, keep_unused=True)(x, 2.0), lambda: jax.jit(f)(x),
        lambda: jax.jit(f, inline=True)(x, 2.0), lambda: jax.jit(f)(x, 3), lambda: jax.jit(f)(x, True),
    )  # fmt: skip


@program
def name_of_function(jax):
    def f(x):
        return x * t(2)

    first = jax.jit(f).lower(1.0).as_text()
    f.__name__ = "g"
    second = jax.jit(lambda x: f(x)).lower(1.0).as_text()
    return ["@jit_f" in first, "@jit__lambda" in second]


@program
def wide_types(jax):
    x = np.ones(2)
    f = jax.jit(lambda x: x * t(2))
    g = lambda: jax.lax.scan(lambda c, y: (c + t(1.0), y), 0.0, x)[0]
    body = lambda c, y: (c + t(1.0), y)
    h = lambda: jax.lax.scan(body, 0.0, x)
    uses = (
        lambda: f(x),
        g,
        h,
        lambda: jax.numpy.sum(x),
        lambda: jax.numpy.arange(2),
        lambda: jax.grad(lambda x: (x * x).sum())(x),
    )
    results = []
    for wide in (False, True, False, True):
        with jax.enable_x64(wide):
            results += outcomes(*uses)
    return results


@program
def precisions(jax):
    f = jax.jit(lambda x: t(jax.numpy.dot)(x, x))
    x = vector(jax)
    results = []
    for precision in (None, "highest", "bfloat16", None):
        with jax.default_matmul_precision(precision):
            results.append(["HIGHEST" in f.lower(x).as_text(), *outcomes(lambda: f(x))])
    return results


@program
def promotion(jax):
    f = jax.jit(lambda x, y: x + t(y))
    x, y = vector(jax), np.ones(3, np.int32)

    def run():
        try:
            return f(x, y)
        except Exception as error:
            return any(
                c.__name__ == "ValueError" or c.__name__ == "TypeError" for c in type(error).__mro__
            )

    results = []
    for kind in ("standard", "strict", "standard", "strict"):
        with jax.numpy_dtype_promotion(kind):
            results += outcomes(run)
    return results


@program
def rank_promotion(jax):
    f = jax.jit(lambda x, y: x + t(y))
    x, y = vector(jax), np.ones((1, 3), np.float32)

    def run():
        try:
            return f(x, y)
        except (ValueError, TypeError):
            return "refused"

    results = []
    for kind in ("allow", "raise", "allow", "raise"):
        with jax.numpy_rank_promotion(kind):
            results += outcomes(run)
    return results


@program
def disabled(jax):
    f = jax.jit(lambda x: x * t(2))
    x = vector(jax)
    results = outcomes(lambda: f(x))
    with jax.disable_jit():
        results += outcomes(lambda: f(x), lambda: f(x))
    return results + outcomes(lambda: f(x))


@program
def generators_of_keys(jax):
    f = jax.jit(lambda seed: t(jax.random.key_data)(jax.random.key(seed)))
    results = []
    for kind in ("threefry2x32", "rbg", "threefry2x32"):
        with jax.default_prng_impl(kind):
            results += outcomes(lambda: f(1), lambda: jax.random.key_data(jax.random.key(1)))
    return results


@program
def numbers_refused(jax):
    f = jax.jit(lambda x: t(x) / x)

    def run():
        try:
            return f(np.float32(0))
        except FloatingPointError:
            return "refused"

    results = []
    for refuses in (False, True, False, True):
        with jax.debug_nans(refuses):
            results.append(counted(run)[0].lower())
    return results


@program
def axis_sizes(jax):
    f = lambda x: x * t(jax.lax.axis_size("i"))
    g, h = jax.jit(f), jax.checkpoint(f)
    body = lambda c, _: (f(c), None)
    branch = lambda x: f(x)
    uses = (
        f,
        g,
        h,
        lambda x: jax.lax.scan(body, x, None, length=1)[0],
        lambda x: jax.lax.cond(True, branch, branch, x),
    )
    sizes = (2, 3, 2)
    return [
        counted(lambda n=n, u=u: jax.vmap(u, axis_name="i")(jax.numpy.ones(n)))
        for u in uses
        for n in sizes
    ]


@program
def names_of_axes(jax):
    f = jax.jit(lambda x: jax.lax.psum(x, "i") * t(1))
    x = jax.numpy.ones((2, 3))
    outer = lambda a, b: jax.vmap(jax.vmap(f, axis_name=a), axis_name=b)(x)
    return outcomes(lambda: outer("i", "j"), lambda: outer("j", "i"), lambda: outer("i", "j"))


@program
def meshes(jax):
    f = jax.jit(lambda x: x * t(len(jax.sharding.get_abstract_mesh().axis_names)))
    x = np.ones(2, np.float32)
    results = outcomes(lambda: f(x))
    for names in (("a",), ("a", "b"), ("b",)):
        axis_types = (jax.sharding.AxisType.Auto,) * len(names)
        with jax.set_mesh(jax.make_mesh((1,) * len(names), names, axis_types=axis_types)):
            results += outcomes(lambda: f(x))
    return results + outcomes(lambda: f(x))


@program
def rule_of_custom_jvp_replaced(jax):
    f = jax.custom_jvp(lambda x: x * t(1))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * t(2)))
    use = lambda: jax.grad(lambda x: f(x))(1.0)
    jitted = lambda: jax.jit(jax.grad(lambda x: f(x)))(1.0)
    first = outcomes(use, jitted)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * t(3)))
    return [value for value, _ in first + outcomes(use, jitted)]


@program
def rule_of_custom_vjp_replaced(jax):
    f = jax.custom_vjp(lambda x: x * t(1))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * t(2),))
    use = lambda: jax.grad(lambda x: f(x))(1.0)
    jitted = lambda: jax.jit(jax.grad(lambda x: f(x)))(1.0)
    first = outcomes(use, jitted)
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * t(3),))
    return [value for value, _ in first + outcomes(use, jitted)]


@program
def rule_of_custom_vmap_replaced(jax):
    f = importlib.import_module(jax.__name__ + ".custom_batching").custom_vmap(lambda x: x * 1.0)
    f.def_vmap(lambda size, batched, x: (x * 2, True))
    x = vector(jax)
    use = lambda: jax.vmap(f)(x)
    jitted = lambda: jax.jit(jax.vmap(lambda x: f(x)))(x)
    first = outcomes(use, jitted)
    f.def_vmap(lambda size, batched, x: (x * 3, True))
    return [value for value, _ in first + outcomes(use, jitted)]


@program
def what_rules_read(jax):
    k = [2.0]
    f = jax.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * t(k[0])))
    g = jax.custom_vjp(lambda x: x * 1.0)
    g.defvjp(lambda x: (g(x), None), lambda _, ct: (ct * t(k[0]),))
    uses = [lambda f=f: jax.grad(f)(1.0) for f in (f, g)]
    uses += [lambda f=f: jax.grad(lambda x: jax.jit(lambda x: f(x))(x))(1.0) for f in (f, g)]
    uses += [lambda f=f: jax.vmap(jax.grad(f))(vector(jax)) for f in (f, g)]
    first = outcomes(*uses)
    k[0] = 3.0
    return [value for value, _ in first + outcomes(*uses)]


@program
def jitted_functions_with_rules(jax):
    """A gradient of the same jitted function may be remembered, that of one defined anew may not."""
    k = [2.0]
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * t(k[0]),))
    first = outcomes(lambda: jax.grad(jax.jit(lambda x: f(x)))(1.0))
    k[0] = 3.0
    return [value for value, _ in first + outcomes(lambda: jax.grad(jax.jit(lambda x: f(x)))(1.0))]


@program
def policies(jax):
    policy = jax.checkpoint_policies
    name = importlib.import_module(jax.__name__ + ".ad_checkpoint").checkpoint_name
    f = lambda x: name(jax.numpy.sin(name(jax.numpy.sin(x), "a")), "b").sum()
    results = []
    for each in (
        None, policy.everything_saveable, policy.nothing_saveable, policy.save_only_these_names("a"),
        policy.save_only_these_names("b"), policy.save_only_these_names("a"), policy.save_any_names_but_these("a"),
    ):  # fmt: skip
        text = str(jax.make_jaxpr(jax.grad(jax.checkpoint(f, policy=each)))(vector(jax)))
        results.append([text.count(" sin "), text.count(" cos ")])
    return results


@program
def policy_that_reads(jax):
    saves = [True]
    policy = lambda primitive, *_, **__: saves[0]
    f = lambda x: jax.numpy.sin(jax.numpy.sin(x)).sum()
    count = lambda: str(
        jax.make_jaxpr(jax.grad(jax.checkpoint(f, policy=policy)))(vector(jax))
    ).count(" sin ")
    first = count()
    saves[0] = False
    return [first, count()]


@program
def host_functions_of_closures(jax):
    k, kept = [2.0], []
    shape = jax.ShapeDtypeStruct((), np.float32)

    def define():
        now = k[0]
        host = lambda x: np.float32(x * now)
        kept.append(jax.jit(lambda x: jax.pure_callback(host, shape, x)))
        return kept[-1]

    def run(value):
        k[0] = value
        return define()(np.float32(1))

    return outcomes(*[lambda v=v: run(v) for v in (2.0, 3.0, 2.0)])


@program
def host_function_that_reads(jax):
    k = [2.0]
    shape = jax.ShapeDtypeStruct((), np.float32)
    host = lambda x: np.float32(x * k[0])
    f = jax.jit(lambda x: jax.pure_callback(host, shape, x))

    def run(value):
        k[0] = value
        return f(np.float32(1))

    return outcomes(*[lambda v=v: run(v) for v in (2.0, 3.0, 2.0)])


@program
def host_methods_of_equal_objects(jax):
    class Host(Equal):
        def __call__(self, x):
            return np.float32(x * self.k)

        def run(self, x):
            return np.float32(x * self.k)

    shape, kept = jax.ShapeDtypeStruct((), np.float32), []

    def run(host):
        kept.append(jax.jit(lambda x: jax.pure_callback(host, shape, x)))
        return kept[-1](np.float32(1)), jax.pure_callback(host, shape, np.float32(1))

    hosts = [
        each
        for k in (2.0, 3.0)
        for each in (Host(k), Host(k).run, functools.partial(Host.run, Host(k)))
    ]
    return outcomes(*[lambda h=h: run(h) for h in (*hosts, *hosts)])


@program
def types_of_host_results(jax):
    host, kept = lambda x: np.ones(jax.numpy.shape(x), np.float32), []

    def run(shape):
        f = jax.jit(
            lambda x: jax.pure_callback(
                lambda x: host(x), jax.ShapeDtypeStruct(shape, np.float32), x
            )
        )
        kept.append(f)
        return f(np.ones(shape, np.float32))

    return outcomes(*[lambda s=s: run(s) for s in ((), (1,), (2, 1))])


@program
def orders_of_host_calls(jax):
    seen, kept = [], []
    notes = [lambda x: seen.append("a"), lambda x: seen.append("b")]

    def run(first, second):
        def f(x):
            jax.debug.callback(first, x, ordered=True)
            jax.debug.callback(second, x, ordered=True)
            return x

        kept.append(jax.jit(f))
        kept[-1](1.0)
        jax.effects_barrier()
        return "".join(seen[-2:])

    return outcomes(
        lambda: run(*notes),
        lambda: run(*notes[::-1]),
        lambda: run(*notes),
        lambda: run(notes[0], notes[0]),
    )


@program
def printed_texts(jax):
    kept = []

    def run(text, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            kept.append(jax.jit(lambda x: jax.debug.print(text, x, *arguments) or x))
            kept[-1](1.0)
            jax.effects_barrier()
        return out.getvalue()

    rows = (
        ("{} a",),
        ("{} b",),
        ("{} {}", "c"),
        ("{} {}", "d"),
        ("{} {}", 1),
        ("{} {}", True),
        ("{} {}", "1"),
        ("{} {}", None),
    )
    return [counted(lambda row=row: run(*row))[0] for row in (*rows, *rows)]


@program
def placements(jax):
    f = jax.jit(lambda x: x * t(2))
    devices = jax.devices()
    x = vector(jax)
    places = [
        x,
        jax.device_put(x, devices[0]),
        np.ones(3, np.float32),
        jax.device_put(x, devices[-1]),
    ]
    return [counted(lambda p=p: f(p)) for p in (*places, *places)]


@program
def cleared(jax):
    k = [2.0]
    f = jax.jit(lambda x: x * t(k[0]))
    first = outcomes(lambda: f(1.0))
    k[0] = 3.0
    first += outcomes(lambda: f(1.0))
    f.clear_cache()
    first += outcomes(lambda: f(1.0))
    k[0] = 4.0
    jax.clear_caches()
    return first + outcomes(lambda: f(1.0), lambda: f(1.0))


@program
def failed(jax):
    k = [None]
    f = jax.jit(lambda x: x * t(k[0]))

    def run():
        try:
            return f(1.0)
        except TypeError:
            return "refused"

    first = outcomes(run, run)
    k[0] = 3.0
    return first + outcomes(run, run)


@program
def bodies_of_one_function(jax):
    """The same function as body of several loops, with other carries, inputs and lengths."""
    body = lambda c, y: (c + t(1), c)
    x = vector(jax)
    return outcomes(
        lambda: jax.lax.scan(body, 0.0, x), lambda: jax.lax.scan(body, x, x), lambda: jax.lax.scan(body, 0, None, length=2),
        lambda: jax.lax.scan(body, 0, None, length=3), lambda: jax.lax.scan(body, 0.0, x), lambda: jax.lax.scan(body, np.int8(0), x),
    )  # fmt: skip


@program
def function_as_body_and_branch(jax):
    f = lambda i, x: x * t(2)
    x = vector(jax)
    return outcomes(
        lambda: jax.lax.fori_loop(0, 1, f, x), lambda: jax.lax.fori_loop(0, 2, f, x),
        lambda: jax.lax.cond(True, f, f, 1.0, x), lambda: jax.lax.fori_loop(0, jax.numpy.int32(1), f, x),
    )  # fmt: skip


@program
def gradients_of_what_was_closed_over(jax):
    """A jitted function that closes over a traced value is traced anew for each."""
    f = lambda w: jax.jit(lambda x: x * w * t(1))
    outer = lambda w: f(w)(2.0) * w
    return outcomes(
        lambda: jax.grad(outer)(1.0), lambda: jax.grad(outer)(3.0), lambda: jax.jit(outer)(2.0)
    )


@program
def export_again(jax):
    export = importlib.import_module(jax.__name__ + ".export").export
    k = [2.0]
    define = lambda: jax.jit(lambda x: x * t(k[0]))
    first = outcomes(lambda: export(define())(np.float32(1)).call(np.float32(1)))
    k[0] = 3.0
    return first + outcomes(lambda: export(define())(np.float32(1)).call(np.float32(1)))


@program
def compiled_before_a_change(jax):
    k = [2.0]
    f = jax.jit(lambda x: x * t(k[0]))
    compiled = f.lower(np.float32(1)).compile()
    k[0] = 3.0
    return outcomes(lambda: compiled(np.float32(1)), lambda: f(np.float32(1)))


@program
def masked_arguments(jax):
    f = jax.jit(lambda x: x * t(2))

    def run(x):
        try:
            return f(x)
        except (ValueError, TypeError):
            return "refused"

    x = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    return outcomes(lambda: run(x), lambda: run(x.data))


def answers(jax):
    """What a library makes of all that tests compare."""
    asked = {}
    for kind, questions, ask in (
        ("read", QUESTIONS, read), ("static", STATIC_QUESTIONS, with_static), ("program", [(n,) for n in PROGRAMS], lambda jax, n: PROGRAMS[n](jax)),
    ):  # fmt: skip
        for question in questions:
            asked[" ".join((kind, *question))] = answer(jax, ask, question)
    return asked


def answer(jax, ask, question):
    """One answer, as JSON gives it back; a text where the library refuses."""
    try:
        return json.loads(json.dumps(ask(jax, *question)))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def record(library, path):
    """Write what `library` answers where it doesn't refuse, a line each."""
    made = answers(importlib.import_module(library))
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items() if not isinstance(v, str)]
    pathlib.Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")
