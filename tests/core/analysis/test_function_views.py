"""Views of programs in the caches of jitted functions."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import analysis, introspect
from pellucid.introspect.errors import ArgumentValueError


def only_entry(name):
    [[entry]] = [each.entries for each in introspect.functions().functions if each.name == name]
    return entry.id


def test_each_view_is_that_of_the_call():
    @pl.jit
    def placed_function(x, scale):
        return jnp.tanh(x @ x.T).sum() * scale

    mesh = pl.make_mesh((8,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    x = pl.device_put(jnp.ones((16, 4)), pl.NamedSharding(mesh, pl.P("i")))
    placed_function(x, 2.0)
    entry = only_entry("placed_function")
    views = {
        name: analysis.function_view(entry, name)
        for name in ("jaxpr", "stablehlo", "hlo", "sharding", "memory")
    }
    assert [views[name].dialect for name in ("jaxpr", "stablehlo", "hlo")] == [
        "jaxpr", "stablehlo", "hlo",
    ]  # fmt: skip
    assert all(record.name == "placed_function" for record in views.values())
    direct = analysis.sharding(placed_function, x, 2.0)
    assert direct.collectives
    assert views["sharding"].collectives == direct.collectives
    assert views["memory"].memory == analysis.compiled(placed_function, x, 2.0).memory
    assert views["memory"].device_count == 8
    assert set(direct.device_peak_bytes) == {views["memory"].memory.peak_bytes}


def test_a_program_with_references_or_without_executables_has_its_views():
    @pl.jit
    def writing_function(ref, x):
        ref[...] += x
        return ref[...] * 2

    writing_function(pl.new_ref(jnp.zeros(3)), jnp.ones(3))
    assert analysis.function_view(only_entry("writing_function"), "hlo").dialect == "hlo"

    @pl.jit
    def traced_function(x, y):
        return x + y

    traced_function.trace(np.float32(1), np.ones(3, np.int8))
    entry = only_entry("traced_function")
    assert analysis.function_view(entry, "memory").memory.output_bytes == 12


def test_a_program_that_is_gone_says_so():
    with pytest.raises(ArgumentValueError, match="gone"):
        analysis.function_view(1)
