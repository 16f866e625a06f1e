"""`device_put` under transformations."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid
from pellucid._machine.base.errors import DeviceError
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.ir.rules import BatchAxis
from pellucid._machine.primitives.placement import ArrayCopySemantics, DevicePutParams, device_put_p
from pellucid._machine.sharding.errors import ShardingArgumentError
from pellucid._machine.sharding.memory import MemorySpace
from pellucid._machine.tracing.staging import stage
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

X = np.arange(3, dtype=np.float32)


def test_values_pass_through_programs_and_derivatives() -> None:
    device = pellucid.devices()[0]
    function = lambda x: pellucid.device_put({"a": x, "b": 2}, device)["a"] * x
    np.testing.assert_array_equal(np.asarray(pellucid.jit(function)(X)), X * X)
    np.testing.assert_array_equal(np.asarray(pellucid.grad(lambda x: function(x).sum())(X)), 2 * X)
    np.testing.assert_array_equal(np.asarray(pellucid.vmap(function)(X)), X * X)


def test_outside_programs_values_move_also_under_derivatives() -> None:
    device = pellucid.devices()[0]
    value, tangent = pellucid.jvp(lambda x: pellucid.device_put(x, device), (X,), (X,))
    assert value.committed
    assert tangent.committed


def _places():
    devices = pellucid.devices()
    over = NamedSharding(Mesh(np.array(devices[:4]), ("x",)), PartitionSpec("x"))
    return {"a device": devices[0], "another": devices[1], "several": over}


@pytest.mark.parametrize("place", ["a device", "another", "several"])
@pytest.mark.parametrize("other", ["a device", "another", "several"])
def test_cotangents_go_where_the_functions_operand_is(place, other) -> None:
    places = _places()
    x = pellucid.device_put(pellucid.numpy.arange(4.0), places[place])
    function = lambda x: pellucid.device_put(x, places[other]) * 2
    y, backward = pellucid.vjp(function, x)
    cotangent, gradient = backward(y)[0], pellucid.grad(lambda x: function(x).sum())(x)
    for each, expected in (cotangent, 4 * np.arange(4.0)), (gradient, np.full(4, 2.0)):
        assert each.committed
        assert each.devices() == x.devices()
        np.testing.assert_array_equal(each, expected)
    assert cotangent.sharding == x.sharding


@pytest.mark.parametrize("place", ["a device", "another", "several"])
def test_gradients_lie_where_the_functions_result_does(place) -> None:
    x = pellucid.device_put(pellucid.numpy.arange(4.0), _places()[place])
    # The derivatives don't depend on x, whose place only the result has.
    value, gradient = pellucid.value_and_grad(lambda x: (x * 2).sum())(x)
    assert value.devices() == gradient.devices() == x.devices()
    assert gradient.committed
    assert not pellucid.grad(lambda x: (x * 2).sum())(np.arange(4.0)).committed


def test_memory_spaces_are_part_of_types() -> None:
    text = str(pellucid.make_jaxpr(lambda x: pellucid.device_put(x, MemorySpace.Host))(X))
    assert "f32<host>[3] = device_put" in text
    on_host = pellucid.device_put(X, MemorySpace.Host)
    assert on_host.sharding.memory_kind == "pinned_host"
    assert pellucid.device_put(on_host, MemorySpace.Device).sharding.memory_kind == "device"


def test_what_compiled_functions_can_not_do_is_said() -> None:
    with pytest.raises(ShardingArgumentError, match="device_put needs a device"):
        pellucid.jit(lambda x: pellucid.device_put(x, 3))(X)


def test_batches_leave_their_axis_out_of_shardings() -> None:
    mesh = Mesh(np.array(pellucid.devices()[:1], dtype=object), ("a",))
    sharding = NamedSharding(mesh, PartitionSpec("a"))
    params = DevicePutParams((ArrayCopySemantics.REUSE_INPUT,), (sharding,), (None,))

    for dim, spec in ((0, PartitionSpec(None, "a")), (1, PartitionSpec("a", None))):

        def batched(x, dim=dim):
            return device_put_p.batch(BatchAxis(5), (x,), (dim,), params)[0]

        jaxpr, _ = stage(batched, [shaped_array((5, 5), np.dtype(np.float32))])
        assert jaxpr.equations[0].params.devices[0].spec == spec


def test_a_device_in_a_program_gives_way_to_where_arguments_are() -> None:
    first, second = pellucid.devices()[:2]
    function = pellucid.jit(lambda x: pellucid.device_put(x, second))
    assert function(X).devices() == {second}
    assert function(pellucid.device_put(X, first)).devices() == {first}
    whole = pellucid.jit(lambda x: pellucid.device_put(x, SingleDeviceSharding(second)))
    assert whole(X).devices() == {second}
    with pytest.raises(DeviceError, match="named in the program: SingleDeviceSharding"):
        whole(pellucid.device_put(X, first))
