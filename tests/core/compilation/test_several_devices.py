"""Programs over several devices: where they run, what the compiler chooses, what travels, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base import config
from pellucid._machine.base.errors import DeviceError
from pellucid._machine.base.events import CompilationFinished, TransferFinished, counting
from pellucid._machine.compilation import executable_cache
from pellucid._machine.higher_order import misses
from pellucid._machine.sharding.errors import AbstractPlacementError
from pellucid.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    set_mesh,
    use_abstract_mesh,
)

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(pl.devices()[:8]).reshape(4, 2), ("x", "y"))


def put(mesh: Mesh, *spec, value=X):
    return pl.device_put(value, NamedSharding(mesh, P(*spec)))


def test_results_are_named_by_the_axes_of_the_arguments_mesh(mesh):
    product, rows, turned = pl.jit(lambda x: (x @ x.T, x.sum(1), x.T))(put(mesh, "x"))
    np.testing.assert_allclose(product, X @ X.T)
    assert (product.sharding.spec, rows.sharding.spec) == (P("x"), P("x"))
    assert turned.sharding == NamedSharding(mesh, P(None, "x"))
    assert turned.committed


def test_programs_of_one_mesh_device_stay_on_it(mesh):
    one = Mesh(np.array(pl.devices()[3:4]), ("x",))
    result = pl.jit(lambda x: x + 1)(put(one, "x"))
    assert result.devices() == {pl.devices()[3]}
    np.testing.assert_array_equal(result, X + 1)


def test_a_program_is_compiled_once_for_results_that_come_back(mesh):
    step = pl.jit(lambda x: x * 2)
    x = put(mesh, "x")
    with counting(CompilationFinished) as compiled, counting(TransferFinished) as moved:
        for _ in range(4):
            x = step(x)
    assert compiled.count == 1
    assert not moved.count
    np.testing.assert_array_equal(x, X * 16)


def test_results_are_placed_in_the_words_of_the_arguments():
    """A training step's new parameters have the sharding of the old ones, so that the next call is the same one."""
    mesh = Mesh(np.array(pl.devices()).reshape(1, 8), ("data", "model"))
    for spec in (P("data", "model"), P("model", None), P(None, ("data", "model")), P(None, None)):
        sharding = NamedSharding(mesh, spec)
        params = pl.device_put(np.ones((8, 8), np.float32), sharding)
        step = pl.jit(lambda params: params * 2)
        new = step(step(params))
        assert new.sharding == sharding
        assert step._cache_size() == 1
        assert (params + 1).sharding == sharding
        compiled = pl.jit(lambda x: x + 1).lower(params).compile()
        assert compiled.input_shardings[0] == (sharding,)
        assert compiled.output_shardings == sharding
        shifted = pl.shard_map(lambda x: x + 1, mesh=mesh, in_specs=spec, out_specs=spec)
        assert shifted(params).sharding == sharding
        assert params.sum(0).sharding.spec in (P(), P("model"))


def test_the_first_argument_of_a_rank_says_the_words_for_its_results(mesh):
    x, y = put(mesh, "x", None), put(mesh, "x")
    results = pl.jit(lambda x, y: (y + 1, x + y, x.sum(1), x[None]))(x, y)
    assert [r.sharding.spec for r in results] == [P("x", None), P("x", None), P("x"), P(None, "x")]
    other = Mesh(np.array(pl.devices()), ("z",))
    whole = pl.device_put(X, NamedSharding(other, P(None, None)))
    assert pl.jit(lambda x, y: (x, y + 1))(y, whole)[1].sharding.mesh == mesh


def test_values_from_the_host_follow_the_others(mesh):
    compiled = pl.jit(lambda x, y: x + y).lower(put(mesh, "x"), X).compile()
    assert compiled.input_shardings[0][1].spec == P("x")
    np.testing.assert_array_equal(compiled(put(mesh, "x"), X), X + X)


