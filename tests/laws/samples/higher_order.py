"""Rows for primitives whose params hold programs."""

from tests.laws.sample import Sample, array, values

VECTOR, MATRIX, SCALAR = array((3,)), array((4, 3)), array(())
STEP = "lambda c, a: (lax.sin(lax.add(lax.mul(c, a), y)), lax.mul(c, a))"


def row(call, *operands, jax_name=None, **more):
    """A row of a function that the reference has under another name: `jax_name` stands for `lax.<function>(`."""
    if jax_name is not None:
        own_name = jax_name.rpartition(".")[2]
        more["jax_call"] = call.replace(f"lax.{own_name}(", f"{jax_name}(")
    return Sample(call, operands, same_text=False, **more)


samples = [
    row(f"lax.scan({STEP}, x, z)", VECTOR, VECTOR, MATRIX),
    row(f"lax.scan({STEP}, x, z, reverse=True, unroll=2)", VECTOR, VECTOR, MATRIX, agrees="close"),
    row("lax.scan(lambda c, _: (lax.mul(lax.sin(c), x), None), y, None, length=3)[0]", VECTOR, VECTOR),
    row("lax.fori_loop(0, 3, lambda i, c: lax.add(lax.sin(c), x), y)", VECTOR, VECTOR),
    row("lax.map(lambda a: lax.mul(lax.sin(a), x), y)", VECTOR, MATRIX),
    row(
        "lax.while_loop(lambda v: lax.lt(v[0], y), lambda v: (lax.add(v[0], np.int32(1)), lax.mul(lax.sin(v[1]), z)), (np.int32(0), x))[1]",
        VECTOR, values(4, "int32"), VECTOR, has_reverse=False,
    ),
    row("lax.cond(lax.lt(x, 0.5), lax.sin, lambda a: lax.mul(a, a), y)", SCALAR, VECTOR, wrt=(1,)),
    row("lax.switch(x, [lax.sin, lambda a: lax.mul(a, y), lax.neg], z)", values(1, "int32"), VECTOR, VECTOR),
    row("lax.platform_dependent(x, cpu=lax.sin, default=lax.cos)", VECTOR),
    row("lax.checkpoint(lambda a: lax.mul(lax.sin(a), y))(x)", VECTOR, VECTOR, jax_name="jax.checkpoint"),
    row("lax.checkpoint_name(lax.sin(x), 'kept')", VECTOR, jax_name="__import__('jax.ad_checkpoint').ad_checkpoint.checkpoint_name"),
    row(
        "(lambda f: (f.defjvps(lambda t, out, a: lax.mul(t, lax.cos(a))), f(x))[1])(lax.custom_jvp(lax.sin))",
        VECTOR, jax_name="jax.custom_jvp",
    ),
    row(
        "(lambda f: (f.defvjp(lambda a: (lax.sin(a), lax.cos(a)), lambda c, ct: (lax.mul(c, ct),)), f(x))[1])"
        "(lax.custom_vjp(lax.sin))",
        VECTOR, jax_name="jax.custom_vjp", wrt=(),
    ),
    row(
        "lax.custom_linear_solve(lambda v: lax.mul(x, v), y, lambda f, b: lax.div(b, x), lambda f, b: lax.div(b, x))",
        array((3,), low=1.0), VECTOR,
    ),
    row("lax.composite(lambda a: lax.mul(lax.sin(a), a), 'example.wave')(x)", VECTOR, wrt=()),
    row("lax.sequential_vmap(lambda a: lax.mul(lax.sin(a), a))(x)", VECTOR, agrees="no"),
    row(
        "lax.linear_call(lambda r, a: lax.mul(r, a), lambda r, ct: lax.mul(r, ct), x, y)",
        VECTOR, VECTOR, jax_name="jax.custom_derivatives.linear_call", wrt=(1,),
    ),
    row(
        "lax.reduce((x, y), (0.0, 1.0), lambda a, b: (lax.add(a[0], b[0]), lax.mul(a[1], b[1])), (1,))",
        MATRIX, MATRIX,
    ),
    row(
        "lax.reduce_window(x, -9.0, lambda a, b: lax.select(lax.gt(a, b), a, b), (2, 2), (1, 1), 'VALID')",
        MATRIX, wrt=(),
    ),
    row(
        "lax.scatter_apply(x, np.array([[0], [2]]), lax.sin, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(2,))",
        VECTOR, wrt=(),
    ),
]  # fmt: skip
