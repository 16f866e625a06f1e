"""Lifetimes: transformations keep no array that their function captured, once the function is gone.

That holds in eager calls, under `jit`, and where the function raised an exception.
"""

import contextlib
import functools
import gc
import importlib
import itertools
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid._machine.compilation import executable_cache
from pellucid._machine.ir import Jaxpr
from pellucid._machine.runtime.executable import Executable
from pellucid.sharding import AxisType, PartitionSpec

X = np.ones(3, np.float32)


@pytest.fixture(scope="module", autouse=True)
def _young_heap():
    """Keeps the collector from what earlier tests of the process left: each test here collects."""
    gc.collect()
    gc.freeze()


_numbers = itertools.count(1)


class Failed(Exception):
    """Raised by functions that fail."""


def mesh():
    return pl.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))


def rule_of_jvp(f, x):
    g = pl.custom_jvp(lambda x: x * 1.0)
    g.defjvp(lambda primals, tangents: (f(*primals), f(*tangents)))
    return pl.jvp(g, (x,), (x,))


def rules_of_vjp(f, x):
    g = pl.custom_vjp(lambda x: x * 1.0)
    g.defvjp(lambda x: (f(x), x), lambda residual, ct: (f(ct) + residual,))
    return pl.grad(lambda x: g(x).sum())(x)


def rule_of_vmap(f, x):
    g = pl.custom_batching.custom_vmap(f)
    g.def_vmap(lambda size, batched, x: (f(x), True))
    return pl.vmap(g)(x)


def partitioned(f, x):
    module = importlib.import_module("pellucid.experimental.custom_partitioning")
    g = module.custom_partitioning(lambda x: x * 1.0)
    g.def_partition(
        partition=lambda mesh, arguments, result: (mesh, f, result, (result,)),
        infer_sharding_from_operands=lambda mesh, arguments, result: arguments[0].sharding,
        sharding_rule="i -> i",
    )
    return g(x)


def root(f, x):
    solve = lambda g, y: y - g(y)
    tangent = lambda g, y: y / g(np.float32(1.0))
    return lax.custom_root(lambda z: z - f(x).sum(), np.float32(0), solve, tangent)


def solved(f, x):
    solve = lambda matvec, b: b / matvec(pl.numpy.ones_like(b))
    return pl.grad(
        lambda x: lax.custom_linear_solve(lambda y: f(y) - f(0 * y), x, solve, solve).sum()
    )(x)


def written(f, x):
    ref = pl.new_ref(pl.device_put(x))
    pl.jit(lambda: ref.set(f(ref[...])))()
    return ref[...]


def called_back(f, x, ordered=False):
    module = importlib.import_module("pellucid.experimental")
    shape = pl.ShapeDtypeStruct(x.shape, x.dtype)
    return module.io_callback(lambda y: np.asarray(f(y)), shape, x, ordered=ordered)


def checked(f, x):
    module = importlib.import_module("pellucid.experimental.checkify")
    g = lambda x: (module.check((x > 0).all(), "negative"), f(x))[1]
    return module.checkify(g, errors=module.all_checks)(x)


def sharded_over_all(f, x):
    devices = pl.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("i")
    g = lambda y: y + f(X).sum()
    return pl.shard_map(g, mesh=devices, in_specs=spec, out_specs=spec)(np.ones(4, np.float32))


def jetted(f, x):
    module = importlib.import_module("pellucid.experimental.jet")
    return module.jet(f, (x,), ((x, x),))