def test_arrays_nobody_placed_follow_the_others(mesh):
    add = pl.jit(lambda x, y: x + y)
    y = jnp.asarray(X)
    for _ in range(3):
        result = add(put(mesh, None, "y"), y)
    np.testing.assert_array_equal(result, X + X)
    assert result.sharding.spec == P(None, "y")


def test_constants_keep_their_layout_or_go_everywhere(mesh):
    sharded, host = put(mesh, "x"), np.ones(4, np.float32)
    result = pl.jit(lambda x: x * 2 + sharded + host)(X)
    np.testing.assert_array_equal(result, X * 3 + 1)
    assert result.sharding.spec == P("x")


def test_donated_memory_is_taken(mesh):
    x = put(mesh, "x")
    result = pl.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(result, X + 1)


def test_operations_outside_of_jit_run_where_their_operands_are(mesh):
    x = put(mesh, "x", "y")
    assert (x + 1).sharding == x.sharding
    assert x[0].sharding.spec == P("y")
    assert x[:, 1].sharding.spec == P("x")
    assert x.T.sharding.spec == P("y", "x")
    np.testing.assert_array_equal(x[2:4, ::2], X[2:4, ::2])
    np.testing.assert_array_equal(jnp.sort(x, axis=0)[::-1], np.sort(X, axis=0)[::-1])


def test_dimensions_that_do_not_split_evenly_come_out_whole(mesh):
    result = pl.jit(lambda x: x[:6])(put(mesh, "x"))
    np.testing.assert_array_equal(result, X[:6])
    assert result.is_fully_replicated


def test_the_current_mesh_is_where_programs_run(mesh):
    with set_mesh(mesh):
        result = pl.jit(lambda x: x + 1)(X)
    assert result.sharding == NamedSharding(mesh, P())
    assert pl.jit(lambda x: x + 1)(X).sharding.num_devices == 1


def test_a_program_without_devices_is_lowered_but_not_compiled():
    abstract = AbstractMesh((4, 2), ("x", "y"))
    argument = pl.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(abstract, P("x")))
    lowered = pl.jit(lambda x: pl.lax.with_sharding_constraint(x + 1, NamedSharding(abstract, P("y")))).lower(argument)  # fmt: skip
    text = lowered.as_text()
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text
    assert "sdy.sharding_constraint" in text
    assert '<@mesh, [{"y"}, {}]>' in text
    check_message(lowered.compile, AbstractPlacementError, "can't be compiled", "set_mesh(mesh)")


def test_an_abstract_mesh_in_a_program_fits_any_mesh_of_its_size(mesh):
    abstract = AbstractMesh((8,), ("z",))

    def over_z(x):
        with use_abstract_mesh(abstract):
            return pl.lax.with_sharding_constraint(x + 1, P("z"))

    np.testing.assert_array_equal(pl.jit(over_z)(put(mesh, "x")), X + 1)
    small = Mesh(np.array(pl.devices()[:2]), ("x",))
    check_message(
        lambda: pl.jit(over_z)(put(small, "x")),
        DeviceError,
        "another number of devices",
        "runs on 2",
    )


def test_arguments_on_other_devices_are_named(mesh):
    f = pl.jit(lambda a, b: a + b["w"])
    check_message(
        lambda: f(put(mesh, "x"), {"w": pl.device_put(X, pl.devices()[1])}), DeviceError,
        "a: f32[8,4] on 8 cpu devices (0, 1, 2, 3, 4, 5, 6, 7)", "b['w']: f32[8,4] on cpu:1",
    )  # fmt: skip
    turned = Mesh(mesh.devices[::-1], ("x", "y"))
    check_message(
        lambda: f(put(mesh, "x"), {"w": put(turned, "x")}), DeviceError, "order of devices differs"
    )


def test_the_current_mesh_must_have_the_arguments_devices(mesh):
    with set_mesh(mesh):
        check_message(
            lambda: pl.jit(lambda x: x)(pl.device_put(X, pl.devices()[1])), DeviceError,
            "x: f32[8,4] on cpu:1", "the mesh of `set_mesh` on 8 cpu devices",
        )  # fmt: skip


