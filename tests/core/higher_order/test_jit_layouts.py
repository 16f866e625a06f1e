"""Orders of elements in memory: asked of jit and device_put, kept by arrays, invisible in values."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import pellucid as pl
from pellucid import P, numpy as jnp
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid._machine.sharding.errors import LayoutError
from pellucid.experimental.layout import Format, Layout
from pellucid.sharding import AxisType, NamedSharding

X = np.arange(32, dtype=np.float32).reshape(8, 4)
ROWS, COLUMNS = Layout((0, 1)), Layout((1, 0))


def one_device():
    return pl.sharding.SingleDeviceSharding(pl.devices()[0])


def eight_devices():
    mesh = pl.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    return NamedSharding(mesh, P("x", "y"))


def order(x):
    return x.format.layout.major_to_minor


@pytest.fixture(params=[one_device, eight_devices], ids=lambda f: f.__name__)
def sharding(request):
    return request.param()


@pytest.fixture
def columns(sharding):
    """An array whose columns are together in memory."""
    return pl.device_put(X, Format(COLUMNS, sharding))


def test_device_put_orders_elements(columns, sharding):
    assert columns.format == Format(columns.format.layout, sharding)
    assert order(columns) == (1, 0)
    np.testing.assert_array_equal(columns, X)
    assert order(pl.device_put(columns, Format(ROWS, sharding))) == (0, 1)


def test_results_are_ordered_as_asked(sharding):
    f = pl.jit(lambda x: (x + 1, x), out_shardings=(Format(COLUMNS, sharding), None))
    moved, untouched = f(X)
    assert (order(moved), order(untouched)) == ((1, 0), (0, 1))
    np.testing.assert_array_equal(moved, X + 1)


def test_arguments_are_taken_as_asked(columns, sharding):
    f = pl.jit(lambda x: 2 * x, in_shardings=Format(COLUMNS, sharding))
    np.testing.assert_array_equal(f(columns), 2 * X)
    np.testing.assert_array_equal(f(X), 2 * X)
    with counting(CompilationFinished) as compilations:
        f(columns)
    assert compilations.count == 0
    with pytest.raises(LayoutError, match="another order"):
        f(pl.device_put(X, sharding))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: x.T @ x,
        lambda x: x[3],
        lambda x: jnp.sum(x, axis=1),
        lambda x: x + np.ones(4, np.float32),
        lambda x: pl.jit(lambda a, b: a - 2 * b)(x, x),
        lambda x: pl.jit(lambda a: 2 * a, donate_argnums=0)(copy.copy(x)),
        lambda x: copy.copy(x) * 2,
        lambda x: pl.device_put(x, pl.devices()[2]) * 2,
        lambda x: pl.device_put(x, pl.devices()[0]).T,
        lambda x: pl.vmap(jnp.cumsum)(x),
    ],
)
def test_values_do_not_depend_on_the_order(columns, use):
    for _ in range(2):  # the second time by the C++ path, where there is one
        np.testing.assert_array_equal(use(columns), use(pl.device_put(X, columns.sharding)))


def test_shards_are_ordered_as_the_whole(columns):
    for shard in columns.addressable_shards:
        assert order(shard.data) == (1, 0)
        np.testing.assert_array_equal(shard.data + 1, X[shard.index] + 1)


def test_the_compiler_may_choose(sharding):
    auto = Format(Layout.AUTO)
    compiled = pl.jit(lambda x: x.T, in_shardings=auto, out_shardings=auto).lower(X).compile()
    ((parameter,), keywords), inputs = compiled.input_formats, compiled.output_formats
    assert not keywords
    assert {type(parameter.layout), type(inputs.layout)} == {Layout}
    np.testing.assert_array_equal(compiled(X), X.T)


def test_formats_of_a_compiled_program(sharding):
    f = pl.jit(lambda x, unused: x, in_shardings=(Format(COLUMNS, sharding), None))
    compiled = f.lower(X, 1.0).compile()
    ((parameter, unused), _), inputs = compiled.input_formats, compiled.output_formats
    assert parameter.layout.major_to_minor == (1, 0)
    assert unused is None
    assert inputs.layout.major_to_minor == (0, 1)
    assert parameter.sharding == sharding


def test_a_layout_of_another_rank_is_refused(sharding):
    cube = Format(Layout((2, 1, 0)), sharding)
    for use in (
        lambda: pl.device_put(X, cube),
        lambda: pl.jit(lambda x: x, in_shardings=cube)(X),
        lambda: pl.jit(lambda x: x, out_shardings=cube)(X),
    ):
        with pytest.raises(LayoutError, match="3 dimensions can't be that of a value of 2"):
            use()


def test_layouts_are_refused_where_they_can_not_be_had(sharding):
    with pytest.raises(UnsupportedError, match="jit and device_put take formats"):
        pl.numpy.zeros(X.shape, device=Format(COLUMNS, sharding))


def test_constraints_and_described_arguments_choose_orders(sharding):
    columns = Format(COLUMNS, sharding)
    assert pl.lax.with_sharding_constraint(X, columns).format.layout.major_to_minor == (1, 0)
    lowered = pl.jit(lambda x: x + 1).lower(pl.ShapeDtypeStruct(X.shape, X.dtype, sharding=columns))
    [[selected], _] = lowered.compile().input_formats
    assert selected.layout.major_to_minor == (1, 0)


def test_a_program_lowered_for_an_array_takes_its_order_and_memory(columns):
    double = pl.jit(lambda x: 2 * x, donate_argnums=0, out_shardings=columns.format)
    compiled = double.lower(columns).compile()
    [[input_format], _] = compiled.input_formats
    assert input_format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(compiled(columns), 2 * X)
    assert columns.is_deleted()
    key = pl.device_put(pl.random.key(0), pl.devices()[1])
    assert pl.jit(pl.random.split).lower(key).compile()(key).shape == (2,)


def test_programs_with_ordered_effects_take_any_order_and_choose_none(columns, sharding):
    def f(x):
        pl.debug.callback(lambda _: None, x, ordered=True)
        return x + 1

    np.testing.assert_array_equal(pl.jit(f)(columns), X + 1)
    pl.effects_barrier()
    with pytest.raises(UnsupportedError, match="effects in an order"):
        pl.jit(f, in_shardings=Format(COLUMNS, sharding))(columns)


def test_described_results_have_the_formats_that_were_asked_for(sharding):
    columns, described = Format(COLUMNS, sharding), pl.ShapeDtypeStruct(X.shape, X.dtype)
    f = pl.jit(lambda x: (x, x + 1, -x), out_shardings=(columns, sharding, None))
    for results in (f.eval_shape(described), pl.eval_shape(f, described), f.lower(X).out_info):
        assert [r.sharding for r in results] == [sharding, sharding, None]
        assert [r.format.layout for r in results if r.sharding] == [COLUMNS, None]
    compiled = f.lower(X).compile().out_info
    assert [r.format.layout.major_to_minor for r in compiled] == [(1, 0), (0, 1), (0, 1)]


def test_donated_arrays_in_another_order_are_deleted(columns, sharding):
    result = pl.jit(lambda x: x + 1, donate_argnums=0)(columns)
    assert columns.is_deleted()
    np.testing.assert_array_equal(result, X + 1)
    assert order(result) == (0, 1)
