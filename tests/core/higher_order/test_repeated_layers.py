"""Layers that a Python loop makes become calls of one program, and nothing else changes."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base import config
from pellucid._machine.higher_order.repeated_layers import with_layer_calls
from pellucid._machine.transforms.linearize import MIN_LAYERED_EQUATIONS

N = 6
RNG = np.random.default_rng(0)
PARAMS = [
    {k: (RNG.normal(size=(8, 8)) / 3).astype(np.float32) for k in ("q", "k", "v", "up")}
    for _ in range(N)
]
X = RNG.normal(size=(5, 8)).astype(np.float32)


def block(p, x):
    scores = (x @ p["q"]) @ (x @ p["k"]).T / 3.0
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    x = x + (weights / weights.sum(axis=-1, keepdims=True)) @ (x @ p["v"])
    return x + jnp.tanh(x @ p["up"]) * 0.5


def stack(params, x):
    for p in params:
        x = block(p, x)
    return x


def loss(params, x):
    return (stack(params, x) ** 2).sum()


def inline_loss(params, x):
    for p in params:
        x = jnp.tanh(x @ p["q"]) + jnp.sin(x @ p["k"]) * jnp.cos(x @ p["v"])
        x = x / jnp.sqrt((x * x).sum(axis=-1, keepdims=True) + 1.0)
    return x.sum()


def scoped_loss(params, x):
    for i, p in enumerate(params):
        with pl.named_scope(f"layer{i}"):
            x = block(p, x)
    return x.sum()


def with_aux(params, x):
    seen = []
    for p in params:
        x = block(p, x)
        seen.append(x.mean())
    return x.sum(), seen


def leaking(params, x):
    """A value that doesn't depend on what is differentiated by leaves by another way than the results."""
    scales = []

    def inner(ps):
        y = x
        scales.append(jnp.sin(x).sum())
        for p in ps:
            y = block(p, y)
        return y.sum()

    gradient = pl.grad(inner)(params)
    return pl.tree.map(lambda g: g * scales[0], gradient)


def dropped(params, x):
    keys = pl.random.split(pl.random.key(0), N)
    for key, p in zip(keys, params, strict=True):
        x = jnp.where(pl.random.bernoulli(key, 0.9, x.shape), block(p, x), 0.0)
    return x.sum()


def numbered_loss(params, x):
    """Layers that differ in numbers."""
    for i, p in enumerate(params):
        x = block(p, x) * (1.0 - i / 10) + 0.5
    return x.sum()


def example_loss(params, x):
    return loss(params, x[None])


def shared_loss(params, x):
    """Layers that exchange values with those of the other examples."""
    for p in params:
        x = block(p, x[None])[0] / lax.pmax(jnp.abs(x).max(), "examples")
    return x.sum()


@pl.custom_jvp
def bent(x):
    return jnp.tanh(x)


@bent.defjvp
def _(primals, tangents):
    return bent(*primals), tangents[0] * 2.0


@functools.partial(pl.custom_vjp, nondiff_argnums=(0,))
def scaled(factor, x):
    return factor * jnp.sin(x)


scaled.defvjp(lambda factor, x: (scaled(factor, x), x), lambda factor, x, ct: (ct * x * factor,))


def redefined(x):
    """A function with its own derivative that each layer defines anew."""

    @pl.custom_vjp
    def function(x):
        return jnp.cos(x)

    function.defvjp(lambda x: (function(x), x), lambda x, ct: (3.0 * ct * x,))
    return function(x)


def capturing(x):
    """The same, of a value of each layer."""
    scale = x.sum()

    @pl.custom_jvp
    def function(y):
        return jnp.cos(y)

    function.defjvp(
        lambda primals, tangents: (function(*primals), tangents[0] * lax.stop_gradient(scale))
    )
    return function(lax.stop_gradient(x) + 1.0) + x