SHAPE = pl.ShapeDtypeStruct(X.shape, X.dtype)
USES = {
    "call": lambda f, x: f(x),
    "jit": lambda f, x: pl.jit(f)(x),
    "jit, again": lambda f, x: [pl.jit(f)(y) for y in (x, pl.device_put(x), x)],
    "jit with options": lambda f, x: pl.jit(f, keep_unused=True, inline=True)(x),
    "jit in jit": lambda f, x: pl.jit(lambda x: pl.jit(f)(x))(x),
    "static argument": lambda f, x: pl.jit(lambda f, x: f(x), static_argnums=0)(f, x),
    "partial": lambda f, x: pl.jit(functools.partial(lambda f, x: f(x), f))(x),
    "partial of trees": lambda f, x: pl.jit(lambda p, x: p(x))(pl.tree_util.Partial(f), x),
    "lower": lambda f, x: pl.jit(f).lower(x),
    "compile": lambda f, x: pl.jit(f).lower(x).compile()(x),
    "trace": lambda f, x: pl.jit(f).trace(x),
    "texts": lambda f, x: pl.jit(f).lower(x).compile().as_text(),
    "costs": lambda f, x: pl.jit(f).lower(x).compile().cost_analysis(),
    "donated": lambda f, x: pl.jit(f, donate_argnums=0)(pl.device_put(x)),
    "grad": lambda f, x: pl.grad(lambda x: f(x).sum())(x),
    "grad of jit": lambda f, x: pl.grad(lambda x: pl.jit(f)(x).sum())(x),
    "value_and_grad": lambda f, x: pl.value_and_grad(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: pl.vjp(f, x)[1](x),
    "jit of vjp": lambda f, x: pl.jit(pl.vjp(f, x)[1])(x),
    "jvp": lambda f, x: pl.jvp(f, (x,), (x,)),
    "jvp of jit": lambda f, x: pl.jvp(pl.jit(f), (x,), (x,)),
    "linearize": lambda f, x: pl.linearize(f, x)[1](x),
    "jit of linearize": lambda f, x: pl.jit(pl.linearize(f, x)[1])(x),
    "linear_transpose": lambda f, x: pl.linear_transpose(lambda x: f(x) - f(0 * x), x)(x),
    "jacfwd": lambda f, x: pl.jacfwd(f)(x),
    "jacrev": lambda f, x: pl.jacrev(pl.jit(f))(x),
    "hessian": lambda f, x: pl.hessian(lambda x: (f(x) ** 2).sum())(x),
    "vmap": lambda f, x: pl.vmap(f)(pl.numpy.stack([x, x])),
    "vmap of jit": lambda f, x: pl.vmap(pl.jit(f))(pl.numpy.stack([x, x])),
    "jet": jetted,
    "scan": lambda f, x: lax.scan(lambda c, y: (c + f(x).sum(), y), np.float32(0), x),
    "scan, itself": lambda f, x: lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "while_loop": lambda f, x: lax.while_loop(lambda c: c[0] < 9, f, x),
    "fori_loop": lambda f, x: lax.fori_loop(0, 2, lambda i, c: f(c), x),
    "fori_loop to a bound": lambda f, x: lax.fori_loop(0, pl.numpy.int32(2), lambda i, c: f(c), x),
    "cond": lambda f, x: lax.cond(True, f, lambda x: x, x),
    "switch": lambda f, x: lax.switch(np.int32(0), [f, f], x),
    "map": lambda f, x: lax.map(lambda y: f(x).sum() + y, x),
    "map in batches": lambda f, x: lax.map(lambda y: f(x).sum() + y, x, batch_size=2),
    "associative_scan": lambda f, x: lax.associative_scan(lambda a, b: a + b * f(x)[0], x),
    "gradient of scan": lambda f, x: pl.grad(
        lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0].sum()
    )(x),
    "reduce": lambda f, x: lax.reduce(x, np.float32(0), lambda a, b: a + b * 2, (0,)),
    "custom_root": root,
    "custom_linear_solve": solved,
    "checkpoint": lambda f, x: pl.grad(lambda x: pl.checkpoint(f)(x).sum())(x),
    "checkpoint with a policy": lambda f, x: pl.grad(
        lambda x: pl.checkpoint(f, policy=lambda *_, **__: False)(x).sum()
    )(x),
    "saved residuals": lambda f, x: pl.ad_checkpoint.print_saved_residuals(f, x),
    "custom_jvp": rule_of_jvp,
    "custom_vjp": rules_of_vjp,
    "custom_vmap": rule_of_vmap,
    "custom_gradient": lambda f, x: pl.grad(
        lambda x: pl.custom_gradient(lambda x: (f(x), f))(x).sum()
    )(x),
    "closure_convert": lambda f, x: pl.closure_convert(f, x),
    "composite": lambda f, x: lax.composite(f, "my.composite")(x),
    "custom_partitioning": partitioned,
    "shard_map": lambda f, x: pl.shard_map(
        f, mesh=mesh(), in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i")
    )(x),
    "jit of shard_map": lambda f, x: pl.jit(
        pl.shard_map(f, mesh=mesh(), in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))
    )(x),
    "shard_map over devices": sharded_over_all,
    "pmap": lambda f, x: pl.pmap(f)(x[None]),
    "export": lambda f, x: pl.export.export(pl.jit(f))(x),
    "call of exported": lambda f, x: pl.export.export(pl.jit(f))(x).call(x),
    "make_jaxpr": lambda f, x: pl.make_jaxpr(f)(x),
    "eval_shape": lambda f, x: pl.eval_shape(f, x),
    "pure_callback": lambda f, x: pl.pure_callback(lambda y: np.asarray(f(y)), SHAPE, x),
    "io_callback": called_back,
    "ordered io_callback": lambda f, x: called_back(f, x, ordered=True),
    "debug.callback": lambda f, x: pl.debug.callback(f, x),
    "debug.print": lambda f, x: pl.debug.print("{}", f(x)),
    "checkify": checked,
    "references": written,
    "vectorize": lambda f, x: pl.numpy.vectorize(f, signature="(n)->(n)")(pl.numpy.stack([x, x])),
    "piecewise": lambda f, x: pl.numpy.piecewise(x, [x > 1], [lambda y: f(X).sum() + y, 0.0]),
    "apply_along_axis": lambda f, x: pl.numpy.apply_along_axis(f, 0, x),
    "at.apply": lambda f, x: pl.device_put(x).at[0].apply(lambda y: (y, f)[0] * 2),
    "frompyfunc": lambda f, x: pl.numpy.frompyfunc(lambda a, b: (a + b, f)[0], 2, 1).reduce(x),
    "named_call": lambda f, x: pl.jit(pl.named_call(f, name="named"))(x),
    "jit, cleared": lambda f, x: (pl.jit(f)(x), pl.clear_caches()),
    "disable_jit": lambda f, x: pl.jit(f)(x),
}
"""Things to do with a function of arrays of three numbers."""

