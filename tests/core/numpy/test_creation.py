"""New arrays from values of the host: where they go, how often, and which options they are made under."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.dtypes import TypePromotionError
from pellucid._machine.base.events import TransferStarted, counting

VALUES = {
    "an array of NumPy": np.ones(8, np.float32),
    "of another dtype": np.ones(8, np.float64),
    "a list": [1.0] * 8,
    "a list of scalars of NumPy": [np.float32(1.0)] * 8,
}


def _places():
    devices = pl.devices()
    mesh = pl.make_mesh((len(devices),), ("x",))
    auto = pl.make_mesh((len(devices),), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    return {
        "nowhere": None,
        "a device": devices[1],
        "a mesh": pl.NamedSharding(auto, pl.P("x")),
        "copies": pl.NamedSharding(mesh, pl.P()),
    }


@pytest.mark.parametrize("place", ["nowhere", "a device", "a mesh"])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_of_the_host_is_transferred_once(value, place):
    device = _places()[place]
    with counting(TransferStarted) as seen:
        x = jnp.asarray(VALUES[value], device=device)
    assert [(e.direction, e.n_bytes) for e in seen.events] == [("host_to_device", 32)]
    assert x.tolist() == [1.0] * 8
    assert x.committed == (device is not None)


@pytest.mark.parametrize("place", ["a device", "a mesh", "copies"])
@pytest.mark.parametrize("value", [[1.0] * 8, np.ones(8, np.float16)], ids=["list", "NumPy"])
@pytest.mark.parametrize("dtype", [None, np.int32, jnp.bfloat16])
def test_a_placed_value_is_the_one_that_device_put_moves(value, place, dtype):
    device = _places()[place]
    made, moved = (
        jnp.asarray(value, dtype, device=device),
        pl.device_put(jnp.asarray(value, dtype), device),
    )
    assert made.aval is moved.aval
    assert made.sharding == moved.sharding
    assert (made.committed, made.tolist()) == (True, moved.tolist())


def test_a_placed_number_stays_weak():
    x = jnp.asarray(2.5, device=pl.devices()[1])
    assert (x.weak_type, x.committed, float(x)) == (True, True, 2.5)


def test_a_value_that_a_program_places_is_an_operation_of_it():
    device = pl.devices()[1]
    program = pl.make_jaxpr(lambda: jnp.asarray([1.0, 2.0], device=device))()
    assert [equation.primitive.name for equation in program.jaxpr.eqns] == ["device_put"]


@pytest.mark.parametrize("function", [jnp.array, jnp.asarray])
def test_items_of_several_dtypes_are_refused_under_strict_promotion(function):
    with pl.numpy_dtype_promotion("strict"):
        assert function([1, 2.5]).dtype == np.float32
        with pytest.raises(TypePromotionError):
            function([np.int32(1), np.float32(2.0)])


@pytest.mark.parametrize("text", ["0,2,1,3", "0,", "rows"])
def test_concatenators_refuse_strings_that_are_not_up_to_three_numbers(text):
    with pytest.raises(pl.errors.ArgumentValueError, match="up to three whole numbers"):
        pl.numpy.r_[text, 1]
