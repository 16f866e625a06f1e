"""`pmap`: axes of arguments and results, devices, derivatives, what is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus import pmap_programs

import pellucid as pl
from pellucid import P, lax, pmap
from pellucid._machine.base.events import CompilationFinished, counting
from pellucid.sharding import AxisType, NamedSharding

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 8


@pytest.mark.parametrize("program", pmap_programs.PROGRAMS, ids=lambda p: p.__name__)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    fails = program in pmap_programs.FAILING
    oracle_8_devices.check(program, library=pl, tolerance=1e-5, fails=fails)


def test_results_have_an_element_on_each_device():
    y = pmap(lambda x: x / lax.psum(x + 1, "i"), axis_name="i")(X)
    assert y.sharding.is_equivalent_to(NamedSharding(y.sharding.mesh, P("i")), 2)
    assert [s.device for s in y.addressable_shards] == pl.devices()[:8]
    assert y.addressable_shards[0].data.shape == (1, 4)


def test_fewer_elements_than_devices_take_the_first():
    assert pmap(lambda x: 2 * x)(X[:3]).devices() == set(pl.devices()[:3])


def test_devices_are_taken_in_their_order():
    devices = pl.devices()[7:3:-1]
    y = pmap(lambda x: x + lax.axis_index("i"), axis_name="i", devices=devices)(X[:4])
    assert [
        s.device for s in sorted(y.addressable_shards, key=lambda s: s.index[0].start)
    ] == devices
    np.testing.assert_array_equal(y, X[:4] + np.arange(4)[:, None])


def test_arguments_that_lie_elsewhere_are_moved():
    x = pl.device_put(X, pl.devices()[3])
    np.testing.assert_array_equal(pmap(lambda x: x + 1)(x), X + 1)


def test_a_second_call_compiles_nothing():
    f = pmap(lambda x: pl.numpy.sin(x))
    y = f(X)
    with counting(CompilationFinished) as counts:
        f(f(y))
    assert counts.count <= 1  # the first result is laid out over the devices, unlike X
    with counting(CompilationFinished) as counts:
        f(f(y))
    assert counts.count == 0


def test_donated_arguments_are_gone():
    mesh = pl.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    x = pl.device_put(X, NamedSharding(mesh, P("d")))
    pmap(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_arguments_laid_out_over_explicit_axes():
    x = pl.device_put(X, NamedSharding(pl.make_mesh((8,), ("d",)), P("d")))
    y = pmap(lambda x: x + 1)(x)
    np.testing.assert_array_equal(y, X + 1)
    assert not y.sharding.is_fully_replicated


def test_lowering_shows_the_program():
    assert (
        "sdy.manual_computation"
        in pmap(lambda x: lax.psum(x, "i"), axis_name="i").lower(X).as_text()
    )


def test_arguments_are_moved_whenever_they_lie_elsewhere():
    f = pmap(lambda w, x: w * x, in_axes=(None, 0))
    there, elsewhere = f(2.0, X), pl.device_put(X, pl.devices()[3])
    for x in (there, there, elsewhere, there, elsewhere, X):
        assert f(1.0, x).sharding == there.sharding
    np.testing.assert_array_equal(f(pl.device_put(3.0, pl.devices()[5]), there), 6 * X)
