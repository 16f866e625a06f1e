"""Arrays laid out anew on their own devices, by a compiled program in which the devices exchange parts."""

from __future__ import annotations

from pellucid.base import cached
from pellucid.ir import ClosedJaxpr, Jaxpr, ShapedArray, Var
from pellucid.runtime.executable import Executable
from pellucid.sharding.layout import Layout
from pellucid.sharding.placement import Sharding
from pellucid.xla.arrays import ArrayImpl

from .pipeline import Request, compile_program
from .placement import Placement, canonical


def relaid(x: ArrayImpl, sharding: Sharding, layout: Layout | None = None) -> ArrayImpl:
    """A copy of array `x`, laid out as `sharding` over the same devices in the same order; it is committed.

    `layout` is the order of its elements in memory, by default the device's own.
    """
    current = Layout.from_pjrt_layout(x._pjrt_layout)
    [result] = _executable(x.aval, canonical(x._sharding), current, sharding, layout)([x])
    return result


@cached(1024)
def _executable(
    aval: ShapedArray, old, old_layout: Layout, new, layout: Layout | None
) -> Executable:
    value = Var(aval)
    devices = tuple(new._internal_device_list)
    request = Request(
        "device_put", Placement(devices[0].client, devices), (old,), (new,),
        committed=True, argument_layouts=(old_layout,), result_layouts=(layout,), mesh=getattr(new, "mesh", None) or getattr(old, "mesh", None),
    )  # fmt: skip
    return compile_program(ClosedJaxpr(Jaxpr((), (value,), (), (value,))), request)
