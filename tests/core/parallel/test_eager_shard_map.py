"""Values of arrays within a `shard_map` or `pmap` that runs eagerly, as Python asks for them."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import P, lax
from pellucid._machine.base.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
)
from pellucid._machine.base.events import TraceFinished, counting

X = np.arange(8, dtype=np.float32).reshape(4, 2)


BY_ROWS = P("i")
BY_POSITION = P(("i", "j"))


def mapped(function, in_specs=BY_ROWS, out_specs=BY_ROWS, **options):
    mesh = pl.make_mesh((2, 2), ("i", "j"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    return pl.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def shown(x):
    print(x)
    return x


def test_printing_shows_the_block_of_each_device_with_its_coordinates(capsys):
    result = mapped(shown, BY_POSITION, BY_POSITION)(X)
    assert capsys.readouterr().out.splitlines() == [
        "at i=0, j=0 on cpu:0:", "[[0. 1.]]", "at i=0, j=1 on cpu:1:", "[[2. 3.]]",
        "at i=1, j=0 on cpu:2:", "[[4. 5.]]", "at i=1, j=1 on cpu:3:", "[[6. 7.]]",
    ]  # fmt: skip
    np.testing.assert_array_equal(result, X)


def test_it_shows_them_in_each_call_and_for_other_values(capsys):
    function = mapped(lambda x: shown(jnp.sum(x, keepdims=True)))
    for factor in (1, 2):
        function(X * factor)
        assert f"[[{6 * factor}.]]" in capsys.readouterr().out


def test_axes_that_the_compiler_has_are_no_coordinates(capsys):
    mapped(lambda x: shown(lax.axis_index("i"))[None], axis_names={"i"})(X)
    assert capsys.readouterr().out.splitlines() == [
        "at i=0 on cpu:0:", "0", "at i=1 on cpu:2:", "1",
    ]  # fmt: skip


def test_programs_show_no_values(capsys):
    pl.jit(mapped(shown))(X)
    mapped(pl.jit(shown))(X)
    assert capsys.readouterr().out.count("StagingTracer(float32[2,2]{V:i})") == 2
    mapped(shown)(X)  # also after they have been traced
    assert "at i=0, j=0" in capsys.readouterr().out


def test_python_branches_on_what_all_devices_have():
    def function(x):
        total = lax.psum(x.sum(), "i")
        if total > 5:
            x = -x
        n = 0
        while lax.pmax(n * x.min(), "i") > -10:
            n += 1
        return x * float(total) + n + int(total) * bool(total == 28)

    # The larger of the minima is -3.
    np.testing.assert_array_equal(mapped(function)(X), -X * 28 + 4 + 28)


@pytest.mark.parametrize(
    ("ask", "error", "use"),
    [
        (bool, TracerBoolConversionError, "a Python bool"),
        (float, ConcretizationTypeError, "a Python float"),
        (np.asarray, TracerArrayConversionError, "a NumPy array"),
    ],
)
@pytest.mark.parametrize("check_vma", [True, False])
def test_what_differs_between_devices_is_no_python_value(ask, error, use, check_vma):
    function = mapped(lambda x: x * ask(x.sum()), check_vma=check_vma)
    with pytest.raises(error, match=f"an array that differs between devices was used as {use}"):
        function(X)
    with pytest.raises(error, match="its value is known only when the program runs"):
        pl.jit(function)(X)


def test_what_varies_in_its_type_is_no_python_value_whatever_it_is():
    with pytest.raises(TracerBoolConversionError, match="differs between devices"):
        mapped(lambda x: x if (x >= 0).all() else -x)(X)
    same = mapped(lambda x: x if (x >= 0).all() else -x, check_vma=False)
    np.testing.assert_array_equal(same(X), X)  # where types don't say it, the values do


COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "i"),
    "psum of both": lambda x: lax.psum(x, ("i", "j")),
    "pmax": lambda x: lax.pmax(x, "j"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "tiled all_gather": lambda x: lax.all_gather(x, "j", axis=1, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "j", scatter_dimension=1, tiled=True),
    "axis_index": lambda x: x * 0 + lax.axis_index(("i", "j")),
    "derivative": pl.grad(lambda x: lax.psum((x**2).sum(), "i")),
    "loop": lambda x: lax.scan(lambda c, r: (c + lax.psum(r, "i"), c), x[0] * 0, x)[1],
    "batch": pl.vmap(lambda r: lax.pmax(r, "i") + r),
}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("check_vma", [True, False])
def test_values_agree_with_the_compiled_program(name, check_vma):
    seen = []

    def function(x):
        y = COLLECTIVES[name](x)
        if y._trace.look is not None:
            seen.extend(y._trace.look.parts(y))
        return y[None]

    program = mapped(function, BY_POSITION, BY_POSITION, check_vma=check_vma)
    x = np.arange(16, dtype=np.float32).reshape(8, 2) ** 1.5
    eager = np.asarray(program(x))
    assert [part.coordinates for part in seen] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_array_equal(np.stack([part.value for part in seen]), eager)
    np.testing.assert_allclose(pl.jit(program)(x), eager, rtol=1e-6)


def test_who_does_not_look_is_traced_once():
    function = mapped(lambda x: x + 1)
    with counting(TraceFinished) as traced:
        function(X)
    assert [event.name for event in traced.events].count("<lambda>") == 1


def test_effects_happen_once_however_often_values_are_looked_at(capsys):
    calls = []

    def function(x):
        pl.debug.callback(lambda s: calls.append(float(s)), x.sum())
        shown(x)
        return shown(x * 2)

    mapped(function)(X)
    pl.effects_barrier()
    assert sorted(calls) == [6, 6, 22, 22]
    assert capsys.readouterr().out.count("at i=1, j=1") == 2


def test_what_can_t_be_computed_meanwhile_is_shown_by_type(capsys):
    def function(x):
        cell = pl.new_ref(x)
        cell[...] = x + 1
        shown(cell[...])
        shown(pl.random.key(0))
        return cell[...]

    np.testing.assert_array_equal(mapped(function)(X), X + 1)
    assert "StagingTracer(float32[2,2]{V:i})" in capsys.readouterr().out


def test_closed_over_arrays_and_sharded_arguments_have_their_values(capsys):
    w = jnp.full(2, 3.0)
    mesh = pl.make_mesh((2, 2), ("i", "j"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    x = pl.device_put(X, pl.NamedSharding(mesh, P("i", "j")))
    mapped(lambda x: shown(x * w))(x)
    assert "[[12. 15.]\n [18. 21.]]" in capsys.readouterr().out


@pytest.mark.parametrize("axis_name", ["k", None])
def test_pmap_without_jit_runs_eagerly(axis_name, capsys):
    with pl.disable_jit():
        result = pl.pmap(lambda x: x if shown(x >= 0).all() else -x, axis_name=axis_name)(X)
    np.testing.assert_array_equal(result, X)
    out = capsys.readouterr().out
    assert out.count("[ True  True]") == 4
    assert "=3 on cpu:3:" in out
    if axis_name:
        assert "at k=3 on cpu:3:" in out
