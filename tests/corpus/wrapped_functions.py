"""Functions under transformations of libraries, with values that are known in part; each program takes the array library.

`PROGRAMS` lists them.
"""

import numpy as np

from corpus.transform_programs import submodule

X = np.array([0.5, -1.25], np.float32)


def _modules(jax):
    return submodule(jax, "extend.linear_util"), submodule(jax, "interpreters.partial_eval")


def chains(jax):
    """Transformations run from the outside in, and keep what they add."""
    lu, _ = _modules(jax)

    @lu.transformation
    def doubled(by, *args):
        yield [(yield [by * x for x in args], {"z": 1})] * 2

    @lu.transformation_with_aux
    def counted(*args):
        result = yield args, {}
        yield result, len(args)

    @lu.transformation2
    def shifted(f, by, *args, **kwargs):
        return f(*[x + by for x in args], **kwargs)

    @lu.transformation_with_aux2
    def named(f, store, name, *args, **kwargs):
        store.store(name)
        return f(*args, **kwargs)

    fun, name = named(lu.wrap_init(lambda x, y, z, w: x * y + z + w, {"w": 100}), "inner")
    fun = shifted(fun, 1)
    fun, count = counted(doubled(fun, 10))
    other = shifted(lu.wrap_init(max), 1)
    return (
        fun.call_wrapped(2, 3), count(), name(), fun.__name__, lu.merge_linear_aux(count, _unset(lu)),
        other == shifted(lu.wrap_init(max), 1), other == shifted(lu.wrap_init(max), 2),
        other == shifted(lu.wrap_init(min), 1),
    )  # fmt: skip


def _unset(lu):
    return lu.transformation_with_aux2(lambda f, store: None)(lu.wrap_init(max))[1]


def remembered(jax):
    lu, _ = _modules(jax)
    calls = []

    @lu.transformation_with_aux2
    def named(f, store, name, *args):
        store.store(name)
        return f(*args)

    @lu.cache
    def run(fun, x):
        calls.append(x)
        return fun.call_wrapped(x)

    results = []
    for name, x in (("a", 1), ("a", 1), ("b", 1), ("a", 2)):
        fun, aux = named(lu.wrap_init(abs), name)
        results.append((run(fun, x), aux()))
    return results, calls


def trees(jax):
    lu, _ = _modules(jax)
    util = submodule(jax, "api_util")
    args, kwargs = ({"b": 2, "a": 1},), {"y": (5, None)}
    leaves, tree = jax.tree.flatten((args, kwargs))
    fun, out_tree = util.flatten_fun(lu.wrap_init(lambda x, y: {"sum": x["a"] + y[0]}), tree)
    plain, plain_tree = util.flatten_fun_nokwargs(lu.wrap_init(divmod), jax.tree.structure((1, 1)))
    return (
        fun.call_wrapped(*leaves), str(out_tree()), plain.call_wrapped(7, 2), str(plain_tree()),
        util.safe_map(max, [1, 5], [4, 2]),
    )  # fmt: skip


def aux_before_the_call(jax):
    return _unset(_modules(jax)[0])()


def aux_of_neither(jax):
    lu, _ = _modules(jax)
    return lu.merge_linear_aux(_unset(lu), _unset(lu))


def of_other_lengths(jax):
    return submodule(jax, "api_util").safe_map(max, [1], [1, 2])


def known_in_part(jax):
    """Results that depend on the unknown value `y` become a program, also within jit and functions with own derivatives."""
    lu, pe = _modules(jax)
    jnp = jax.numpy

    @jax.custom_jvp
    def wave(x):
        return jnp.sin(x)

    wave.defjvp(lambda primals, tangents: (wave(*primals), tangents[0]))

    @jax.custom_vjp
    def turn(x):
        return jnp.cos(x)

    turn.defvjp(lambda x: (turn(x), x), lambda x, ct: (ct,))

    def f(x, y, z):
        pairs = jax.jit(lambda x, y: (x * 2, x + y))(x, y)
        chosen = jax.lax.cond(x.sum() > 0, lambda: x, lambda: x + z)
        values = [wave(x), wave(y), turn(x), turn(y), jnp.where(y > 0, x, y), y, x, 3.0]
        return [*pairs, chosen, *values, jax.random.normal(jax.random.key(0), (2,))]

    def parts(x):
        pvals = [pe.PartialVal.known(x), pe.PartialVal.unknown(jax.typeof(X))]
        return pe.trace_to_jaxpr_nounits(lu.wrap_init(f), [*pvals, pe.PartialVal.known(2.0)])

    jaxpr, results, consts = parts(X)
    staged = jax.jit(lambda x: [value for aval, value in parts(x)[1] if aval is None])(X)
    values = [p.get_known() for p in results if p.is_known()]
    unknown = [str(p.get_aval()) for p in results if not p.is_known()]
    always = pe.trace_to_jaxpr_nounits(lu.wrap_init(lambda: [X, 1]), [], [True, False])
    return (
        values, unknown, staged, len(jaxpr.invars), jax.core.eval_jaxpr(jaxpr, consts, X + 1),
        str(always[1][0].get_aval()), always[1][1].get_known(), len(always[0].outvars),
    )  # fmt: skip


def loops_and_branches_in_part(jax):
    """Which results of loops and branches are known where some operands are, and the values of all."""
    lu, pe = _modules(jax)
    lax = jax.lax

    def scan(x, y):
        (a, b, c), ys = lax.scan(
            lambda c, x: ((2 * c[0], c[1] + c[0], c[2] * x), (c[0] + x, c[1])), (x, y, x), X
        )
        return [a, b, c, *ys]

    def scan_of_carries(x, y):
        carry, _ = lax.scan(
            lambda c, _: ((c[1], c[2], c[2], c[3] + 1), None), (x, x, y, x), None, 2
        )
        return [*carry]

    def while_of_known(x, y):
        return [*lax.while_loop(lambda c: c[0] < 9, lambda c: (2 * c[0], c[0] * c[1]), (x, y))]

    def while_of_unknown(x, y):
        return [*lax.while_loop(lambda c: c[1] < 9, lambda c: (c[0] + 1, 2 * c[1]), (x, y))]

    def cond(x, y):
        return [*lax.cond(x > 0, lambda x, y: (x, y), lambda x, y: (2 * x, x), x, y)]

    def cond_of_unknown(x, y):
        return [*lax.cond(y > 0, lambda x, y: (x, y), lambda x, y: (2 * x, x), x, y)]

    def within(x, y):
        return jax.jit(lambda x, y: [jax.checkpoint(scan)(x, y), cond(x, y)])(x, y)[1]

    shown = []
    for function in (
        scan, scan_of_carries, while_of_known, while_of_unknown, cond, cond_of_unknown, within,
    ):  # fmt: skip
        x, y = jax.numpy.float32(2), jax.numpy.float32(3)
        fun = lu.wrap_init(function)
        pvals = [pe.PartialVal.known(x), pe.PartialVal.unknown(jax.typeof(y))]
        jaxpr, out_pvals, consts = pe.trace_to_jaxpr_nounits(fun, pvals, False)
        unknown = iter(jax.core.eval_jaxpr(jaxpr, consts, y))
        shown.append(
            [(p.is_known(), p.get_known() if p.is_known() else next(unknown)) for p in out_pvals]
        )
    return shown


PROGRAMS = [
    chains, remembered, trees, known_in_part, loops_and_branches_in_part, aux_before_the_call, aux_of_neither, of_other_lengths,
]  # fmt: skip
FAIL = [aux_before_the_call, aux_of_neither, of_other_lengths]
