"""What types and structs tell of where values lie, as plain data; each program takes the array library first.

`PROGRAMS` lists them.
"""

import numpy as np

from corpus.transform_programs import submodule

X = np.ones((8, 4), np.float32)


def _mesh(jax):
    explicit = (jax.sharding.AxisType.Explicit,) * 2
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=explicit)


def _told(jax, x):
    sharding = jax.typeof(x).sharding
    return [str(axis) for axis in sharding.mesh.axis_names], str(sharding.spec)


def without_a_mesh(jax):
    inside = []
    jax.jit(lambda x: inside.append((_told(jax, x), _told(jax, x.sum()))))(X)
    return _told(jax, X), _told(jax, 1.0), _told(jax, jax.numpy.ones((2, 3))), inside


def over_the_current_mesh(jax):
    mesh, inside = _mesh(jax), []
    with jax.set_mesh(mesh):
        x = jax.device_put(X, jax.P("x"))
        jax.jit(lambda x: inside.append((_told(jax, x), _told(jax, x.sum()))))(x)
        return _told(jax, x), _told(jax, jax.numpy.ones((2, 3))), inside


def inside_shard_map(jax):
    found = []

    def body(x):
        kind = jax.typeof(x).manual_axis_type
        found.append((_told(jax, x), sorted(kind.varying), sorted(kind.unreduced)))
        return x

    with jax.set_mesh(_mesh(jax)):
        jax.jit(jax.shard_map(body, in_specs=jax.P("x"), out_specs=jax.P("x")))(
            jax.device_put(X, jax.P("x"))
        )
    return found


def results_laid_out_alike(jax):
    """Whatever a type tells can be asked for."""
    jnp = jax.numpy

    def made(*examples):
        told = [jax.typeof(x).sharding for x in examples]
        return [
            str(jax.typeof(y).sharding.spec)
            for asked in told
            for y in (
                jnp.zeros((8, 8), out_sharding=asked),
                jnp.einsum("ij,kj->ik", X, X, out_sharding=asked),
                jnp.ones((8, 4)).at[0].get(out_sharding=told[0].update(spec=jax.P(None))),
            )
        ]

    unplaced = made(jnp.ones((8, 4)), X)
    with jax.set_mesh(_mesh(jax)):
        return unplaced, made(jnp.ones((8, 4)), jnp.zeros((8, 4), out_sharding=jax.P("x")))


def made_types(jax):
    aval = submodule(jax, "core").ShapedArray
    rows = jax.NamedSharding(_mesh(jax), jax.P("x"))
    placed = aval(
        (8, 4), np.dtype("float32"), sharding=jax.NamedSharding(rows.mesh.abstract_mesh, jax.P("x"))
    )
    return (
        placed == aval((8, 4), np.dtype("float32")).update(sharding=placed.sharding),
        jax.typeof(jax.device_put(X, rows)) == placed,
        jax.typeof(X) == aval((8, 4), np.dtype("float32")),
    )


def texts(jax):
    """A type as `print` and as a notebook show it, and shortly."""
    types = [
        jax.typeof(X),
        jax.typeof(1.0),
        jax.typeof(True),
        jax.typeof(jax.device_put(X, jax.NamedSharding(_mesh(jax), jax.P("x", "y")))),
        jax.typeof(jax.new_ref(X)),
        submodule(jax, "core").ShapedArray((3,), submodule(jax, "dtypes").float0),
    ]
    return [(str(t), repr(t), t.str_short(), t.str_short(short_dtypes=True)) for t in types]


def some_axes_left_to_the_compiler(jax):
    with jax.set_mesh(_mesh(jax)):
        rows, columns = (jax.sharding.reshard(X, spec) for spec in (jax.P("x"), jax.P(None, "x")))
        add = jax.sharding.auto_axes(lambda a, b: a + b, axes="x", out_sharding=jax.P("x"))
        return [_told(jax, f(rows, columns)) for f in (add, jax.jit(add))]


def a_type_that_does_not_fit(jax):
    mesh = _mesh(jax).abstract_mesh
    return submodule(jax, "core").ShapedArray((3,), np.dtype("float32"), sharding=jax.NamedSharding(mesh, jax.P("x")))  # fmt: skip


def structs(jax):
    struct = jax.ShapeDtypeStruct
    rows = jax.NamedSharding(_mesh(jax), jax.P("x"))
    kind = jax.sharding.ManualAxisType(varying={"x"})
    plain = struct((3,), np.dtype("float32"))
    likes = [struct.like(x) for x in (X, 1.0, plain, jax.numpy.ones(3), jax.device_put(X, rows))]
    return (
        [(x.shape, str(x.dtype), x.weak_type, str(getattr(x.sharding, "spec", None))) for x in likes],
        [str(struct((3,), np.dtype("float32"), **more)) for more in ({}, {"is_ref": True}, {"weak_type": True}, {"manual_axis_type": kind})],
        plain == struct((3,), np.dtype("float32"), manual_axis_type=kind),
        hash(plain) == hash(struct((3,), np.dtype("float32"))),
        str(jax.make_jaxpr(lambda ref: ref[...])(struct((3,), np.dtype("float32"), is_ref=True))),
        str(plain.format),
        str(plain.update(shape=(4,))),
        [plain.is_ref, plain.manual_axis_type, struct((), np.dtype("int8"), is_ref=True).is_ref],
    )  # fmt: skip


def a_struct_of_another_kind(jax):
    return jax.ShapeDtypeStruct((3,), np.dtype("float32"), manual_axis_type={"x"})


def an_asked_for_place_of_a_traced_array(jax):
    return jax.jit(lambda x: x.sharding)(X)


PROGRAMS = [
    without_a_mesh, over_the_current_mesh, inside_shard_map, results_laid_out_alike, made_types, texts,
    some_axes_left_to_the_compiler,
    a_type_that_does_not_fit, structs, a_struct_of_another_kind, an_asked_for_place_of_a_traced_array,
]  # fmt: skip

FAILING = {
    a_type_that_does_not_fit,
    a_struct_of_another_kind,
    an_asked_for_place_of_a_traced_array,
}
"""Programs that are mistakes."""
