"""The call of a program as a primitive, which jitted functions become under a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid.higher_order.calls import Call
from pellucid.ir.facets import Shown
from pellucid.ir.jaxpr import ClosedJaxpr, Equation


class JitParams(NamedTuple):
    """`jaxpr` has no constants: what the function closes over are operands in front of its arguments."""

    name: str
    jaxpr: ClosedJaxpr
    donated_invars: tuple[bool, ...] = ()
    inline: bool = False
    keep_unused: bool = False
    in_shardings: tuple[Any, ...] | None = None
    out_shardings: tuple[Any, ...] | None = None
    compiler_options: tuple[tuple[str, Any], ...] = ()

    def on(self, program: ClosedJaxpr) -> JitParams:
        """Params of a call of a program derived from this one."""
        return JitParams(
            self.name, program, inline=self.inline, compiler_options=self.compiler_options
        )


class Jit(Shown, Call):
    """A call of a program that is compiled as a function of its own."""

    name = "jit"

    def lower(self, ctx: Any, operands: Sequence[Any], params: JitParams) -> Sequence[Any]:
        return ctx.call(params.jaxpr.jaxpr, params.name, operands)

    def printed_params(self, equation: Equation) -> dict[str, Any]:
        params = equation.params
        shown: dict[str, Any] = {"name": params.name, "jaxpr": params.jaxpr}
        if any(params.donated_invars):
            shown["donated_invars"] = params.donated_invars
        if params.inline:
            shown["inline"] = True
        if params.keep_unused:
            shown["keep_unused"] = True
        for name in ("in_shardings", "out_shardings"):
            if getattr(params, name) is not None:
                shown[name] = getattr(params, name)
        return shown


jit_p = Jit()
