"""Programs of interpreters and libraries that build on parts of the core; each takes the array library.

`PROGRAMS` lists them, `FAIL` those that raise in both libraries.
"""

import numpy as np

from corpus.transform_programs import submodule

X = np.array([0.5, -1.25, 3.0], np.float32)


def _wrapped(jax, function):
    info = submodule(jax, "api_util").debug_info("test", function, (1.0,), {})
    return submodule(jax, "extend.linear_util").wrap_init(function, debug_info=info)


def sizes(jax):
    """Sizes that are integers, and the larger of two."""
    core = submodule(jax, "core")
    dims = (3, np.int32(3), 3.5, "b", True)
    return (
        [core.is_constant_dim(d) for d in dims],
        core.is_constant_shape((2, 3)),
        core.max_dim(2, 3),
        core.min_dim(2, 3),
        [
            str(core.primal_dtype_to_tangent_dtype(np.dtype(d)))
            for d in ("float32", "int32", "bool")
        ],
    )


def traces_in_force(jax):
    """What a function reads of the traces around it."""
    core = submodule(jax, "core")
    rows = []

    def reading():
        def f(x):
            rows.append((
                core.unsafe_am_i_under_a_jit_DO_NOT_USE(), core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                core.unsafe_get_axis_names_DO_NOT_USE(), core.nonempty_axis_env_DO_NOT_USE(),
                core.trace_ctx.is_top_level(), core.trace_ctx.axis_env.axis_names(),
                core.find_top_trace(()) is core.trace_ctx.trace,
            ))  # fmt: skip
            return x * 2

        return f

    reading()(X)
    jax.jit(reading())(X)
    jax.vmap(reading(), axis_name="i")(X)
    jax.vmap(jax.jit(reading()), axis_name="q")(X)
    jax.jit(jax.grad(lambda x: reading()(x).sum()))(X)
    jax.grad(lambda x: jax.vmap(reading())(x).sum())(X)
    jax.jit(jax.vmap(jax.grad(reading())))(X)
    jax.jvp(reading(), (X,), (X,))
    jax.make_jaxpr(reading())(X)
    jax.vmap(lambda x: jax.lax.cond(x > 0, reading(), lambda x: x, x))(X)
    return rows


def at_once(jax):
    """A number is computed while a function is traced."""
    core = submodule(jax, "core")

    def f(x):
        with core.eval_context():
            n = int(jax.numpy.sum(np.arange(3)))
        return x * n

    return jax.jit(f)(X), str(jax.make_jaxpr(f)(X))


def calls(jax):
    """Functions called as equations."""
    core, extend = submodule(jax, "core"), submodule(jax, "extend.core")
    layer_p = extend.CallPrimitive("layer")

    def f(x):
        (y,) = core.call(x, subfuns=(_wrapped(jax, lambda z: [jax.numpy.sin(z) * x]),))
        return layer_p.bind(y, subfuns=(_wrapped(jax, lambda z: [z + 1, z * z]),))[1]

    primitives = submodule(jax, "extend.core.primitives")
    kinds = [jax.lax.sin_p, primitives.call_p, primitives.closed_call_p, primitives.jit_p, layer_p]
    return (
        [isinstance(p, extend.CallPrimitive) for p in kinds],
        core.call(1.0, 2.0, subfuns=(_wrapped(jax, lambda x, y: [x + y, x * y]),)),
        jax.grad(lambda x: core.call(x, subfuns=(_wrapped(jax, lambda y: [y * x]),))[0])(3.0),
        [eqn.primitive.name for eqn in jax.make_jaxpr(lambda x: core.call(
            x, subfuns=(_wrapped(jax, lambda y: [y + 1]),)))(1.0).eqns],
        str(jax.make_jaxpr(f)(1.0)),
    )  # fmt: skip


def new_programs(jax):
    """A program with another equation."""
    core, extend = submodule(jax, "core"), submodule(jax, "extend.core")
    program = jax.make_jaxpr(jax.lax.sin)(1.0).jaxpr
    y = core.gensym()(program.outvars[0].aval)
    eqn = core.new_jaxpr_eqn(program.invars, [y], jax.lax.cos_p, program.eqns[0].params, set())
    other = program.replace(eqns=[eqn], outvars=[y])
    nested = jax.make_jaxpr(jax.jit(lambda x: jax.jit(lambda y: y + 1)(x) + 2))(1.0).jaxpr
    return (
        str(other),
        core.eval_jaxpr(other, (), 0.5),
        [len(j.eqns) for j in extend.subjaxprs(nested)],
    )