def test_a_compiled_program_refuses_arrays_that_were_put_elsewhere(mesh):
    compiled = pl.jit(lambda x: x + 1).lower(put(mesh, "x")).compile()
    assert compiled.output_shardings == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(compiled(put(mesh, "x", None)), X + 1)
    check_message(lambda: compiled(put(mesh, "y")), DeviceError, "x: compiled for", "P('y',)")


def test_what_is_in_memory_of_the_host_stays_there(mesh):
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    result = pl.jit(lambda x: pl.device_put(x + 1, host))(X)
    assert result.sharding == host
    np.testing.assert_array_equal(result, X + 1)
    assert pl.jit(lambda x: x)(pl.device_put(X, host)).sharding.memory_kind == "pinned_host"
    assert pl.jit(lambda x: x + 1, out_shardings=host)(X).sharding == host


def test_an_executable_from_disk_has_the_same_placements(mesh, tmp_path, monkeypatch):
    def compiled():
        return pl.jit(lambda x: x @ x.T).lower(put(mesh, "x")).compile()

    with (
        config.compilation_cache_dir(str(tmp_path)),
        config.persistent_cache_min_compile_time_secs(0.0),
    ):
        first = compiled()
        monkeypatch.setattr(executable_cache.executables, "get", lambda key: None)
        with counting(CompilationFinished) as seen:
            second = compiled()
    assert [getattr(event, "cache", None) for event in seen.events] == ["disk"]
    assert first.output_shardings == second.output_shardings == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(second(put(mesh, "x")), first(put(mesh, "x")))


def test_why_a_program_was_compiled_again_names_the_argument(mesh):
    f = pl.jit(lambda a, b: a + b)
    f(put(mesh, "x"), put(mesh, "x"))
    f(put(mesh, "x"), put(mesh, "y"))
    [reason] = misses.recent[-1].reasons
    assert (reason.kind, reason.path) == ("sharding", "b")
    assert reason.old.startswith("P('x',) over Mesh")
    f(pl.device_put(X, pl.devices()[1]), X)
    [reason] = misses.recent[-1].reasons
    assert (reason.kind, reason.new) == ("device", "on cpu:1")


class Variable:
    """An array of a library's, with a placement."""

    def __init__(self, value):
        self.value = value
        self.sharding = value.sharding

    def __jax_array__(self):
        return self.value


def test_arrays_like_others_are_laid_out_alike(mesh):
    x = put(mesh, "x")
    for like in (
        jnp.zeros_like(x),
        jnp.full_like(x, 2.5),
        pl.lax.full_like(x, 1),
        jnp.ones_like(x, dtype=int),
        jnp.zeros_like(pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)),
        jnp.ones_like(Variable(x)),
    ):
        assert like.sharding == x.sharding
    abstract = NamedSharding(AbstractMesh((2,), ("x",)), P("x"))
    planned = jnp.zeros_like(pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=abstract))
    assert planned.sharding.num_devices == 1
    assert jnp.zeros_like(x, shape=(3,)).sharding.num_devices == 1
    np.testing.assert_array_equal(jnp.full_like(x, 2.5), np.full_like(X, 2.5))
    zeros = pl.jit(lambda: jnp.zeros((8, 4), device=x.sharding))()
    assert zeros.sharding == x.sharding
    assert jnp.ones((8, 2), device=x.sharding).sharding == x.sharding


def test_programs_over_abstract_meshes_use_arrays_from_outside():
    mesh = pl.sharding.AbstractMesh((2,), ("x",))
    x = pl.ShapeDtypeStruct((8,), np.float32, sharding=pl.NamedSharding(mesh, pl.P("x")))
    y = pl.numpy.arange(8.0)
    text = pl.jit(lambda x: x + y).lower(x).as_text()
    assert "stablehlo.add" in text
