"""Typed keys behave as arrays: printed, pickled, placed, sharded; what can't be done says so."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid import numpy as jnp, random
from pellucid._machine.base import config
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayConversionError,
    DeletedArrayError,
    DtypeError,
    IntegerRangeError,
    ShapeError,
)
from pellucid.introspect.values import short_text
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

KEY = random.key(1)
KEYS = random.split(KEY, 8)


def words(keys):
    return np.asarray(random.key_data(keys))


@pytest.fixture
def mesh():
    return pl.sharding.Mesh(np.array(pl.devices()[:8]), ("x",))


def test_text_and_type() -> None:
    assert repr(KEY) == str(KEY) == "Array((), dtype=key<fry>) overlaying:\n[0 1]"
    assert KEY.aval.text() == short_text(KEY) == "key<fry>[]"
    assert isinstance(KEY, pl.Array)
    assert (KEY.shape, KEYS.shape, KEYS.ndim, KEYS.size, KEYS.nbytes) == ((), (8,), 1, 8, 64)
    assert jnp.issubdtype(KEY.dtype, pl.dtypes.prng_key)
    assert "key<fry>[8]" in str(pl.make_jaxpr(lambda k: k)(KEYS))
    with pytest.raises(TypeError):
        hash(KEY)


@pytest.mark.parametrize(
    "impl", ["threefry2x32", "rbg", "unsafe_rbg", "philox2x32", "threefry4x32"]
)
def test_pickles(impl) -> None:
    keys = random.split(random.key(3, impl=impl), 2)
    copy = pickle.loads(pickle.dumps(keys))
    assert copy.dtype == keys.dtype
    np.testing.assert_array_equal(words(copy), words(keys))


def test_a_key_is_no_word_to_a_compiled_function() -> None:
    """Types that C++ would take for one another have programs of their own."""
    double = pl.jit(lambda x: x if jnp.issubdtype(x.dtype, pl.dtypes.prng_key) else x * 2)
    for _ in range(3):
        assert double(np.uint32(4)) == 8
        assert double(KEY).dtype == KEY.dtype
        assert double(random.key(1, impl="rbg")).dtype == random.key_dtype("rbg")


def test_no_numbers() -> None:
    for ask in (np.asarray, bool, float, int, KEY.__class__.item, KEY.__class__.tolist):
        check_message(lambda ask=ask: ask(KEY), ArrayConversionError, "key<fry>[]", "key_data")


def test_deleted() -> None:
    key = random.key(3)
    key.delete()
    assert key.is_deleted()
    with pytest.raises(DeletedArrayError):
        random.normal(key)


def test_donated() -> None:
    keys = random.split(random.key(3), 4)
    following = pl.jit(lambda k: k[::-1], donate_argnums=0)(keys)
    assert keys.is_deleted()
    assert following.shape == (4,)


def test_references_hold_keys() -> None:
    cell = pl.new_ref(KEYS)

    @pl.jit
    def advance() -> None:
        cell[0] = random.split(cell[0])[1]

    advance()
    np.testing.assert_array_equal(words(cell[...])[0], words(random.split(KEYS[0])[1]))


def test_sharded_keys(mesh) -> None:
    rows = NamedSharding(mesh, P("x"))
    keys = pl.device_put(KEYS, rows)
    assert keys.sharding == rows
    assert [s.data.shape for s in keys.addressable_shards] == [(1,)] * 8
    np.testing.assert_array_equal(words(keys), words(KEYS))
    for program in (lambda k: k, lambda k: pl.vmap(random.split)(k)[:, 0], lambda k: k[::-1]):
        result = pl.jit(program, out_shardings=rows)(keys)
        assert result.sharding.is_equivalent_to(rows, 1)
        np.testing.assert_array_equal(words(result), words(program(KEYS)))
    back = pl.device_put(keys, pl.devices()[0])
    np.testing.assert_array_equal(words(back), words(KEYS))
    with pytest.raises(ValueError):
        pl.device_put(KEYS, NamedSharding(mesh, P(None, "x")))


def test_samples_are_made_where_they_are_wanted(mesh) -> None:
    """Each device makes its part alone."""
    rows = NamedSharding(mesh, P("x"))
    compiled = pl.jit(lambda k: random.normal(k, (64, 4)), out_shardings=rows).lower(KEY).compile()
    text = compiled.as_text()
    assert not any(word in text for word in ("all-gather", "all-reduce", "collective-permute"))
    np.testing.assert_array_equal(compiled(KEY), random.normal(KEY, (64, 4)))


def test_shard_map(mesh) -> None:
    def local(keys):
        return pl.vmap(lambda k: random.bits(k, (2,)))(keys)

    mapped = pl.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(mapped(KEYS), local(KEYS))


def test_explicit_axes() -> None:
    mesh = pl.make_mesh((8,), ("x",), (AxisType.Explicit,))
    with pl.set_mesh(mesh):
        keys = pl.device_put(KEYS, NamedSharding(mesh, P("x")))
        assert str(pl.typeof(keys)) == "key<fry>[8@x]"
        drawn = pl.jit(pl.vmap(lambda k: random.uniform(k, (2,))))(keys)
        assert drawn.sharding.spec == P("x", None)
        placed = random.normal(KEY, (8, 2), out_sharding=P("x"))
        assert placed.sharding.spec == P("x", None)
        np.testing.assert_array_equal(placed, random.normal(KEY, (8, 2)))


def test_outside_traces_keys_need_no_second_compilation() -> None:
    """Samples of any key are one compiled call on its words."""
    random.normal(KEY, (3, 1))
    other, raw = KEYS[2], random.key_data(KEY)
    with pl.no_tracing(True):
        random.normal(raw, (3, 1))
        random.normal(other, (3, 1))


def test_messages() -> None:
    check_message(lambda: random.split(KEYS), ShapeError, "key<fry>[8]", "vmap")
    check_message(lambda: random.normal(3), ArgumentTypeError, "int", "random.key")
    check_message(lambda: random.normal(np.zeros(3, np.uint32)), ArgumentTypeError, "u32[3]")
    check_message(lambda: random.key(0, impl="thrufry"), ArgumentValueError, "threefry")
    check_message(lambda: random.key(0, impl=3), ArgumentTypeError, "int")
    check_message(lambda: random.key(1.5), DtypeError, "f32[]")
    check_message(lambda: random.fold_in(KEY, -1), IntegerRangeError, "-1")
    check_message(lambda: random.uniform(KEY, dtype=int), ArgumentValueError, "int32", "floating")
    check_message(lambda: KEY + 1, TypeError, "key<fry>")


def test_options() -> None:
    with config.enable_custom_prng(True):
        assert random.PRNGKey(1).dtype == KEY.dtype
    with config.default_prng_impl("rbg"):
        assert random.key_impl(random.key(0)) == random.key_impl(random.PRNGKey(0)) == "rbg"
        assert pl.jit(lambda: random.PRNGKey(0))().shape == (4,)
    assert pl.jit(lambda: random.PRNGKey(0))().shape == (2,)
    with config.random_seed_offset(5):
        assert words(random.key(2))[1] == 7
    with config.legacy_prng_key("error"):
        check_message(lambda: random.bits(np.zeros(2, np.uint32)), ArgumentTypeError, "random.key")
        random.bits(KEY)
    with config.legacy_prng_key("warn"), pytest.warns(FutureWarning, match="wrap_key_data"):
        random.bits(np.zeros(2, np.uint32))


@pytest.mark.parametrize("parameter", [1j, KEY], ids=["complex", "key"])
@pytest.mark.parametrize("sample", [
    lambda p: random.uniform(KEY, maxval=p), lambda p: random.randint(KEY, (), 0, p), lambda p: random.gamma(KEY, p),
    lambda p: random.poisson(KEY, p), lambda p: random.truncated_normal(KEY, p, 2.0), lambda p: random.triangular(KEY, 0.0, p, 2.0),
    lambda p: random.categorical(KEY, jnp.stack([p, p])), lambda p: random.choice(KEY, 2, p=jnp.stack([p, p])),
    lambda p: random.binomial(KEY, 3, p), lambda p: random.weibull_min(KEY, p, 1.0), lambda p: random.multinomial(KEY, p, jnp.ones(2)),
])  # fmt: skip
def test_parameters_are_real(sample, parameter) -> None:
    with pytest.raises(DtypeError, match="needs real parameters"):
        sample(parameter)


def test_permuted_keys() -> None:
    order = np.asarray(random.permutation(KEY, 8))
    np.testing.assert_array_equal(words(random.permutation(KEY, KEYS)), words(KEYS)[order])


def test_keys_update_arrays_of_keys_in_place() -> None:
    """Also where the update is made of the array's own elements, which the compiler would overwrite."""
    moved = pl.jit(lambda k: k.at[1:].set(k[:-1]).reshape(1, -1))(KEYS)
    np.testing.assert_array_equal(words(moved)[0], words(KEYS)[[0, *range(7)]])