WAYS = ("eager", "jit", "failing")
HOST = ("pure_callback", "io_callback", "ordered io_callback", "debug.callback")
"""Threads of XLA keep the host function that they called last until they call another one."""
OUTSIDE = {
    "donated",
    "lower",
    "compile",
    "texts",
    "costs",
    "export",
    "saved residuals",
    "references",
}
"""What can't be done under `jit`, or does the same there."""


def work(name, way):
    """Use a function that captured an array; a weak reference to it."""
    k = next(_numbers) + 0.375
    array = pl.device_put(np.full(3, k, np.float32))

    def function(x):
        if way == "failing" and isinstance(x, pl.core.Tracer):
            y = x * array
            raise Failed(str(type(y)))
        return x * array + 1.0

    use = USES[name]
    context = pl.disable_jit() if name == "disable_jit" else contextlib.nullcontext()
    with context, contextlib.suppress(Failed):
        if way == "jit":
            pl.jit(lambda x: (use(function, x), x)[1])(X)
        else:
            use(function, X)
    return weakref.ref(array)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name in USES for way in WAYS if way != "jit" or name not in OUTSIDE],
)
def test_no_array_outlives_its_function(name, way, capsys):
    remaining = [work(name, way) for _ in range(3)]
    pl.effects_barrier()
    gc.collect()
    n = 1 if name in HOST else 0
    alive = [reference for reference in remaining if reference() is not None]
    assert len(alive) <= n, [type(x) for x in gc.get_referrers(alive[0]())]


class Layer:
    """A callable object that holds an array."""

    def __init__(self, array):
        self.array = array

    def __call__(self, x):
        return x * self.array + 1.0

    def method(self, x):
        return self(x)


@pytest.mark.parametrize(
    "use", ["jit", "grad of jit", "vmap of jit", "cond", "scan, itself", "map"]
)
@pytest.mark.parametrize("kind", ["object", "method", "partial", "jitted"])
def test_no_array_outlives_a_callable_object(kind, use):
    def once():
        layer = Layer(pl.device_put(np.full(3, next(_numbers) + 0.375, np.float32)))
        function = {
            "object": layer,
            "method": layer.method,
            "partial": functools.partial(Layer.__call__, layer),
            "jitted": pl.jit(layer),
        }[kind]
        USES[use](function, X)
        pl.jit(lambda x: (USES[use](function, x), x)[1])(X)
        return weakref.ref(layer.array)

    remaining = [once() for _ in range(3)]
    gc.collect()
    assert [reference() for reference in remaining] == [None] * 3


EAGER = {
    "scan": lambda k, x: lax.scan(lambda c, _: (c * k, None), x, None, length=2),
    "while_loop": lambda k, x: lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2.0 + k, x),
    "cond": lambda k, x: lax.cond(True, lambda x: x * k, lambda x: x, x),
    "checkpoint": lambda k, x: pl.grad(lambda x: pl.checkpoint(lambda x: (x * k).sum())(x))(x),
    "map": lambda k, x: lax.map(lambda y: y * k, x),
    "reduce": lambda k, x: lax.reduce(x, np.float32(0), lambda a, b: a + b * k, (0,)),
    "at.apply": lambda k, x: x.at[0].apply(lambda y: y * k),
    "composite": lambda k, x: lax.composite(lambda x: x * k, "my.composite")(x),
    "exported": lambda k, x: pl.export.export(pl.jit(lambda x: x * k))(x).call(x),
    "jit": lambda k, x: pl.jit(lambda x: x * k)(x),
    "grad": lambda k, x: pl.grad(pl.jit(lambda x: (x * k).sum()))(x),
}


@pytest.mark.parametrize("name", EAGER)
def test_programs_and_their_executables_go_with_functions(name):
    """They don't become more with each function that is defined anew; what XLA made stays in the bounded table."""
    x = pl.device_put(X)

    def alive():
        EAGER[name](next(_numbers) + 0.375, x)
        gc.collect()
        kinds = [type(each) for each in gc.get_objects()]
        return kinds.count(Jaxpr), kinds.count(Executable)

    alive()
    before = alive()
    for _ in range(4):
        EAGER[name](next(_numbers) + 0.375, x)
    assert alive() == before


def test_executables_that_stay_hold_no_arrays():
    def use():
        for name in ("jit", "scan", "grad", "compile", "vmap of jit"):
            work(name, "eager")
        gc.collect()
        return len(pl.live_arrays())

    use()
    assert use() == use()
    kept = executable_cache.executables
    assert kept.n_bytes <= kept.max_bytes
