"""A kernel after each of the passes of TPUs' compiler, with the user's lines; no TPU is needed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from pellucid._machine.base import UnsupportedError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import Equation, axis_names, programs_of
from pellucid._machine.tracing import bind
from pellucid._machine.xla.plugins import PluginMissingError
from pellucid._machine.xla.tpu_passes import PassesFailedError, tpu_passes
from pellucid.kernels.targets import tpu_chip

from .lineage import equation_id

__all__ = ["MAX_SECONDS", "KernelPasses", "MosaicPass", "mosaic_passes"]
MAX_SECONDS = 120.0
"""How long the compiler may take for a kernel: of blocks of many thousand rows it takes hours."""
Report = Callable[[str, float], object]


class MosaicPass(NamedTuple):
    """A kernel after a pass that has changed it."""

    name: str
    text: str
    equations: list[int]
    """For each line of the text the id of the equation that it is made from; -1 for none."""


class KernelPasses(NamedTuple):
    """A kernel after each pass, up to where the compiler fails."""

    passes: list[MosaicPass]
    n_passes: int
    """The number of all passes, also of those that changed nothing."""
    failure: str = ""
    """Why the compiler has stopped; empty if it hasn't."""


def mosaic_passes(
    equation: Equation,
    chip: str = "v5e",
    *,
    seconds: float = MAX_SECONDS,
    report: Report = lambda name, seconds: None,
) -> KernelPasses:
    """The kernel that an equation calls, after each pass of the compiler for a chip; `report` is called with the latest pass and the time.

    The compiler runs in a process of its own, which an interrupt ends. Raises: UnsupportedError for a kernel that can't be lowered to TPUs
    or that reaches other devices, and without the compiler.
    """
    topology = tpu_chip(chip).topology
    name = equation.params.name  # pyright: ignore[reportAttributeAccessIssue]  # of kernels
    if _names_axes(equation):
        raise UnsupportedError(
            f"the kernel `{name}` reaches other devices, or asks for its position among them: its passes aren't shown.",
            do="Show those of a kernel of one device.",
        )
    run = functools.partial(bind, equation.primitive, params=equation.params)
    avals = [a.aval for a in equation.operands]
    module = jit(run).trace(*avals).lower(lowering_platforms=("tpu",)).compiler_ir()
    try:

        def say(latest: str, after: float) -> None:
            report(f"passes of `{name}` for {chip}: {latest}", after)

        found, failure = tpu_passes(module, topology, seconds, say), ""
    except PluginMissingError as error:
        raise UnsupportedError(f"the passes of kernel `{name}` aren't shown: {error}.") from error
    except PassesFailedError as error:
        found, failure = error.passes, str(error)
    passes: list[MosaicPass] = []
    for each in found:
        text, equations = _without_locations(each.text)
        if not passes or passes[-1].text != text:
            passes.append(MosaicPass(each.name, text, equations))
    return KernelPasses(passes, n_passes=max(len(found) - 1, 0), failure=failure)


def _names_axes(equation: Equation) -> bool:
    """Whether something within an equation names axes of a mesh."""
    for program in programs_of(equation):
        for each in getattr(program, "jaxpr", program).equations:
            if axis_names(each.primitive, each.params) or _names_axes(each):
                return True
    return False


_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_AT_END = re.compile(r" loc\(((?:[^()]|\([^()]*\))*)\)$")
_IN_LINE = re.compile(r" loc\((?:#loc\d*|unknown|\"[^\"]*\"[^()]*)\)")


def _without_locations(text: str) -> tuple[str, list[int]]:
    r"""(the text without locations, the id of the equation of each line).

    >>> _without_locations('%0 = tpu.x loc(#loc1)\n#loc = loc("f.py":1:2)\n#loc2 = loc("e7:"(#loc))\n#loc1 = loc("mul"(#loc2))\n')
    ('%0 = tpu.x', [7])
    """
    lines = text.rstrip("\n").split("\n")
    defined = {m[1]: m[2] for line in lines if (m := _DEFINITION.match(line))}

    @functools.cache
    def origin(location: str) -> int:
        """The id of the equation within a location."""
        for name in re.findall(r'"([^"]*)"', location):
            found = equation_id(name.rstrip(":"))
            if found is not None:
                return found
        inner = [
            origin(defined[each]) for each in re.findall(r"#loc\d*", location) if each in defined
        ]
        return next((each for each in inner if each >= 0), -1)

    kept = [line for line in lines if not _DEFINITION.match(line)]
    equations: list[int] = []
    for line in kept:
        match = _AT_END.search(line)
        equations.append(
            -1
            if match is None or line.lstrip().startswith(("}", "func.func"))
            else origin(match[1])
        )
    return "\n".join([_IN_LINE.sub("", _AT_END.sub("", line)) for line in kept]), equations