@pytest.mark.parametrize("draw", [
    lambda k, a: pl.random.gamma(k, a), lambda k, a: pl.random.loggamma(k, a), lambda k, a: pl.random.beta(k, a, 2.0),
    lambda k, a: pl.random.dirichlet(k, a), lambda k, a: pl.random.t(k, 2.0), lambda k, a: pl.random.ball(k, 2),
])  # fmt: skip
def test_numbers_of_loops_are_drawn_in_shard_map(draw) -> None:
    """Each position draws what its key gives, with keys and parameters that vary over the mesh."""
    axis = pl.sharding.AxisType.Auto
    mesh = pl.make_mesh((2,), ("x",), axis_types=(axis,), devices=pl.devices()[:2])
    keys, alphas = pl.random.split(pl.random.key(3), 2), np.float32([[0.4, 1.5], [2.5, 9.0]])
    mapped = pl.shard_map(
        lambda k, a: draw(k[0], a[0])[None], mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    alone = [draw(k, a) for k, a in zip(keys, alphas, strict=True)]
    np.testing.assert_allclose(mapped(keys, alphas), np.stack(alone), rtol=2e-6)


@pytest.mark.parametrize("draw", [
    lambda k, s: pl.random.normal(k, (8, 4), out_sharding=s), lambda k, s: pl.random.gamma(k, 2.0, (8, 4), out_sharding=s),
    lambda k, s: pl.random.bits(k, (8, 4), out_sharding=s), lambda k, s: pl.random.randint(k, (8, 4), 0, 9, out_sharding=s),
])  # fmt: skip
def test_out_sharding_under_jit(draw) -> None:
    """Also for a key that was made before the mesh was set."""
    axis = pl.sharding.AxisType.Explicit
    mesh = pl.make_mesh((4,), ("x",), axis_types=(axis,), devices=pl.devices()[:4])
    key = pl.random.key(0)
    with pl.set_mesh(mesh):
        drawn = pl.jit(lambda k: draw(k, P("x", None)))(key)
    assert drawn.sharding.spec == P("x", None)
    np.testing.assert_allclose(drawn, draw(key, None), rtol=2e-6)


def test_keys_are_made_without_looking_for_jax(monkeypatch) -> None:
    """C++ would search `sys.meta_path` for modules of jax for each key that a program returns."""
    searched = []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            searched.append(name)

    split = pl.jit(lambda key: (pl.random.split(key), key))
    [*split(pl.random.key(0))[0]]
    monkeypatch.setattr("sys.meta_path", [Finder(), *sys.meta_path])
    keys, _ = split(pl.random.key(0))
    assert len([*keys]) == 2
    assert searched == []
