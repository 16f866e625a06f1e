"""Programs of interpreters and libraries that build on parts of the core; each takes the array library.

`PROGRAMS` lists them, `FAIL` those that raise in both libraries.
"""

import numpy as np

from corpus.transform_programs import submodule

THEIRS = (
    "EAAAAAAACgAQAA8ACAAEAAoAAAAMAAAAJAAAAAAAAAQCAAAAEAAAAAQAAAABAAAAYgAAAAEAAABhAAAAAgAAAFwA"
    "AAAEAAAA6P///wgAAAAAAAACAgAAADwAAAAMAAAACAAMAAsABAAIAAAACAAAAAAAAAMCAAAAGAAAAAwAAAAAAAYA"
    "CAAHAAYAAAAAAAAB+P////z///8EAAQABAAAAA=="
)
"""A structure as the reference writes it."""
OURS = {
    "__jax_pytreedef_repr": (
        "EAAAAAAACgANAAwABAAIAAoAAAAMAAAAkAAAAAQAAAACAAAAEAAAABwAAAAAAAYABQAEAAYAAAAAAAAACAAJAAgA"
        "BAAIAAAACAAAAAIAAAACAAAAEAAAABwAAAAAAAYABQAEAAYAAAAAAAAACAAJAAgABAAIAAAACAAAAAMAAAACAAAA"
        "EAAAABgAAAAAAAYABQAEAAYAAAAAAAYABQAEAAYAAAABAAAAAgAAAAgAAAAMAAAAAQAAAGEAAAABAAAAYgA="
    ),
    "__jax_leaf_ids": [0, 1, 2],
}
"""The same structure as pellucid writes it."""
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
    """Facts of the traces around a function, as it reads them."""
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


def constructed_programs(jax):
    core = submodule(submodule(jax, "extend"), "core")
    closed = jax.make_jaxpr(lambda x, y: (jax.numpy.sin(x) * y, x))(1.0, 2.0)
    jaxpr = closed.jaxpr
    first = core.Jaxpr(jaxpr.constvars, jaxpr.invars[:1], jaxpr.eqns[0].outvars, jaxpr.eqns[:1])
    turned = core.Jaxpr(
        [], jaxpr.invars[::-1], jaxpr.outvars[::-1], eqns=jaxpr.eqns, effects=core.no_effects,
        debug_info=jaxpr.debug_info,
    )  # fmt: skip
    run = core.jaxpr_as_fun(core.ClosedJaxpr(turned, []))
    return (
        str(first), str(turned), isinstance(first, core.Jaxpr), isinstance(jaxpr, core.Jaxpr),
        isinstance(closed, core.Jaxpr), run(np.float32(3), np.float32(2)), jax.jit(run)(np.float32(3), np.float32(2)),
        sorted(map(str, turned.effects)),
    )  # fmt: skip


