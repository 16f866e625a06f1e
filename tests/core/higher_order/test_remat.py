"""checkpoint: what is kept, what is computed again."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid
import pellucid.numpy as jnp
from pellucid import checkpoint, checkpoint_policies as policies, grad, jit, lax, make_jaxpr
from pellucid._machine.transforms.residuals import saved_residuals
from pellucid.ad_checkpoint import checkpoint_name, print_saved_residuals

W = np.full((2, 2), 0.5, np.float32)


def layers(x, w):
    h = lax.sin(lax.dot(x, w))
    return lax.sin(lax.dot(checkpoint_name(h, "hidden"), w))


def kept(f, *args):
    return [text for _, text in saved_residuals(f, *args)]


def test_only_arguments_are_kept():
    assert kept(checkpoint(layers), W, W) == ["from the argument x", "from the argument w"]
    assert len(kept(layers, W, W)) == 5


@pytest.mark.parametrize(
    ("policy", "count", "fragment"),
    [
        (policies.dots_saveable, 4, "dot_general"),
        (policies.dots_with_no_batch_dims_saveable, 4, "dot_general"),
        (policies.save_only_these_names("hidden"), 3, "named 'hidden'"),
        (policies.save_only_these_names("other"), 2, "argument"),
        (policies.save_any_names_but_these("other"), 3, "named 'hidden'"),
        (policies.save_any_names_but_these("hidden"), 2, "argument"),
        (policies.nothing_saveable, 2, "argument"),
        (policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("hidden")), 5, "named 'hidden'"),
    ],
)  # fmt: skip
def test_policies_choose_what_is_kept(policy, count, fragment):
    actual = kept(checkpoint(layers, policy=policy), W, W)
    assert len(actual) == count
    assert any(fragment in text for text in actual)


def test_policies_reach_into_calls():
    f = checkpoint(lambda x, w: lax.sin(jit(layers)(x, w)), policy=policies.dots_saveable)
    assert sum("dot_general" in text for text in kept(f, W, W)) == 2


@pytest.mark.parametrize(
    "policy",
    [
        None,
        policies.dots_saveable,
        policies.dots_with_no_batch_dims_saveable,
        policies.everything_saveable,
    ],
)
def test_gradients_do_not_change(policy):
    loss = lambda f: lambda x, w: lax.reduce_sum(f(x, w), (0, 1))
    expected = grad(loss(layers), argnums=(0, 1))(W, W)
    actual = jit(grad(loss(checkpoint(layers, policy=policy)), argnums=(0, 1)))(W, W)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_compiler_may_share_only_if_it_is_allowed_to():
    f = lambda **settings: (
        jit(grad(checkpoint(lambda x: lax.sin(lax.sin(x)), **settings))).lower(2.0).as_text()
    )
    assert "optimization_barrier" in f()
    assert "optimization_barrier" not in f(prevent_cse=False)


def test_static_arguments():
    f = checkpoint(
        lambda x, flag, *, n: x * n if flag else x, static_argnums=(1,), static_argnames=("n",)
    )
    assert float(grad(f)(2.0, True, n=3)) == 3.0
    assert float(grad(f)(2.0, False, n=3)) == 1.0


@pytest.mark.parametrize("position", [0, (0,), [0], -2, np.int64(0)])
def test_static_arguments_without_a_hash(position):
    """They are never compared, so that the function is traced at each call."""
    f = checkpoint(lambda parts, x: parts[0] * x if parts[0] < 5 else x, static_argnums=position)
    factors = [3.0, "no array"]
    assert float(grad(lambda x: f(factors, x))(2.0)) == 3.0
    factors[0] = 4.0
    assert float(grad(lambda x: f(factors, x))(2.0)) == 4.0


@pytest.mark.parametrize("none", [(), [], None])
def test_names_complete_positions_that_are_not_given(none):
    f = checkpoint(lambda n, x: x**n, static_argnums=none, static_argnames="n")
    assert float(grad(lambda x: f(3, x))(2.0)) == 12.0


def test_residuals_are_printed_with_their_lines(capsys):
    print_saved_residuals(lambda x: lax.sin(lax.sin(x)), 2.0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(
        line.startswith("f32[] output of cos from") and "test_remat.py" in line for line in lines
    )


def test_results_that_are_arguments_are_the_same_arrays():
    x = pellucid.numpy.ones(3)
    assert checkpoint(lambda x: (x + 1, x))(x)[1] is x


def test_bodies_of_loops_keep_only_their_carries():
    body = checkpoint(lambda c, x: (lax.sin(lax.sin(c * x)), None), prevent_cse=False)
    jaxpr = make_jaxpr(grad(lambda c: lax.scan(body, c, np.arange(3.0))[0]))(1.0)
    forward = next(e for e in jaxpr.equations if e.primitive.name == "scan")
    assert len(forward.results) == 2


ERRORS = [
    (lambda: checkpoint(3), TypeError, ["checkpoint needs a function"]),
    (lambda: checkpoint(lax.sin, concrete=True), NotImplementedError, ["`concrete`", "static_argnums"]),
    (lambda: checkpoint(lambda x, y: x if y else -x)(1.0, True), TypeError, ["argument y", "checkpoint of", "static_argnums"]),
    (lambda: grad(checkpoint(lax.sin, policy=lambda *_, **__: "yes"))(1.0), TypeError, ["a policy", "'yes'"]),
    (lambda: checkpoint_name(1.0, 3), TypeError, ["needs a string"]),
    (lambda: policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"], offload_src="device", offload_dst="pinned_host"),
     ValueError, ["both: a"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "fragments"), ERRORS)
def test_errors_say_what_where_and_what_to_do(call, error, fragments):
    check_message(call, error, *fragments)


def test_higher_derivatives_compute_again_too():
    f = lambda x: lax.sin(lax.exp(0.3 * x))
    plain, remat = f, checkpoint(f)
    for _ in range(3):
        plain, remat = grad(plain), grad(remat)
        np.testing.assert_allclose(remat(0.7), plain(0.7), rtol=1e-5)
    assert "remat2" in str(pellucid.make_jaxpr(remat)(0.7))


# What policies keep within programs of equations ----------------------------------------------------


def _layer(x):
    return jnp.sin(jnp.dot(x, jnp.cos(x)))


_MESH = pellucid.make_mesh((2,), ("x",), axis_types=(pellucid.sharding.AxisType.Auto,))
_OVER_ROWS = {"mesh": _MESH, "in_specs": pellucid.P("x"), "out_specs": pellucid.P("x")}
WITHIN = {
    "scan": lambda x: lax.scan(lambda c, t: (_layer(c) + t, _layer(c).sum()), x, jnp.arange(3.0)),
    "reverse": lambda x: lax.scan(lambda c, t: (_layer(c) * t, c), x, jnp.arange(1.0, 4), reverse=True),
    "map": lambda x: lax.map(_layer, jnp.stack([x, x / 2])),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: _layer(c), x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, _layer, lambda x: x, x),
    "switch": lambda x: lax.switch(jnp.int32(x[0, 0] > 9) + 1, [jnp.tanh, _layer, lambda x: _layer(x.T @ x)], x),
    "pmap": lambda x: pellucid.pmap(_layer)(jnp.stack([x, x / 2])),
    "shard_map": lambda x: pellucid.shard_map(lambda v: _layer(v[0])[None], **_OVER_ROWS)(jnp.stack([x, x / 2])),
    "shard_map of scalars": lambda x: pellucid.shard_map(lambda v: jnp.sin(jnp.vdot(v, v))[None], **_OVER_ROWS)(jnp.stack([x[0], x[1]])),
    "shard_map unchecked": lambda x: pellucid.shard_map(lambda v: _layer(v[0])[None], check_vma=False, **_OVER_ROWS)(jnp.stack([x, x / 2])),
    "jit": jit(lambda x: lax.fori_loop(0, 2, lambda i, c: _layer(c), x)),
    "loop in a loop": lambda x: lax.fori_loop(0, 2, lambda i, c: lax.fori_loop(0, 3, lambda j, d: _layer(d), c), x),
    "branch in a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: lax.cond(i > 1, _layer, lambda c: _layer(c.T), c), x),
    "loop in a branch": lambda x: lax.cond(x[0, 0] > 0, lambda x: lax.fori_loop(0, 3, lambda i, c: _layer(c), x), jnp.sin, x),
    "loop in shard_map": lambda x: pellucid.shard_map(lambda v: lax.fori_loop(0, 3, lambda i, c: _layer(c), v[0])[None], **_OVER_ROWS)(jnp.stack([x, x / 2])),
    "checkpoint": lambda x: checkpoint(_layer)(x),
    "checkpoint in a call": jit(lambda x: jnp.cos(jit(checkpoint(_layer))(jnp.sin(x)))),
    "checkpoint in a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: checkpoint(_layer)(c), x),
    "checkpoint in a checkpoint": lambda x: checkpoint(lambda x: jnp.sin(checkpoint(_layer)(x)))(x),
    "shard_map in a loop": lambda x: lax.fori_loop(0, 2, lambda i, c: pellucid.shard_map(lambda v: _layer(v[0])[None], **_OVER_ROWS)(c), jnp.stack([x, x / 2])),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHIN)
def test_what_a_policy_keeps_within_an_equation_is_not_computed_again(name: str) -> None:
    f = WITHIN[name]
    total = lambda policy: (
        lambda x: sum(map(jnp.sum, pellucid.tree.leaves(checkpoint(f, policy=policy)(x))))
    )
    x = np.random.default_rng(0).standard_normal((3, 3)).astype("float32")
    products = {}
    plain = grad(lambda x: sum(map(jnp.sum, pellucid.tree.leaves(f(x)))))
    for policy in (None, policies.dots_saveable, policies.everything_saveable):
        gradient = grad(total(policy))
        np.testing.assert_allclose(jit(gradient)(x), plain(x), 1e-5, 1e-6)
        np.testing.assert_allclose(gradient(x), plain(x), 1e-5, 1e-6)
        products[policy] = str(make_jaxpr(gradient)(x)).count("dot_general[")
    again, *kept = products.values()
    assert kept[0] == kept[1] < again
    curvature = lambda g: jit(lambda x: pellucid.jvp(g, (x,), (x,))[1])(x)
    np.testing.assert_allclose(
        curvature(grad(total(policies.dots_saveable))), curvature(plain), 1e-4, 1e-5
    )


def test_branches_keep_their_values_in_rows_of_equal_types() -> None:
    def total(x):
        branches = [_layer, lambda x: _layer(x.T), lambda x: _layer(x[:2, :2]).sum() + x, jnp.sin]
        return lax.switch(jnp.int32(x[0, 0]), branches, x).sum()

    x = np.ones((3, 3), "float32")
    kept = saved_residuals(checkpoint(total, policy=policies.dots_saveable), x)
    shapes = [aval.shape for aval, source in kept if "argument" not in source]
    assert sorted(shapes) == [(2, 2), (3, 3)]


def test_names_within_an_equation_are_kept_and_moved_away() -> None:
    def step(c, t):
        return checkpoint_name(jnp.exp(c), "kept") * t, jnp.sin(c)

    f = lambda x: lax.scan(step, x, jnp.arange(1.0, 3))
    moved = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["kept"],
        offload_src="device", offload_dst="pinned_host",
    )  # fmt: skip
    x = np.float32(0.1)
    total = lambda f: lambda x: sum(map(jnp.sum, pellucid.tree.leaves(f(x))))
    for policy in (policies.save_only_these_names("kept"), moved):
        for inner in (f, checkpoint(f)):
            gradient = grad(total(checkpoint(inner, policy=policy)))
            np.testing.assert_allclose(jit(gradient)(x), grad(total(f))(x), 1e-6)
            assert inner is not f or ("device_put" in str(make_jaxpr(gradient)(x))) is (
                policy is moved
            )


@pytest.mark.parametrize(
    "policy", [policies.everything_saveable, policies.save_anything_except_these_names("kept")]
)
def test_policies_that_save_everything_save_no_references(policy) -> None:
    def of_loop(x):
        total = pellucid.new_ref(x)

        def step(c, t):
            total[...] += checkpoint_name(jnp.sin(c * t), "kept")
            return jnp.cos(total[...]), None

        return lax.scan(step, x, jnp.arange(1.0, 4))[0] * total[...]

    gradient = grad(checkpoint(of_loop, policy=policy))
    for of in (lambda f: f, jit):
        np.testing.assert_allclose(of(gradient)(0.7), grad(of_loop)(0.7), 1e-5)