DEFINED_IN_LAYER = "custom_vjp defined in the layer"
"""Its derivatives are other functions in each layer: the layers are equal once nothing is left to differentiate."""
ACTIVATIONS = {
    "relu": pl.nn.relu,
    "softmax": pl.nn.softmax,
    "custom_jvp": bent,
    "custom_jvp of a batch": pl.vmap(bent),
    "custom_vjp": functools.partial(scaled, 0.5),
    "custom_vjp of a custom_jvp": lambda x: scaled(2.0, bent(x)),
    DEFINED_IN_LAYER: redefined,
    "checkpoint": lambda x: pl.checkpoint(lambda x: jnp.sin(jnp.cos(x)))(x),
}


def activated_loss(activation):
    def loss(params, x):
        for p in params:
            x = block(p, x) + activation(x @ p["up"])
        return (x**2).sum()

    return loss


def two_stacks(params, x):
    """An encoder, and a decoder with fewer layers."""
    for p in params:
        x = block(p, x)
    memory = x
    for p in params[:4]:
        x = block(p, jnp.sin(x @ p["up"]) * jnp.cos(x)) + memory @ p["q"]
    return (x**2).sum()


def calls(jaxpr):
    """How many calls of programs of each name there are."""
    return Counter(e.params.name for e in jaxpr.equations if e.primitive.name == "jit")


PROGRAMS = {
    "block": pl.value_and_grad(loss),
    "inline": pl.value_and_grad(inline_loss),
    "scopes": pl.value_and_grad(scoped_loss),
    "auxiliary values": pl.value_and_grad(with_aux, has_aux=True),
    "leaking": leaking,
    "keys": pl.grad(dropped),
    "numbers": pl.value_and_grad(numbered_loss),
    "vmap within": pl.grad(lambda p, xs: pl.vmap(lambda x: loss(p, x[None]))(xs).sum()),
    "forward": stack,
    "jitted loss": pl.grad(pl.jit(loss)),
    "hessian-vector product": lambda p, x: pl.jvp(pl.grad(loss), (p, x), (p, x)),
    "gradient of a gradient": pl.grad(
        lambda p, x: sum((g**2).sum() for g in pl.tree.leaves(pl.grad(loss)(p, x)))
    ),
    "per example": lambda p, x: pl.vmap(pl.value_and_grad(example_loss), in_axes=(None, 0))(p, x),
    "per example of two axes": lambda p, x: pl.vmap(
        lambda p: pl.vmap(pl.grad(example_loss), in_axes=(None, 0))(p, x)
    )(pl.tree.map(lambda a: jnp.stack([a, 2 * a]), p)),
    "exchanges between examples": lambda p, x: pl.vmap(
        pl.grad(shared_loss), in_axes=(None, 0), axis_name="examples"
    )(p, x),
    "two stacks": pl.value_and_grad(two_stacks),
    "capturing": pl.grad(activated_loss(capturing)),
    "activations": pl.grad(activated_loss(lambda x: sum(f(x) for f in ACTIVATIONS.values()))),
    "per example of relu": lambda p, x: pl.grad(
        lambda p: pl.vmap(lambda x: activated_loss(pl.nn.relu)(p, x[None]))(x).sum()
    )(p),
    "vjp": lambda p, x: pl.vjp(stack, p, x)[1](x),
    "linearize": lambda p, x: pl.linearize(stack, p, x)[1](p, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_flat_program(name):
    function = PROGRAMS[name]
    results = []
    for is_on in (True, False):
        with config.call_repeated_layers(is_on):
            results.append(pl.jit(lambda p, x: function(p, x))(PARAMS, X))
    for ours, flat in zip(*map(pl.tree.leaves, results), strict=True):
        atol = 2e-5 + 1e-6 * np.abs(flat).max()
        np.testing.assert_allclose(ours, flat, rtol=2e-4, atol=atol)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("block", "block"),
        ("inline", "inline_loss_layer"),
        ("scopes", "block"),
        ("keys", "dropped_layer"),
        ("per example", "block"),
        ("per example of two axes", "block"),
        ("exchanges between examples", "shared_loss_layer"),
        ("hessian-vector product", "block"),
        ("two stacks", "block"),
        ("per example of relu", "loss_layer"),
        *((name, "loss_layer") for name in ACTIVATIONS if name != DEFINED_IN_LAYER),
    ],
)
def test_layers_are_calls_before_they_are_differentiated(name, expected):
    function = PROGRAMS.get(name) or pl.grad(activated_loss(ACTIVATIONS[name]))
    program = pl.jit(function).trace(PARAMS, X).jaxpr.jaxpr
    assert calls(program)[expected] == 2 * N  # forwards and backwards


