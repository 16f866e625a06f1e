"""Programs with primitives of a user: registered rules under each transformation; each takes the array library first.

`PROGRAMS` lists them.
"""

import functools

import numpy as np

from corpus.explicit_programs import seen
from corpus.transform_programs import submodule

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.array([1, 2, 5], np.float32)
WIDE = np.arange(32, dtype=np.float32).reshape(8, 4)


def _new(jax, name):
    extend = submodule(submodule(jax, "extend"), "core")
    primitive = extend.Primitive(name)
    apply = submodule(submodule(jax, "interpreters"), "xla").apply_primitive
    primitive.def_impl(functools.partial(apply, primitive))
    interpreters = [
        submodule(submodule(jax, "interpreters"), n) for n in ("ad", "batching", "mlir")
    ]
    return primitive, *interpreters


def several_results(jax):
    both_p, ad, batching, mlir = _new(jax, "sin_cos")
    jnp = jax.numpy
    both_p.multiple_results = True
    both_p.def_abstract_eval(lambda x, *, scale: [jax.core.ShapedArray(x.shape, x.dtype)] * 2)
    mlir.register_lowering(
        both_p, mlir.lower_fun(lambda x, *, scale: [scale * jnp.sin(x), scale * jnp.cos(x)])
    )

    def jvp(primals, tangents, *, scale):
        sines, cosines = both_p.bind(*primals, scale=scale)
        [t] = tangents
        return [sines, cosines], [cosines * t, -sines * t]

    def batch(operands, dims, *, scale):
        return both_p.bind(*operands, scale=scale), [dims[0]] * 2

    ad.primitive_jvps[both_p] = jvp
    batching.primitive_batchers[both_p] = batch

    def f(x):
        return sum(y.sum() for y in both_p.bind(x, scale=2.0))

    return (
        both_p.bind(X, scale=2.0), jax.jit(f)(X), jax.grad(f)(X), jax.hessian(f)(X[0]),
        jax.vmap(f, in_axes=1)(X), jax.jit(jax.vmap(jax.grad(f)))(X), jax.jvp(f, (W,), (W,)),
        str(jax.make_jaxpr(lambda x: both_p.bind(x, scale=2.0))(W)),
    )  # fmt: skip


def linear(jax):
    mirror_p, ad, batching, mlir = _new(jax, "mirror")
    mirror_p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(mirror_p, mlir.lower_fun(lambda x: x[::-1], multiple_results=False))
    ad.deflinear(mirror_p, lambda ct: [mirror_p.bind(ct)])
    batching.primitive_batchers[mirror_p] = lambda operands, dims: (
        jax.vmap(lambda x: x[::-1], dims[0])(operands[0]),
        0,
    )
    gradient = jax.grad(lambda x: (mirror_p.bind(x) * W).sum())
    return (
        gradient(W), jax.linear_transpose(mirror_p.bind, W)(W), jax.jvp(mirror_p.bind, (W,), (W,)),
        jax.vmap(mirror_p.bind, 1)(X), jax.linearize(mirror_p.bind, W)[1](W), jax.jit(gradient)(W),
        jax.vmap(gradient)(X),
    )  # fmt: skip


def bilinear(jax):
    product_p, ad, batching, mlir = _new(jax, "scaled_product")
    lax = jax.lax

    def types(x, y, *, k):
        return jax.core.ShapedArray(np.broadcast_shapes(x.shape, y.shape), x.dtype)

    product_p.def_abstract_eval(types)
    mlir.register_lowering(
        product_p, mlir.lower_fun(lambda x, y, *, k: x * y * k, multiple_results=False)
    )
    ad.defbilinear(
        product_p,
        lambda ct, x, y, *, k: product_p.bind(ct, y, k=k),
        lambda ct, x, y, *, k: product_p.bind(x, ct, k=k),
    )
    batching.defbroadcasting(product_p)
    one = np.float32(1)

    def f(x, y):
        return product_p.bind(x, y, k=3.0).sum()

    def loop(xs):
        return lax.scan(lambda c, x: (product_p.bind(c, x, k=2.0), c), one, xs)

    def chosen(x):
        return lax.cond(x.sum() > 4, lambda x: product_p.bind(x, x, k=1.0), lambda x: x, x)

    square = jax.checkpoint(lambda x: product_p.bind(x, x, k=1.0).sum())
    checkify = submodule(submodule(jax, "experimental"), "checkify")
    checked = checkify.checkify(
        jax.jit(lambda x: product_p.bind(x, x, k=np.inf)), errors=checkify.nan_checks
    )
    return (
        jax.grad(f, (0, 1))(W, 2 * W), jax.vmap(jax.grad(f, (0, 1)))(X, X + 1), jax.jit(jax.grad(f))(W, W),
        loop(W), jax.grad(lambda xs: loop(xs)[0])(W), chosen(W), jax.vmap(chosen)(X), jax.grad(chosen_sum(chosen))(W),
        jax.grad(square)(W), lax.while_loop(lambda c: c < 100, lambda c: product_p.bind(c, c, k=2.0), one),
        checked(0 * W)[0].get() is not None, checked(W)[0].get() is not None,
        str(jax.make_jaxpr(lambda x: product_p.bind(x, x, k=3))(W)),
    )  # fmt: skip


def chosen_sum(function):
    return lambda x: function(x).sum()