def traces_of_users(jax):
    core, extend = submodule(jax, "core"), submodule(jax, "extend.core")
    jnp, lax = jax.numpy, jax.lax

    class LogTracer(core.Tracer):
        def __init__(self, trace, val):
            super().__init__(trace, jax.typeof(val))
            self.val = val

        def full_lower(self):
            return self

    class LogTrace(core.Trace):
        def __init__(self, parent, log):
            super().__init__()
            self.parent, self.log = parent, log

        def value(self, x):
            return x.val if isinstance(x, LogTracer) and x._trace is self else x

        def process_primitive(self, primitive, tracers, params):
            self.log.append(str(primitive))
            values = [self.value(t) for t in tracers]
            avals = [jax.typeof(t) for t in tracers]
            out = primitive.bind_with_trace(self.parent, values, avals, params)
            return jax.tree.map(lambda v: LogTracer(self, v), out)

        def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
            self.log.append("custom_jvp")
            with extend.set_current_trace(self):
                return fun.call_wrapped(*tracers)

        def process_custom_vjp_call(
            self, primitive, fun, fwd, bwd, tracers, out_trees, symbolic_zeros
        ):
            self.log.append("custom_vjp")
            with extend.set_current_trace(self):
                return fun.call_wrapped(*tracers)

    def logged(f):
        def wrapped(*args):
            log = []
            with extend.take_current_trace() as parent:
                trace = LogTrace(parent, log)
                with extend.set_current_trace(trace):
                    result = f(*[LogTracer(trace, x) for x in args])
            return jax.tree.map(trace.value, result), log

        return wrapped

    @jax.custom_jvp
    def softer(x):
        return lax.tanh(x)

    softer.defjvp(lambda primals, tangents: (lax.tanh(*primals), lax.neg(tangents[0])))

    @jax.custom_vjp
    def harder(x):
        return lax.square(x)

    harder.defvjp(lambda x: (lax.square(x), x), lambda x, t: (lax.mul(x, t),))
    f = lax.sin
    functions = (
        lambda x, y: (lax.mul(f(x), lax.cos(y)), x), lambda x, y: lax.add(softer(x), harder(y)),
        lambda x, y: lax.split(x, (1, 2)), lambda x, y: lax.dot(x, y),
    )  # fmt: skip
    abstract = []

    def under_jit(x):
        result, log = logged(lambda x: lax.exp(f(x)))(x)
        abstract.extend(log)
        return result

    product = lambda x, y: lax.mul(f(x), softer(y))
    derivative, _ = logged(lambda x, y: jax.jvp(product, (x, y), (y, x)))(X, X + 1)
    vmapped, _ = logged(jax.vmap(lambda x, y: jnp.dot(x, y) + softer(x).sum()))(X[None], X[None])
    jitted, log = logged(jax.jit(lambda x: f(f(x))))(X)
    return (
        [logged(g)(X, X + 1) for g in functions], jax.jit(under_jit)(X), abstract, derivative, vmapped, jitted, log,
        isinstance(extend.find_top_trace(()), core.Trace), extend.TraceTag() == extend.TraceTag(),
    )  # fmt: skip


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


def _primitive(jax, name, **rules):
    p = submodule(jax, "extend.core").Primitive(name)
    p.def_abstract_eval(rules.get("types", lambda x, **_: x))
    return p


def dead_code(jax):
    """A primitive of a user of whose operands each result needs one."""
    pe = submodule(jax, "interpreters.partial_eval")
    swap_p = _primitive(jax, "swap", types=lambda x, y: [y, x])
    swap_p.multiple_results = True

    def traced():  # anew, as what the reference derives stays with a program
        f = lambda x, y: tuple(swap_p.bind(jax.numpy.sin(x), jax.numpy.cos(y)))
        return jax.make_jaxpr(f)(1.0, 2.0).jaxpr

    jaxpr = traced()
    rows = [[str(pe.dce_jaxpr(jaxpr, used)[0]), pe.dce_jaxpr(jaxpr, used)[1]]
            for used in ([True, False], [False, False])]  # fmt: skip

    def rule(used, eqn):
        if not any(used):
            return [False, False], None
        needed = [used[1], used[0]]
        operands = [v for v, n in zip(eqn.invars, needed, strict=True) if n]
        results = [v for v, u in zip(eqn.outvars, used, strict=True) if u]
        return needed, eqn.replace(invars=operands, outvars=results)

    pe.dce_rules[swap_p] = rule
    jaxpr = traced()
    for used in ([True, False], [False, True], [True, True], [False, False]):
        pruned, needed = pe.dce_jaxpr(jaxpr, used)
        rows.append([str(pruned), needed])
    instantiated = pe.dce_jaxpr(jaxpr, [True, False], instantiate=[True, False])
    with_consts = jax.make_jaxpr(lambda x, y: (x + X, y + 2 * X))(1.0, 2.0).jaxpr
    return (
        rows,
        str(instantiated[0]),
        instantiated[1],
        swap_p in pe.dce_rules,
        pe.dce_jaxpr_consts(with_consts, [True, False])[2],
    )