def test_both_stacks_of_a_program_are_calls():
    program = pl.jit(PROGRAMS["two stacks"]).trace(PARAMS, X).jaxpr.jaxpr
    assert calls(program) == {"block": 2 * N, "two_stacks_layer": 2 * 4}


def test_layers_of_a_gradient_of_a_gradient_are_calls():
    program = pl.jit(PROGRAMS["gradient of a gradient"]).trace(PARAMS, X).jaxpr.jaxpr
    assert calls(program)["block"] == 4 * N
    assert len(program.equations) < 100


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_leave_forward_layers_equal(name):
    loss = activated_loss(ACTIVATIONS[name])
    text = pl.jit(lambda p, x: loss(p, x)).lower(PARAMS, X).as_text()
    assert text.count("call @loss_layer") == N


def test_rules_of_other_numbers_are_others():
    """Layers whose functions differ in an argument that is not differentiated stay flat."""

    def loss(params, x):
        for i, p in enumerate(params):
            x = scaled(1.0 + i, block(p, x))
        return x.sum()

    assert calls(pl.jit(pl.grad(loss)).trace(PARAMS, X).jaxpr.jaxpr)["loss_layer"] == 0


def test_forward_layers_are_called_when_compiled():
    text = pl.jit(stack).lower(PARAMS, X).as_text()
    assert text.count("call @block") == N
    with config.call_repeated_layers(False):
        assert "call @block" not in pl.jit(lambda p, x: stack(p, x)).lower(PARAMS, X).as_text()


def test_backward_halves_of_small_layers_stay_flat():
    """As calls they would take `1 - x` and `x`, and keep twice as many arrays."""

    def loss(weights, x, rows):
        for w, b in weights:
            x = jnp.tanh(x @ w + b)
        return jnp.sum(jnp.where(rows, x * x, 0))

    weights = [(np.eye(8, dtype=np.float32), np.ones(8, np.float32))] * 6
    with pl.masked_gradients():
        lowered = pl.jit(pl.grad(loss)).lower(weights, X[:, :8], X[:, :1] > 0)
    assert "call @loss_layer" not in lowered.as_text()


def of_rows(params, x):
    for p in params:
        x = (
            x
            + jnp.tanh(x @ p["q"]) * jnp.sin(x @ p["k"])
            + jnp.cos(x @ p["v"]) / jnp.sqrt(1 + x * x)
        )
        x = x * jnp.exp(-(x**2)) + jnp.log1p(x * x) * jnp.sinh(x @ p["up"]) / jnp.cosh(x)
    return (x**2).sum()


def test_layers_of_partitioned_programs_send_their_gradients_as_one_message():
    """Calls keep XLA from adding up what several layers send: one message for each layer, and one more."""
    mesh = pl.make_mesh((8,), ("data",), axis_types=(pl.sharding.AxisType.Auto,))
    rows = np.tile(X[:1], (16, 1))
    placed = pl.device_put(rows, pl.NamedSharding(mesh, pl.P("data")))
    gradient = pl.jit(pl.value_and_grad(of_rows))
    # Traced for one device, its layers are calls; those are inlined where the same program is partitioned.
    assert calls(gradient.trace(PARAMS, rows).jaxpr.jaxpr)["of_rows_layer"] > 0
    lowered = gradient.lower(PARAMS, placed)
    assert "call @" not in lowered.as_text()
    assert lowered.compile().as_text().count(" all-reduce(") == 1


def has_calls(function, *arguments, **options):
    return calls(pl.jit(function, **options).trace(*arguments).jaxpr.jaxpr)["of_rows_layer"] > 0


