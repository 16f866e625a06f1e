"""Small programs whose jaxprs must have the text that the reference gives them.

A function that a program jits is called `user_…`; any other call in the reference's text is one of its own functions,
which it jits and pellucid does not (decisions/0006).
"""

import re

import numpy as np

PROGRAMS = {}
"""Name: (function of the library and arguments, arguments)."""


DIFFERENCES = {
    "index_array": "an index that is known while tracing is brought into range then, not by equations",
    "at_add": "an index that is known while tracing is brought into range then, not by equations",
    "gathers_rows": "an index that is known while tracing is brought into range then, not by equations",
    "reshapes_permuted": "a reshape that permutes first is a transpose and a reshape",
    "mapped_dot": "operands of unlike rank are aligned from the first to the last",
    "branches_with_constants": "what branches close over comes in the order of the branches",
    "gradient_through_a_call": "a result that only the caller drops keeps its name inside",
}
"""Programs whose text is meant to be another one than the reference's, and why."""


def program(*args):
    """Register a function under its own name with example arguments."""

    def register(function):
        PROGRAMS[function.__name__] = (function, args)
        return function

    return register


def each(*args, **functions):
    """Register one-line functions, by name, with the same example arguments."""
    for name, function in functions.items():
        PROGRAMS[name] = (function, args)


def f32(*shape):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape) / 4


