"""`TracedFunction`: a jitted function traced for one kind of arguments; `JitOptions`: the options of `jit`."""

from __future__ import annotations

import threading
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pellucid._machine.base import called_by_user, config
from pellucid._machine.compilation.placement import ResolvedPlacement
from pellucid._machine.ir import DebugInfo, Values
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.tracing import DischargedJaxpr, FunctionCall, FunctionSpec, code_of, type_of

from .calls import JitParams
from .jit_shardings import Layouts, Stated, with_constraints
from .misses import Miss


@dataclass(frozen=True, eq=False)
class JitOptions:
    """A function with its options given to `jit`."""

    spec: FunctionSpec
    _: KW_ONLY
    inline: bool = False
    keep_unused: bool = False
    device: Any = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    in_shardings: Stated | None = None
    out_shardings: Stated | None = None
    share: bool = True
    """False for pellucid's own functions."""

    @property
    def name(self) -> str:
        """The function's name in messages: of pellucid's own that of the public one which the user's line calls."""
        name = self.spec.name
        return name if self.share else called_by_user() or name.lstrip("_")

    def key(self) -> tuple[Any, ...]:
        """The part of cache keys that depends on neither function nor arguments."""
        spec = self.spec
        return (
            code_of(spec.function), spec.static_nums, spec.static_names, spec.donated_nums, spec.donated_names, self.inline,
            self.keep_unused, self.device, self.compiler_options, self.in_shardings, self.out_shardings,
        )  # fmt: skip


@dataclass(eq=False, slots=True, weakref_slot=True)
class TracedFunction:
    """A traced function: its jaxpr, closed-over values, and executables by placement."""

    params: JitParams
    consts: Values
    out_tree: Any
    call: FunctionCall
    debug_info: DebugInfo
    """Names of the call's arguments, computed on first use."""
    in_layouts: Layouts = None
    out_layouts: Layouts = None
    is_exact: bool = field(default_factory=lambda: config.exact_arithmetic.value)
    """Value of the option `exact_arithmetic` when it was traced."""
    executables: dict[ResolvedPlacement, Executable] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)  # pyright: ignore[reportGeneralTypeIssues]
    """Held while an executable is compiled, so that threads which need the same one wait."""
    miss: Miss | None = None
    nested: JitParams | None = None
    in_shardings: Any = field(init=False)
    values: DischargedJaxpr = field(init=False)
    """The jaxpr of `params` without references, as it is compiled."""

    def __post_init__(self) -> None:
        placements = self.params.in_shardings
        self.in_shardings = None if placements is None else placements[len(self.consts) :]
        self.values = DischargedJaxpr(self.params.jaxpr.jaxpr, self.consts)

    @property
    def is_of_tool(self) -> bool:
        """Whether only viewers have used it."""
        return self.miss is not None and self.miss.is_by_tool

    def params_of_call(self) -> JitParams:
        """The params of a call from another program, where placements become constraints."""
        params = self.params
        if params.in_shardings is None and params.out_shardings is None:
            return params
        if self.nested is None:
            avals = [*map(type_of, self.consts), *self.call.avals]
            program = with_constraints(
                params.jaxpr.jaxpr, avals, params.in_shardings, params.out_shardings
            )
            self.nested = params._replace(jaxpr=program)
        return self.nested

    def argument_names(self) -> tuple[str, ...]:
        """A name for each input of the compiled program."""
        names = self.debug_info.argument_names
        return (*["a reference from outside"] * len(self.values.closed_over), *names)