def test_layers_stay_as_they_are_in_programs_that_are_partitioned():
    """What a called layer computes again would be gathered again: the exchanges are those of a flat program."""
    mesh = pl.make_mesh((2, 4), ("data", "model"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    rows = np.tile(X[:1], (16, 1))
    columns, whole = pl.NamedSharding(mesh, pl.P(None, "model")), pl.NamedSharding(mesh, pl.P())

    def gradient(params, x):
        return pl.grad(of_rows)(params, x)

    def constrained(params, x):
        return pl.grad(lambda p, x: of_rows(p, pl.lax.with_sharding_constraint(x, columns)))(
            params, x
        )

    def of_constrained_layers(params, x):
        def loss(params, x):
            for p in params:
                x = pl.lax.with_sharding_constraint(
                    jnp.tanh(x @ p["q"]) * jnp.sin(x @ p["k"]), columns
                )
                x = x * jnp.exp(-(x**2)) + jnp.log1p(x * x) * jnp.sinh(x @ p["up"]) / jnp.cosh(x)
            return (x**2).sum()

        return pl.grad(loss)(params, x)

    assert has_calls(lambda p, x: pl.grad(of_rows)(p, x), PARAMS, rows)
    assert not has_calls(gradient, pl.device_put(PARAMS, columns), pl.device_put(rows, whole))
    assert not has_calls(lambda p, x: gradient(p, x), PARAMS, rows, in_shardings=(columns, whole))
    assert not has_calls(lambda p, x: gradient(p, x), PARAMS, rows, out_shardings=columns)
    assert not has_calls(constrained, PARAMS, rows)
    assert not calls(pl.jit(of_constrained_layers).trace(PARAMS, rows).jaxpr.jaxpr)["loss_layer"]
    struct = pl.ShapeDtypeStruct(rows.shape, rows.dtype, sharding=whole)
    assert not has_calls(lambda p, x: gradient(p, x), PARAMS, struct)
    with pl.set_mesh(mesh):
        assert not has_calls(lambda p, x: gradient(p, x), PARAMS, rows)


def test_functions_that_programs_over_several_devices_call_are_not_traced_again():
    mesh = pl.make_mesh((8,), ("data",), axis_types=(pl.sharding.AxisType.Auto,))
    rows = np.tile(X[:1], (16, 1))
    traced = []

    @pl.jit
    def inner(params, x):
        traced.append(x.shape)
        return pl.grad(of_rows)(params, x)

    inner(PARAMS, rows)
    outer = pl.jit(lambda p, x: inner(p, x))
    outer(PARAMS, pl.device_put(rows, pl.NamedSharding(mesh, pl.P("data"))))
    inner(PARAMS, pl.device_put(rows, pl.NamedSharding(mesh, pl.P("data"))))
    assert traced == [(16, X.shape[1])]


def test_the_first_softmax_of_a_kind_is_like_the_next_ones():
    program = pl.make_jaxpr(lambda x: pl.nn.softmax(pl.nn.softmax(x, 1), 1))(np.ones((3, 4, 5)))
    first, second = (dict(e.params) for e in program.eqns if e.primitive.name == "custom_jvp_call")
    assert first.pop("call_jaxpr")
    assert second.pop("call_jaxpr")
    assert first == second


def test_programs_that_are_shown_stay_as_they_are():
    program = pl.make_jaxpr(PROGRAMS["block"])(PARAMS, X)
    assert not calls(program.jaxpr)["block"]


def test_calls_keep_the_scopes_of_their_layers():
    program = pl.jit(PROGRAMS["scopes"]).trace(PARAMS, X).jaxpr.jaxpr
    scopes = [str(e.scope) for e in program.equations if e.primitive.name == "jit"]
    forward = [s for s in scopes if "transpose" not in s][:N]
    assert [s.rpartition("(")[2].rstrip(")") for s in forward] == [f"layer{i}" for i in range(N)]


def test_fewer_layers_and_effects_stay_flat():
    few = pl.jit(pl.grad(loss)).trace(PARAMS[:3], X).jaxpr.jaxpr
    assert not calls(few)["block"]

    def printing(params, x):
        for p in params:
            x = block(p, x)
            pl.debug.print("{}", x.sum())
        return x.sum()

    assert not calls(pl.jit(pl.grad(printing)).trace(PARAMS, X).jaxpr.jaxpr)["printing_layer"]


def test_eager_gradients_are_not_staged():
    def branching(params, x):
        y = stack(params, x).sum()
        return y if y > 0 else -y

    gradient = pl.grad(branching)(PARAMS, X)
    sign = 1.0 if stack(PARAMS, X).sum() > 0 else -1.0
    expected = pl.grad(lambda p: sign * stack(p, X).sum())(PARAMS)
    for ours, other in zip(pl.tree.leaves(gradient), pl.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_with_repeats_compute_the_same(seed):
    """Whole numbers, so that every order of computing gives the same bits."""
    rng = np.random.default_rng(seed)
    n_values = 3
    operations = (lax.add, lax.sub, lax.mul, lax.max, lax.bitwise_xor)
    steps = rng.integers(0, 30, (int(rng.integers(12, 17)), 4)).tolist()
    steps[-1][3] = 0  # what a result needs of each layer
    n_layers = int(rng.integers(4, 8))
    odd_layer = int(rng.integers(-3, n_layers))  # one that is wired differently
    prologue = int(rng.integers(0, 5))

    def function(*inputs):
        values = list(inputs)
        ends = []
        for _ in range(prologue):
            values[0] = values[0] + values[1]
        for i in range(n_layers):
            for op, a, b, out in steps:
                if i == odd_layer:
                    a, b = b, a
                a, b, out = a % n_values, b % n_values, out % n_values
                values[out] = operations[op % 5](values[a], values[b])
            ends.append(values[0])
        return [*values, ends[0], ends[-2]]

    inputs = [np.arange(4, dtype=np.int32) + i for i in range(n_values)]
    jaxpr = pl.make_jaxpr(function)(*inputs).jaxpr
    called = with_layer_calls(jaxpr)
    if odd_layer < 0:
        assert called is not jaxpr
    if called is not jaxpr:
        assert calls(called).total() >= 4
        for ours, flat in zip(evaluated(called, inputs), evaluated(jaxpr, inputs), strict=True):
            np.testing.assert_array_equal(ours, flat)


NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "xor": np.bitwise_xor,
}


def evaluated(jaxpr, inputs):
    """Results of a program of whole numbers, by NumPy."""
    values = dict(zip(jaxpr.invars, inputs, strict=True))
    for e in jaxpr.equations:
        operands = [values[a] for a in e.operands]
        if e.primitive.name == "jit":
            results = evaluated(e.params.jaxpr.jaxpr, operands)
        else:
            results = [NUMPY[e.primitive.name](*operands)]
        values.update(zip(e.results, results, strict=True))
    return [values[a] for a in jaxpr.outvars]


def test_short_programs_are_not_searched():
    program = pl.make_jaxpr(lambda x: x + 1)(1.0).jaxpr
    assert len(program.equations) < MIN_LAYERED_EQUATIONS
    assert with_layer_calls(program) is program


def repeated(x, m, by=jnp):
    """`m` after layers of few operations."""
    for _ in range(20):
        m = by.tanh(m * x) + 0.5 * by.sin(m)
    return m


def scanned(x):
    body = lambda carry, _: ((carry[0], repeated(*carry)), None)
    return lax.scan(body, (x, jnp.ones(3)), length=2)[0][1]


def branched(x):
    inner = lambda x: lax.cond(x.sum() > 0, repeated, lambda _, m: m, x, jnp.ones(3))
    return lax.cond(x.sum() > 0, lambda x: (inner(x), x)[0], jnp.ones_like, x)


@pytest.mark.parametrize("function", [scanned, branched])
@pytest.mark.parametrize("transform", [lambda f: f, pl.jit, pl.checkpoint], ids=["eager", "jit", "remat"])  # fmt: skip
def test_layers_in_the_program_of_a_primitive_whose_results_get_tangents(function, transform):
    """A value that is carried gets a tangent though it begins without one; so does the result of a branch without."""
    x = np.array([0.1, 0.5, 0.9])
    runs = 2 if function is scanned else 1

    def by_numpy(x):
        m = np.ones(3)
        for _ in range(runs):
            m = repeated(x, m, np)
        return m

    expected = (by_numpy(x + 1e-6) - by_numpy(x - 1e-6)) / 2e-6
    gradient = pl.grad(transform(lambda x: function(x).sum()))(x.astype(np.float32))
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)