def i32(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


X, Y, M, N = f32(3), f32(3) + 1, f32(3, 4), f32(4, 5)
K, B = i32(3), np.array([True, False, True])

each(
    X, Y,
    add=lambda jax, x, y: jax.lax.add(x, y),
    mul_then_sub=lambda jax, x, y: jax.lax.sub(jax.lax.mul(x, y), x),
    div_by_literal=lambda jax, x, y: jax.lax.div(x, 2.0),
    max_and_min=lambda jax, x, y: (jax.lax.max(x, y), jax.lax.min(x, y)),
    power=lambda jax, x, y: jax.lax.pow(x, y),
    angle=lambda jax, x, y: jax.lax.atan2(x, y),
    remainder=lambda jax, x, y: jax.lax.rem(x, y),
    comparisons=lambda jax, x, y: [jax.lax.lt(x, y), jax.lax.eq(x, y), jax.lax.ge(x, y), jax.lax.ne(x, y)],
    chooses=lambda jax, x, y: jax.lax.select(jax.lax.lt(x, y), x, y),
    make_complex=lambda jax, x, y: jax.lax.complex(x, y),
    concatenates=lambda jax, x, y: jax.lax.concatenate([x, y], 0),
    dots=lambda jax, x, y: jax.lax.dot(x, y),
    sorts_pairs=lambda jax, x, y: jax.lax.sort((x, y), num_keys=1),
    unused=lambda jax, x, y: x,
    same_twice=lambda jax, x, y: (jax.lax.add(x, x), jax.lax.add(x, x)),
    results_are_inputs=lambda jax, x, y: {"b": x, "a": y, "c": 3.0},
    operators=lambda jax, x, y: (x + y * 2 - x / y) ** 2,
    compare_and_mask=lambda jax, x, y: x * (x > y),
    numpy_where=lambda jax, x, y: jax.numpy.where(x > y, x, 0.0),
    numpy_stack=lambda jax, x, y: jax.numpy.stack([x, y]),
    numpy_dot=lambda jax, x, y: jax.numpy.dot(x, y),
    numpy_maximum=lambda jax, x, y: jax.numpy.maximum(x, y).sum(),
    numpy_hypot=lambda jax, x, y: jax.numpy.sqrt(x**2 + y**2),
    numpy_concatenate=lambda jax, x, y: jax.numpy.concatenate([x, y, x]),
    numpy_outer=lambda jax, x, y: x[:, None] * y[None, :],
)  # fmt: skip
each(
    X,
    negated=lambda jax, x: jax.lax.neg(x),
    sine_of_cosine=lambda jax, x: jax.lax.sin(jax.lax.cos(x)),
    exponentials=lambda jax, x: (jax.lax.exp(x), jax.lax.log(x), jax.lax.log1p(x), jax.lax.expm1(x)),
    roots=lambda jax, x: (jax.lax.sqrt(x), jax.lax.rsqrt(x), jax.lax.cbrt(x)),
    hyperbolic=lambda jax, x: (jax.lax.tanh(x), jax.lax.sinh(x), jax.lax.atanh(x)),
    logistic=lambda jax, x: jax.lax.logistic(x),
    rounding=lambda jax, x: (jax.lax.floor(x), jax.lax.ceil(x), jax.lax.round(x)),
    signs=lambda jax, x: (jax.lax.sign(x), jax.lax.abs(x)),
    integer_power=lambda jax, x: jax.lax.integer_pow(x, 3),
    square=lambda jax, x: jax.lax.square(x),
    is_finite=lambda jax, x: jax.lax.is_finite(x),
    to_integer=lambda jax, x: jax.lax.convert_element_type(x, np.int32),
    to_half=lambda jax, x: jax.lax.convert_element_type(x, "bfloat16"),
    bits=lambda jax, x: jax.lax.bitcast_convert_type(x, np.int32),
    less_exact=lambda jax, x: jax.lax.reduce_precision(x, 5, 10),
    clamps=lambda jax, x: jax.lax.clamp(0.0, x, 1.0),
    broadcasts=lambda jax, x: jax.lax.broadcast(x, (2,)),
    broadcasts_in_dim=lambda jax, x: jax.lax.broadcast_in_dim(x, (3, 4), (0,)),
    fills=lambda jax, x: jax.lax.full_like(x, 7.0),
    counts=lambda jax, x: jax.lax.iota(np.int32, 5),
    counts_along=lambda jax, x: jax.lax.broadcasted_iota(np.float32, (2, 3), 1),
    reverses=lambda jax, x: jax.lax.rev(x, (0,)),
    pads=lambda jax, x: jax.lax.pad(x, 0.0, [(1, 2, 1)]),
    slices=lambda jax, x: jax.lax.slice(x, (1,), (3,)),
    slices_with_stride=lambda jax, x: jax.lax.slice(x, (0,), (3,), (2,)),
    dynamic_slices=lambda jax, x: jax.lax.dynamic_slice(x, (1,), (2,)),
    updates=lambda jax, x: jax.lax.dynamic_update_slice(x, x[:1], (1,)),
    sorts=lambda jax, x: jax.lax.sort(x),
    top_two=lambda jax, x: jax.lax.top_k(x, 2),
    running=lambda jax, x: (jax.lax.cumsum(x), jax.lax.cumprod(x), jax.lax.cummax(x, reverse=True)),
    where_is_largest=lambda jax, x: jax.lax.argmax(x, 0, np.int32),
    stops=lambda jax, x: jax.lax.stop_gradient(x) * x,
    barrier=lambda jax, x: jax.lax.optimization_barrier((x, x + 1)),
    python_scalars=lambda jax, x: x + 1 + 2.5,
    numpy_constant=lambda jax, x: x + np.float32(3),
    array_constant=lambda jax, x: x + np.array([1, 2, 3], np.float32),
    numpy_functions=lambda jax, x: jax.numpy.exp(jax.numpy.sin(x)),
    numpy_mean=lambda jax, x: jax.numpy.mean(x),
    numpy_var=lambda jax, x: x.max() - x.min(),
    numpy_clip=lambda jax, x: jax.numpy.clip(x, 0.5, 0.75),
    numpy_cumsum=lambda jax, x: jax.numpy.cumsum(x),
    numpy_sort=lambda jax, x: jax.numpy.sort(x),
    numpy_argmax=lambda jax, x: jax.numpy.argmax(x),
    numpy_linspace=lambda jax, x: x + jax.numpy.arange(3),
    numpy_zeros=lambda jax, x: x + jax.numpy.zeros(3),
    numpy_tile=lambda jax, x: jax.numpy.reshape(x, (1, 3)),
    numpy_expand=lambda jax, x: jax.numpy.expand_dims(x, 0),
    numpy_squeeze=lambda jax, x: jax.numpy.squeeze(x[None]),
    index_one=lambda jax, x: x[1],
    index_last=lambda jax, x: x[-1],
    index_slice=lambda jax, x: x[1:],
    index_step=lambda jax, x: x[::2],
    index_reversed=lambda jax, x: x[::-1],
    index_array=lambda jax, x: x[np.array([0, 2])],
    at_set=lambda jax, x: x.at[1].set(5.0),
    at_add=lambda jax, x: x.at[np.array([0, 0, 2])].add(1.0),
    gradient=lambda jax, x: jax.grad(lambda x: jax.lax.reduce_sum(jax.lax.sin(x) * x, (0,)))(x),
    value_and_gradient=lambda jax, x: jax.value_and_grad(lambda x: jax.numpy.sum(x**2))(x),
    forward=lambda jax, x: jax.jvp(lambda x: jax.lax.sin(x) * 2.0, (x,), (x,)),
    second_derivative=lambda jax, x: jax.vmap(jax.grad(jax.grad(jax.lax.sin)))(x),
    batched=lambda jax, x: jax.vmap(lambda a: a * 2.0 + 1.0)(x),
    mapped_dot=lambda jax, x: jax.vmap(lambda a: a * x)(x),
    add_one=lambda jax, x: x + 1.0,
)  # fmt: skip
each(
    M,
    transposes=lambda jax, m: jax.lax.transpose(m, (1, 0)),
    reshapes=lambda jax, m: jax.lax.reshape(m, (2, 6)),
    reshapes_permuted=lambda jax, m: jax.lax.reshape(m, (12,), (1, 0)),
    sums=lambda jax, m: jax.lax.reduce_sum(m, (0,)),
    reductions=lambda jax, m: (jax.lax.reduce_max(m, (1,)), jax.lax.reduce_prod(m, (0, 1)), jax.lax.reduce_min(m, (0,))),
    squeezes=lambda jax, m: jax.lax.squeeze(jax.lax.slice(m, (0, 0), (1, 4)), (0,)),
    expands=lambda jax, m: jax.lax.expand_dims(m, (0, 2)),
    gram=lambda jax, m: jax.lax.dot_general(m, m, (((1,), (1,)), ((), ()))),
    batch_dot=lambda jax, m: jax.lax.dot_general(m, m, (((1,), (1,)), ((0,), (0,)))),
    preferred=lambda jax, m: jax.lax.dot(m.T, m, preferred_element_type=np.float32),
    highest_precision=lambda jax, m: jax.lax.dot(m.T, m, precision="highest"),
    numpy_sum_axis=lambda jax, m: jax.numpy.sum(m, axis=1, keepdims=True),
    numpy_transpose=lambda jax, m: m.T @ m,
    numpy_ravel=lambda jax, m: m.ravel(),
    numpy_swapaxes=lambda jax, m: jax.numpy.swapaxes(m, 0, 1),
    numpy_norm=lambda jax, m: jax.numpy.sqrt((m * m).sum(-1)),
    softmax_by_hand=lambda jax, m: jax.lax.exp(m - jax.lax.reduce_max(m, (1,))[:, None]),
    mixed_index=lambda jax, m: m[1, 1:3],
    new_axis=lambda jax, m: m[None, :, 0],
    split_in_two=lambda jax, m: jax.lax.split(m, (1, 3), 1),
    windows=lambda jax, m: jax.lax.reduce_window(m, 0.0, jax.lax.add, (2, 2), (1, 1), "VALID"),
    gathers_rows=lambda jax, m: jax.lax.dynamic_index_in_dim(m, 1, 0, keepdims=False),
    batched_reduction=lambda jax, m: jax.vmap(lambda row: jax.lax.reduce_sum(row, (0,)))(m),
    batched_on_axis_one=lambda jax, m: jax.vmap(jax.lax.sin, in_axes=1, out_axes=1)(m),
    jacobian_forward=lambda jax, m: jax.jvp(lambda m: m @ m.T, (m,), (m,))[1],
    transform_pair=lambda jax, m: jax.lax.fft(jax.lax.complex(m, m), "fft", (4,)),
)  # fmt: skip
each(
    K,
    integer_arithmetic=lambda jax, k: k * 2 + 1,
    integer_division=lambda jax, k: jax.lax.div(k, 2),
    bit_operations=lambda jax, k: (
        jax.lax.bitwise_and(k, 3),
        jax.lax.bitwise_xor(k, k),
        jax.lax.bitwise_not(k),
    ),
    shifts=lambda jax, k: (jax.lax.shift_left(k, 1), jax.lax.shift_right_logical(k, 1)),
    count_bits=lambda jax, k: (jax.lax.population_count(k), jax.lax.clz(k)),
    integer_to_float=lambda jax, k: k.astype(np.float32) / 2,
    integer_true_division=lambda jax, k: k / 2,
)
each(
    B,
    negates_booleans=lambda jax, b: ~b,
    any_and_all=lambda jax, b: (jax.numpy.any(b), jax.numpy.all(b)),
    selects_among_three=lambda jax, b: jax.lax.select_n(b.astype(np.int32), b, ~b),
)


@program(X)
def named_scopes(jax, x):
    with jax.named_scope("outer"):
        return jax.lax.sin(x)


@program(X)
def nested_calls(jax, x):
    @jax.jit
    def user_inner(x):
        return jax.lax.sin(x)

    @jax.jit
    def user_outer(x):
        return user_inner(x) + 1.0

    return user_outer(x)


@program(X)
def one_function_twice(jax, x):
    @jax.jit
    def user_layer(x):
        return jax.lax.tanh(x) * 0.5

    return user_layer(user_layer(x))


@program(X)
def inlined_call(jax, x):
    @jax.jit
    def user_first(x):
        return x * 2.0

    return user_first(x) + user_first(x * 3.0)


@program(X, 2.0)
def scalar_argument(jax, x, s):
    return x * s


@program(np.float32(1), X)
def scans(jax, carry, xs):
    return jax.lax.scan(lambda c, x: (c + x, c * x), carry, xs)


@program(np.float32(1), X, X)
def scans_with_constants(jax, carry, xs, w):
    return jax.lax.scan(lambda c, x: (c * w.sum() + x, ()), carry, xs, reverse=True)


@program(np.float32(1))
def scans_a_length(jax, carry):
    return jax.lax.scan(lambda c, _: (c * 2.0, c), carry, None, length=4)


@program(np.float32(0))
def loops_while(jax, x):
    return jax.lax.while_loop(lambda c: c < 10.0, lambda c: c + 1.0, x)


@program(np.float32(0), X)
def loops_while_with_constants(jax, x, limits):
    return jax.lax.while_loop(lambda c: c < limits[0], lambda c: c + limits[1], x)


@program(np.float32(0))
def loops_for(jax, x):
    return jax.lax.fori_loop(0, 5, lambda i, c: c + i, x)


@program(np.float32(0), 4)
def loops_for_a_traced_count(jax, x, n):
    return jax.lax.fori_loop(0, n, lambda i, c: c + i, x)


@program(True, X)
def branches(jax, flag, x):
    return jax.lax.cond(flag, lambda x: jax.lax.sin(x), lambda x: x + 1.0, x)


@program(1, X)
def switches(jax, index, x):
    return jax.lax.switch(index, [lambda x: x, lambda x: x * 2.0, lambda x: -x], x)


@program(True, X, Y)
def branches_with_constants(jax, flag, x, y):
    return jax.lax.cond(flag, lambda: x, lambda: y * 2.0)


@program(X)
def maps(jax, x):
    return jax.lax.map(lambda a: a * 2.0, x)


@program(np.float32(2))
def custom_forward(jax, x):
    @jax.custom_jvp
    def user_f(x):
        return jax.lax.sin(x)

    user_f.defjvp(lambda primals, tangents: (user_f(*primals), tangents[0]))
    return user_f(x) + 1.0


@program(np.float32(2))
def gradient_of_custom_reverse(jax, x):
    @jax.custom_vjp
    def user_f(x):
        return jax.lax.sin(x)

    user_f.defvjp(lambda x: (user_f(x), x), lambda x, ct: (ct * x,))
    return jax.grad(user_f)(x)


@program(np.float32(2))
def rematerialized(jax, x):
    return jax.checkpoint(lambda x: jax.lax.sin(jax.lax.sin(x)))(x)


@program(np.float32(1), X)
def gradient_of_a_scan(jax, carry, xs):
    return jax.grad(lambda c: jax.lax.scan(lambda c, x: (jax.lax.sin(c) * x, ()), c, xs)[0])(carry)


@program(np.float32(1), M)
def batched_scan(jax, carry, rows):
    return jax.vmap(lambda xs: jax.lax.scan(lambda c, x: (c + x, ()), carry, xs)[0])(rows)


@program(B, X)
def batched_branch(jax, flags, xs):
    return jax.vmap(lambda b, x: jax.lax.cond(b, lambda x: x, lambda x: -x, x))(flags, xs)


@program(X)
def gradient_through_a_call(jax, x):
    @jax.jit
    def user_loss(x):
        return jax.lax.reduce_sum(jax.lax.sin(x), (0,))

    return jax.grad(user_loss)(x)


@program({"w": M, "b": N[0, :4]}, X)
def dense_layer(jax, params, x):
    return jax.numpy.tanh(x @ params["w"] + params["b"])


@program(f32(1, 2, 5, 5), f32(3, 2, 3, 3))
def convolution(jax, x, kernel):
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


@program(M, i32(2, 1))
def gathers(jax, m, indices):
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return jax.lax.gather(m, indices, numbers, (1, 4))


@program(X, i32(2, 1), f32(2))
def scatters(jax, x, indices, updates):
    numbers = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    return jax.lax.scatter_add(x, indices, updates, numbers)


def of_device(jax, value):
    """A scalar array that was made before the program was traced."""
    with jax.ensure_compile_time_eval():
        return jax.numpy.float32(value)


@program(X)
def scalars_of_devices(jax, x):
    a, b = of_device(jax, 2), of_device(jax, 3)
    return x * a + a, jax.lax.sin(b), b


@program(X)
def scalars_of_numpy(jax, x):
    return (
        x * np.float32(2),
        x + np.array(3, np.float32),
        x - np.float64(4),
        x * np.int32(2),
        x + True,
    )


@program(X)
def scalars_made_while_tracing(jax, x):
    a, b = jax.numpy.array(2, np.float32), jax.numpy.zeros((), np.float32)
    return x * a, x + b, x - jax.numpy.asarray(np.float32(3)), jax.numpy.full_like(x[0], 4) * x, a


@program(f32())
def bodies_that_close_over_scalars(jax, x):
    local, device = jax.numpy.float32(2), of_device(jax, 3)

    def body(carry, _):
        return carry * local + device, None

    y, _ = jax.lax.scan(body, x, None, 2)
    y = jax.lax.while_loop(lambda c: c < device, lambda c: c + local, y)
    y = jax.lax.cond(y > 0, lambda y: y * local, lambda y: y - 1, y)
    return jax.vmap(lambda v: v * local + device)(jax.numpy.stack([y, y]))


@program(f32())
def gradient_with_a_scalar_of_a_device(jax, x):
    scale = of_device(jax, 3)
    return jax.grad(lambda x: jax.lax.sin(x) * scale)(x), jax.jvp(lambda x: x * scale, (x,), (x,))


def text_of(jax, name):
    """The text of a program's jaxpr, without calls of the library's own functions."""
    function, args = PROGRAMS[name]
    closed = jax.make_jaxpr(lambda *given: function(jax, *given))(*args)
    if not hasattr(jax, "extend"):
        import jax.extend.core
    core = jax.extend.core
    text = str(core.ClosedJaxpr(plain(core, closed.jaxpr, {}), closed.consts))
    return re.sub(r"np\.int64\((\d+)\)", r"\1", text)


def plain(core, jaxpr, known):
    """The program with the reference's calls of its own jitted functions put in place, here and inside.

    Conversions of Python numbers are done, as pellucid does them while it traces. `known` has the programs that
    were seen: one that is called twice stays one.
    """
    if jaxpr not in known:
        known[jaxpr] = _plain(core, jaxpr, known)
    return known[jaxpr]


def _plain(core, jaxpr, known):
    places = {}

    def read(atom):
        return atom if isinstance(atom, core.Literal) else places.get(atom, atom)

    def inner(value):
        if isinstance(value, core.ClosedJaxpr):
            return core.ClosedJaxpr(plain(core, value.jaxpr, known), value.consts)
        if isinstance(value, core.Jaxpr):
            return plain(core, value, known)
        if type(value) is tuple:
            return tuple(inner(item) for item in value)
        return value

    def visit(equations):
        for equation in equations:
            operands = [read(a) for a in equation.invars]
            name = equation.params.get("name")
            if equation.primitive.name == "jit" and not str(name).startswith("user_"):
                body = equation.params["jaxpr"]
                assert not body.consts
                fresh = dict(zip(body.jaxpr.invars, operands))
                copies = []
                for e in body.jaxpr.eqns:
                    ins = [a if isinstance(a, core.Literal) else fresh[a] for a in e.invars]
                    outs = [
                        v if isinstance(v, core.DropVar) else core.Var(v.aval) for v in e.outvars
                    ]
                    fresh.update(zip(e.outvars, outs))
                    copies.append(e.replace(invars=ins, outvars=outs))
                yield from visit(copies)
                for var, atom in zip(equation.outvars, body.jaxpr.outvars):
                    places[var] = read(atom if isinstance(atom, core.Literal) else fresh[atom])
            elif equation.primitive.name == "convert_element_type" and isinstance(
                operands[0], core.Literal
            ):
                [var] = equation.outvars
                places[var] = core.Literal(np.asarray(operands[0].val, var.aval.dtype), var.aval)
            else:
                params = {key: inner(value) for key, value in equation.params.items()}
                yield equation.replace(invars=operands, params=params)

    equations = list(visit(jaxpr.eqns))
    return jaxpr.replace(eqns=equations, outvars=[read(a) for a in jaxpr.outvars])