def dead_code_of_calls(jax):
    """Primitives of a user that call a program, open or with its constants."""
    pe = submodule(jax, "interpreters.partial_eval")
    program = jax.make_jaxpr(lambda x, y: (jax.numpy.sin(x), y * 2, y))(1.0, 2.0)
    rows = []
    for name, called, rule in (
        ("called", program, pe.dce_jaxpr_closed_call_rule),
        ("opened", program.jaxpr, pe.dce_jaxpr_call_rule),
    ):
        p = _primitive(jax, name, types=lambda *_, call_jaxpr: [v.aval for v in call_jaxpr.outvars])
        p.multiple_results = True
        pe.dce_rules[p] = rule
        f = lambda x, y, p=p, called=called: p.bind(x, y, call_jaxpr=called)
        for used in ([True, False, False], [False, False, True], [False] * 3, [True] * 3):
            pruned, needed = pe.dce_jaxpr(jax.make_jaxpr(f)(1.0, 2.0).jaxpr, used)
            rows.append([str(pruned), needed])
    return rows


def traced_functions(jax):
    """Programs of functions of flat values."""
    pe = submodule(jax, "interpreters.partial_eval")
    aval = jax.typeof(X)
    function = _wrapped(jax, lambda x, y: [jax.numpy.sin(x), x + y] if False else [x * y])
    jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(function, [aval, aval])
    return str(jaxpr), [str(a) for a in avals], len(consts)


def reducers(jax):
    """A primitive of a user that reduces, batched."""
    batching, mlir = submodule(jax, "interpreters.batching"), submodule(jax, "interpreters.mlir")
    core = submodule(jax, "core")

    def types(x, axes):
        return core.ShapedArray([n for i, n in enumerate(x.shape) if i not in axes], x.dtype)

    total_p = _primitive(jax, "total", types=types)
    mlir.register_lowering(total_p, mlir.lower_fun(lambda x, axes: jax.numpy.sum(x, axes), False))
    batching.defreducer(total_p)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return [
        jax.jit(jax.vmap(lambda x, axes=axes: total_p.bind(x, axes=axes), in_axes=dim, out_axes=out))(x)
        for axes in ((0,), (1,), (0, 1)) for dim in (0, 1, 2) for out in (0,)
    ]  # fmt: skip


def lowered_programs(jax):
    """Lowering rules that build programs, functions and calls of Python."""
    mlir = submodule(jax, "interpreters.mlir")
    program = jax.make_jaxpr(lambda x: jax.numpy.sin(x) * 2)(X)
    inlined_p, called_p, sorted_p = (
        _primitive(jax, name) for name in ("inlined", "called", "sorted")
    )

    def inlined(ctx, x):
        results, tokens = mlir.jaxpr_subcomp(
            ctx.module_context, program.jaxpr, ctx.name_stack, mlir.TokenSet(), (), x,
            dim_var_values=ctx.dim_var_values if hasattr(ctx, "dim_var_values") else (),
            const_lowering={}, outer_traceback=ctx.traceback,
        )  # fmt: skip
        assert len(tokens) == 0
        return results

    def called(ctx, x):
        return mlir.core_call_lowering(ctx, x, name="twice", call_jaxpr=program)

    def by_numpy(ctx, x):
        results, token, keepalive = mlir.emit_python_callback(
            ctx, lambda x: (np.sort(np.asarray(x)),), None, [x], ctx.avals_in, ctx.avals_out,
            has_side_effect=False, returns_token=False,
        )  # fmt: skip
        assert token is None or jax.__name__ != "pellucid"
        ctx.module_context.add_keepalive(keepalive)
        return results

    mlir.register_lowering(inlined_p, inlined)
    mlir.register_lowering(called_p, called)
    mlir.register_lowering(sorted_p, by_numpy)
    f = jax.jit(
        lambda x: (inlined_p.bind(x), called_p.bind(x) + called_p.bind(x), sorted_p.bind(x))
    )
    return f(X), "twice" in f.lower(X).as_text()


def values_of_constants(jax):
    """Types and constants in MLIR."""
    mlir = submodule(jax, "interpreters.mlir")
    facts = []

    def rule(ctx, x):
        module = ctx.module_context
        facts.extend([
            [str(t) for t in mlir.aval_to_ir_types(module, ctx.avals_in[0])],
            str(mlir.token_type()),
            str(mlir.shape_tensor(module, [2, mlir.ir_constant(np.int32(3))]).type),
            str(mlir.ir_constant(np.float32(2)).type),
            [str(v.type) for v in mlir.ir_constants(np.ones(2, np.int8))],
            len(module.host_callbacks), list(module.platforms), ctx.primitive.name,
        ])  # fmt: skip
        return [x]

    p = _primitive(jax, "looked_at")
    mlir.register_lowering(p, rule)
    return jax.jit(p.bind)(X), facts, mlir.flatten_ir_types(["a", ("b", "c")]), [
        mlir.DEVICE_TO_DEVICE_TYPE, mlir.SEND_TO_HOST_TYPE, mlir.RECV_FROM_HOST_TYPE]  # fmt: skip


