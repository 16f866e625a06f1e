"""What a kernel costs, told with its call on a device: XLA can't count what native code does, and keeps the attribute."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base.late import late
from pellucid._machine.lowering.operations import FRONTEND
from pellucid.kernels.programs import GridKernel

COST_ATTRIBUTE = "kernel_cost"
"""Operations, transcendental ones and bytes of a call, with `?` for what isn't known."""


def cost_attributes(ctx: Any, kernel: GridKernel) -> dict[str, Any]:
    """The attributes of the call of a kernel that say its cost, beside those of its scope."""
    cost = late("cost of a kernel")(kernel)
    numbers = (cost.flops, cost.transcendentals, cost.bytes)
    text = " ".join(["?" if n is None else f"{n:.17g}" for n in numbers])
    scope = ctx.frontend_attributes.get(FRONTEND)
    own = {} if scope is None else {each.name: each.attr for each in scope}
    return {FRONTEND: ctx.dictionary(own | {COST_ATTRIBUTE: text})}