def axis_rules(jax):
    results = []
    for table in ("fancy_primitive_batchers", "axis_primitive_batchers"):
        size_p, _, batching, mlir = _new(jax, "batch_size")
        size_p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
        mlir.register_lowering(size_p, lambda ctx, x: [x])

        def batch(axis, *more, table=table):
            size, name = (axis, more[0]) if table[0] == "a" else (axis.size, axis.name)
            results.append((size, name))
            return more[-2][0] * size, more[-1][0]

        getattr(batching, table)[size_p] = batch
        results.append(jax.vmap(size_p.bind, 1, 1, axis_name="rows")(X))
    return results


def effects(jax):
    loud_p, *_ = _new(jax, "loud")
    effect = submodule(submodule(jax, "extend"), "core").Effect()
    loud_p.def_effectful_abstract_eval(lambda x: (jax.core.ShapedArray(x.shape, x.dtype), {effect}))
    jaxpr = jax.make_jaxpr(lambda x: (loud_p.bind(x), x)[1])(W)
    return len(jaxpr.eqns), len(jaxpr.effects)


def tables(jax):
    ad = submodule(submodule(jax, "interpreters"), "ad")
    lax = jax.lax
    rule = ad.primitive_jvps[lax.mul_p]
    results = [
        rule((W, 2 * W), (W, ad.Zero(jax.core.ShapedArray((3,), np.float32)))),
        ad.primitive_transposes[lax.neg_p](W, ad.UndefinedPrimal(jax.core.ShapedArray((3,), np.float32))),
        [lax.mul_p in ad.primitive_jvps, lax.argmax_p in ad.primitive_jvps, lax.sin_p in ad.primitive_transposes],
    ]  # fmt: skip
    results.append(jax.grad(lax.tanh)(W[0]))
    rule = ad.primitive_jvps[lax.tanh_p]

    def tripled(primals, tangents, **params):
        result, tangent = rule(primals, tangents, **params)
        return result, 3 * tangent

    ad.primitive_jvps[lax.tanh_p] = tripled
    try:
        results.append(jax.grad(lax.tanh)(W[0]))
    finally:
        ad.primitive_jvps[lax.tanh_p] = rule
    return results


class Columns:
    """Columns of a table of any width, each with an offset; no pytree."""

    def __init__(self, table, offsets):
        self.table, self.offsets = table, offsets


class Along:
    """The batch axis of the tables of `Columns`."""

    def __init__(self, axis):
        self.axis = axis


def containers(jax):
    batching = submodule(submodule(jax, "interpreters"), "batching")

    def to_elt(element_of, index, columns, along):
        offsets = element_of(columns.offsets, 0), index()
        return Columns(element_of(columns.table, along.axis), offsets)

    def from_elt(stacked, axis_size, columns, along):
        table = stacked(axis_size, columns.table, along.axis)
        return Columns(table, stacked(axis_size, columns.offsets, 0) * axis_size)

    batching.register_vmappable(Columns, Along, int, to_elt, from_elt, None)

    def f(columns, x):
        offset = sum(columns.offsets)
        return Columns(columns.table * x + offset, offset), x + 1

    def mapped(table, x, in_axis, out_axis):
        offsets = np.arange(3, dtype=np.int32)
        axes = (Along(in_axis), None), (Along(out_axis), None)
        columns, y = jax.vmap(f, *axes, axis_size=3)(Columns(table, offsets), x)
        return columns.table, columns.offsets, y

    def loss(table):
        return mapped(table, 2.0, 1, 0)[0].sum()

    results = (
        mapped(X, 2.0, 1, 0), jax.jit(mapped, static_argnums=(2, 3))(X, 2.0, -1, 1), jax.grad(loss)(X),
        jax.vmap(lambda x: mapped(X, x, 1, 1))(W),
        jax.vmap(lambda c: c.table.sum() + c.offsets[0], in_axes=Along(1), axis_size=3)(Columns(X, W)),
        jax.vmap(lambda cs, x: cs["a"].table @ x, ({"a": Along(0)}, 0))({"a": Columns(X, W[:2])}, X),
    )  # fmt: skip
    batching.unregister_vmappable(Columns)
    return results


def over_explicit_axes(jax):
    lax = jax.lax

    def primitive(name, rule, function):
        new_p, ad, batching, mlir = _new(jax, name)
        new_p.def_abstract_eval(rule)
        mlir.register_lowering(new_p, mlir.lower_fun(function, multiple_results=False))
        ad.deflinear2(new_p, lambda ct, x: [ct])
        batching.primitive_batchers[new_p] = lambda xs, dims: (new_p.bind(*xs), dims[0])
        return new_p.bind

    def turned_type(x):
        sharding = x.sharding.update(spec=jax.P(*tuple(x.sharding.spec)[::-1]))
        return x.update(shape=x.shape[::-1], sharding=sharding)

    same = primitive("same", lambda x: x, lambda x: x * 1)
    turned = primitive("turned", turned_type, lambda x: x.T)
    whole = primitive("whole", lambda x: jax.core.ShapedArray(x.shape, x.dtype), lambda x: x * 2)

    def results(x):
        return (
            same(x), turned(x), jax.vmap(same, 1, 1)(x), jax.grad(lambda x: (same(x) * x).sum())(x),
            jax.vmap(same, spmd_axis_name="x")(x), lax.scan(lambda c, _: (same(c), c), x, length=2)[0],
            x + whole(x), x + jax.pure_callback(lambda x: x, x, x), jax.jit(same)(turned(x)) + 1,
        )  # fmt: skip

    def noted(x):
        jax.debug.callback(lambda x: None, x)
        return x

    return seen(jax, results, (WIDE, "x", "y")), seen(jax, noted, (WIDE, "x"))


PROGRAMS = [several_results, linear, bilinear, axis_rules, effects, tables, containers]