def types_of_values(jax):
    """Types that values have, and types of values."""
    core, extend = submodule(jax, "core"), submodule(jax, "extend.core")
    kinds = (bool, int, float, complex, str, np.ndarray, np.float32, np.int8, np.str_, list)
    abstract = submodule(jax, "api_util").shaped_abstractify
    values = (1, X, True, np.float32(2), jax.numpy.ones(2), jax.ShapeDtypeStruct((2,), np.float32))
    return (
        [kind in core.literalable_types for kind in kinds],
        [kind in extend.array_types for kind in kinds],
        [str(abstract(x)) for x in values],
    )


def arguments_in_part(jax):
    """Functions of some of their arguments."""
    util = submodule(jax, "api_util")
    three = _wrapped(jax, lambda a, b, c: (a, b, c))
    rows = []
    for argnums in ((0, 2), 1, (-1,), ()):
        f, dynamic = util.argnums_partial(three, argnums, (1, 2, 3))
        rows.append((f.call_wrapped(*[10 * x for x in dynamic]), dynamic))
    f, dynamic = util.argnums_partial(three, 0, (1, [2], 3), require_static_args_hashable=False)
    tree = jax.tree.structure(((1, (2, 3)), {"a": 4, "k": (5, 6)}))
    leaves = jax.tree.structure(({"a": 1, "b": (2, 3)}, 4))
    return (
        rows,
        dynamic,
        [util.donation_vector(n, k, tree) for n, k in (((0,), ()), ((), ("k",)), ((1,), ("a",)))],
        util.donation_vector((1,), (), jax.tree.structure((1, (2, 3))), False),
        [
            util.flatten_axes("axes", leaves, axes)
            for axes in (0, (0, None), ({"a": 1, "b": None}, 2))
        ],
        util.flatten_axes("axes", jax.tree.structure(((1, 2), {"a": 1})), ((0, 1), 4), kws=True),
        util.rebase_donate_argnums((3, 4), (0, 1)),
        util.rebase_donate_argnums((4, 3, 4), (2,)),
    )


def unhashable_static_argument(jax):
    return submodule(jax, "api_util").argnums_partial(_wrapped(jax, max), 1, (1, 2, [3]))


def axes_of_another_structure(jax):
    tree = jax.tree.structure((1, 2))
    return submodule(jax, "api_util").flatten_axes("in_axes", tree, (0, 1, 2))


def static_and_donated(jax):
    return submodule(jax, "api_util").rebase_donate_argnums((0, 1), (1, 2))


def names_of_operations(jax):
    """Name stacks, and an interpreter that keeps those of equations."""
    info = submodule(jax, "extend.source_info_util")
    core = submodule(jax, "core")
    texts = [repr(info.new_name_stack()), str(info.new_name_stack("model"))]
    with info.extend_name_stack("a") as stack, info.transform_name_stack("jvp"):
        texts += [str(stack), str(info.current_name_stack())]
        with info.extend_name_stack("b"):
            inner = info.current_name_stack()
            texts += [str(inner), len(inner), str(inner[1:]), str(info.new_name_stack("q") + inner)]
            with info.reset_name_stack():
                texts.append(str(info.current_name_stack()))
            with info.set_name_stack(info.new_name_stack("z")):
                texts.append(str(info.current().name_stack))

    def interpret(jaxpr, consts, x):
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, x), strict=True))
        for eqn in jaxpr.eqns:
            names = info.current_name_stack() + eqn.source_info.name_stack
            with info.user_context(eqn.source_info.traceback, name_stack=names):
                operands = [
                    getattr(a, "val", None) if hasattr(a, "val") else values[a] for a in eqn.invars
                ]
                params = eqn.primitive.get_bind_params(eqn.params)
                results = eqn.primitive.bind(*operands, **params)
            results = results if eqn.primitive.multiple_results else [results]
            values.update(zip(eqn.outvars, results, strict=True))
        return [values[v] for v in jaxpr.outvars]

    def layer(x):
        with jax.named_scope("layer"):
            return jax.numpy.sin(x) * 2

    program = jax.make_jaxpr(layer)(1.0)
    with jax.named_scope("model"):
        again = jax.make_jaxpr(lambda x: interpret(program.jaxpr, program.consts, x))(1.0)
    as_given = [str(eqn.source_info.name_stack) for eqn in program.eqns]
    lines = [info.summarize(eqn.source_info).rpartition("/")[2] for eqn in again.eqns]
    same = [info.summarize(a.source_info) == info.summarize(b.source_info)
            for a, b in zip(program.eqns, again.eqns, strict=True)]  # fmt: skip
    return texts, as_given, same, len(lines), core.jaxpr_as_fun(again)(1.0) if hasattr(
        core, "jaxpr_as_fun") else None, info.summarize(info.new_source_info())  # fmt: skip


FAIL = [unhashable_static_argument, axes_of_another_structure, static_and_donated]
PROGRAMS = [
    sizes, traces_in_force, at_once, calls, new_programs, types_of_values, arguments_in_part, names_of_operations, *FAIL,
]  # fmt: skip