def buffers(jax):
    """Python functions that write results into buffers."""
    module = submodule(jax, "experimental.buffer_callback")

    def both(context, out, x, *, y):
        np.asarray(out["sum"])[...] = np.asarray(x) + np.asarray(y)
        np.asarray(out["last"])[...] = np.asarray(x).reshape(-1)[-1]

    def in_place(context, out, x):
        np.asarray(out)[...] *= 2

    shapes = {
        "sum": jax.ShapeDtypeStruct((3,), np.float32),
        "last": jax.ShapeDtypeStruct((), np.float32),
    }
    one = module.buffer_callback(both, shapes)
    each = module.buffer_callback(both, shapes, vmap_method="sequential")
    doubled = module.buffer_callback(in_place, shapes["sum"], input_output_aliases={0: 0})
    return (
        one(X, y=X), jax.jit(one)(X, y=2 * X), jax.jit(lambda x: doubled(x + 1))(X),
        jax.vmap(lambda x: each(x, y=X))(np.stack([X, 3 * X])),
        [kind.__name__ for kind in (module.Buffer, module.ExecutionContext, module.ExecutionStage)],
    )  # fmt: skip


def metadata_of_calls(jax):
    """Calls with metadata, derived and batched."""
    module = submodule(jax, "experimental.scheduling_groups")
    f = module.scheduling_group("exchange")(lambda x, y: (jax.numpy.sin(x) * y, x))
    g = lambda x: f(x, x)[0].sum()
    texts = [jax.jit(h).lower(X).as_text() for h in (g, jax.grad(g), jax.vmap(lambda x: f(x, x)))]
    deps = submodule(jax, "experimental.control_deps")
    ordered = jax.make_jaxpr(lambda x, y: deps.schedule([x + 1, y + 1, x + y]))(1.0, 2.0)
    return (
        f(X, X), jax.grad(g)(X), jax.vmap(lambda x: f(x, x))(X), str(jax.make_jaxpr(g)(X)),
        ["exchange" in text for text in texts], [eqn.primitive.name for eqn in ordered.eqns],
    )  # fmt: skip


def structures_as_text(jax):
    """Structures of trees as what JSON can hold."""
    module = submodule(jax, "experimental.array_serialization.pytree_serialization_utils")
    tree = jax.tree.structure({"a": 1, "b": (2, [3, None])})
    text = module.serialize_pytreedef(tree)
    theirs = {
        "__jax_pytreedef_repr": THEIRS, "__jax_leaf_ids": [0, 1, 2],
    }  # fmt: skip
    return (
        sorted(text), text["__jax_leaf_ids"], str(module.deserialize_pytreedef(text)),
        str(module.deserialize_pytreedef(theirs)), str(module.deserialize_pytreedef(OURS)),
    )  # fmt: skip


def topologies(jax):
    """The devices that are there, as a topology."""
    module = submodule(jax, "experimental.topologies")
    topology = module.get_attached_topology()
    mesh = module.make_mesh(topology, (len(topology.devices),), ("x",))
    return (
        topology.devices == jax.devices(),
        mesh.axis_names,
        mesh.size == len(topology.devices),
        mesh.devices.ndim,
    )


FAIL = [unhashable_static_argument, axes_of_another_structure, static_and_donated]
PROGRAMS = [
    constructed_programs, traces_of_users,
    sizes, traces_in_force, at_once, calls, new_programs, types_of_values, arguments_in_part, names_of_operations, dead_code,
    dead_code_of_calls,
    traced_functions, reducers, lowered_programs, values_of_constants, buffers, metadata_of_calls, structures_as_text, topologies, *FAIL,
]  # fmt: skip
