"""Records of related programs: a function at each stage, after transformations, or before and after a change."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    UnsupportedError,
    by_tool,
    bytes_text,
    describe,
)
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import Compiled, make_jaxpr
from pellucid._machine.ir import BatchAxis, DebugInfo, Jaxpr, constants_as_inputs
from pellucid._machine.transforms import batch_jaxpr, jvp_jaxpr, linearize_jaxpr, transpose_jaxpr
from pellucid._machine.transforms.arguments import is_differentiable
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.kernel_steps import is_kernel
from pellucid.introspect.lineage import Made, equations_by_id
from pellucid.introspect.mosaic_gpu_text import mosaic_gpu_text
from pellucid.introspect.mosaic_passes import KernelPasses, mosaic_passes
from pellucid.introspect.program import argument_names, kept_names, name_of, residual_name
from pellucid.introspect.schema import (
    DiffRecord,
    LadderRecord,
    LensRecord,
    LinkRecord,
    ProgramRecord,
)
from pellucid.introspect.triton_text import Resources, TritonText, triton_text
from pellucid.kernels import tpu
from pellucid.kernels.gpu import params as mosaic_gpu
from pellucid.kernels.triton import language as triton

from .links import link, link_siblings
from .programs import jaxpr_program, program
from .stablehlo import (
    mosaic_gpu_program,
    mosaic_pass_program,
    mosaic_program,
    ptx_program,
    triton_program,
)

MAX_KERNELS = 8
"""Maximum number of kernels that a lens shows in the dialects of Triton and of Mosaic."""
ARCHITECTURE = "9.0"
"""The GPU that a lens compiles these kernels for, by its compute capability: an H100."""


@by_tool
def lens(
    function: Callable[..., Any],
    *args: Any,
    chip: str | None = None,
    report: Callable[[str, float], object] = lambda text, seconds: None,
) -> LensRecord:
    """A function at each stage for these arguments: jaxpr, StableHLO and optimized HLO, with links between equations.

    The kernels for Triton that it calls follow, and those for Hopper GPUs by Mosaic, each with its PTX and a note of what it needs of an H100 where
    the extra `gpu-aot` is installed, and those with `tpu.CompilerParams` in Mosaic's dialect, with what they hold in vector memory. For a `chip` such as
    "v5e" each of these has its text after each pass of TPUs' compiler that changed it, where the extra `tpu-aot` is installed; `report` is called
    with the latest pass and its seconds. Compiles the function if it isn't compiled yet.

    >>> record = lens(lambda x: x * 2.0, 1.0)
    >>> [program.dialect for program in record.programs], [link.relation for link in record.links]
    (['jaxpr', 'stablehlo', 'hlo'], ['lower', 'compile', 'compile'])
    """
    jitted = function if hasattr(function, "trace") else jit(function)
    traced = jitted.trace(*args)  # pyright: ignore[reportFunctionMemberAccess]  # a jitted function has it
    lowered = traced.lower()
    before, middle, after = program(traced), program(lowered), program(lowered.compile())
    passes = None if chip is None else functools.partial(mosaic_passes, chip=chip, report=report)
    kernels, refusals = _kernel_stages(traced.jaxpr.jaxpr, traced.fun_name, passes)
    stages = [before, middle, after, *[stage.program for stage in kernels]]
    return LensRecord(
        name=traced.fun_name,
        programs=stages,
        links=[
            link(before, middle, "lower"),
            link(middle, after, "compile"),
            link(before, after, "compile"),
            *[
                link(before, each, "lower")
                for each in stages
                if each.dialect in ("triton", "mosaic", "mosaic_gpu")
            ],
        ],
        notes=["", "", " ".join(refusals), *[stage.note for stage in kernels]]
        if kernels or refusals
        else [],
    )


class _Stage(NamedTuple):
    """A program of a lens, with its note."""

    program: ProgramRecord
    note: str


def _kernel_stages(
    jaxpr: Jaxpr, name: str, passes: Callable[[Any], KernelPasses] | None
) -> tuple[list[_Stage], list[str]]:
    """(the kernels for GPUs and for TPUs that a program calls, as devices run them; why others of them can't be lowered).

    A kernel for GPUs is followed by its PTX if something installed compiles it, one for TPUs by its `passes`.
    """
    found: list[list[_Stage]] = []
    refusals: list[str] = []
    for each in programs_within(jaxpr):
        for equation in each.equations:
            if is_kernel(equation) and equation.params.is_own and len(found) < MAX_KERNELS:
                kernel = equation.params.kernel
                try:
                    if isinstance(kernel.compiler_params, triton.CompilerParams):
                        program = triton_program(kernel, key=f"{name}:triton:{len(found)}")
                        key = f"{name}:ptx:{len(found)}"
                        found.append(_with_ptx(program, _triton_code(triton_text(kernel)), key))
                    elif isinstance(kernel.compiler_params, mosaic_gpu.CompilerParams):
                        line, key = describe(equation.source), f"{name}:mosaic_gpu:{len(found)}"
                        program = mosaic_gpu_program(kernel, line, key=key)
                        text, key = mosaic_gpu_text(kernel, line), f"{name}:ptx:{len(found)}"
                        code = lambda text=text: (text.assembly().text, text.resources())
                        found.append(_with_ptx(program, code, key))
                    elif isinstance(kernel.compiler_params, tpu.CompilerParams):
                        line, key = describe(equation.source), f"{name}:mosaic:{len(found)}"
                        found.append([_in_mosaic(*mosaic_program(kernel, line=line, key=key))])
                        if passes is not None:
                            _add_passes(found[-1], equation, passes, key)
                except UnsupportedError as error:
                    refusals.append(" ".join(str(error).split()))
    return [*itertools.chain(*found)], refusals


def _in_mosaic(program: ProgramRecord, vmem: Sequence[tuple[str, int]]) -> _Stage:
    """A kernel in Mosaic's dialect, with what it holds in VMEM."""
    counts = Counter(vmem)  # references that the body makes may be several of one type
    parts = ", ".join(
        [f"{f'{n} × ' * (n > 1)}{name} {bytes_text(size)}" for (name, size), n in counts.items()]
    )
    total = bytes_text(sum([size for _, size in vmem]))
    return _Stage(program, f"{total} of VMEM{': ' if parts else ''}{parts}")


def _add_passes(
    stages: list[_Stage], equation: Any, passes: Callable[[Any], KernelPasses], key: str
) -> None:
    """Let a kernel in Mosaic's dialect be followed by itself after each pass, or its note say why it isn't."""
    first = stages[0]
    try:
        found = passes(equation)
    except UnsupportedError as error:
        stages[0] = first._replace(note=f"{first.note}; {' '.join(str(error).split())}")
        return
    kernel = equation.params.kernel
    changes = found.passes[1:]  # the first is the module as it is given
    stages += [
        _Stage(mosaic_pass_program(kernel, each, key=f"{key}:{i}"), "")
        for i, each in enumerate(changes)
    ]
    says = f"{len(changes)} of {found.n_passes} passes changed it"
    if found.failure:
        says += f"; the compiler stopped: {found.failure}"
    stages[0] = first._replace(note=f"{first.note}; {says}")


def _triton_code(text: TritonText) -> Callable[[], tuple[str, Resources]]:
    """A function that compiles a kernel in Triton's dialect."""

    def compile_it() -> tuple[str, Resources]:
        code = text.assembly(ARCHITECTURE)
        return code.text, text.resources_of(code, ARCHITECTURE)

    return compile_it


def _with_ptx(
    program: ProgramRecord, compile_it: Callable[[], tuple[str, Resources]], key: str
) -> list[_Stage]:
    """A kernel as GPUs run it, with what it needs of one, or why that isn't known, and its PTX if that is known."""
    try:
        code, needed = compile_it()
    except (UnsupportedError, CompilationError) as error:
        return [_Stage(program, " ".join(str(error).split()))]
    ptx = ptx_program(program.name, code, key=key)
    return [_Stage(program, resources_text(needed)), _Stage(ptx, "")]


def resources_text(needed: Resources) -> str:
    """What a kernel needs of a GPU, in one line."""
    parts = [
        f"{needed.registers} registers per thread",
        f"{needed.spilled_bytes:,} B spilled",
        f"{needed.shared_bytes:,} B of shared memory",
    ]
    if needed.programs_at_once is not None and needed.occupancy is not None:
        parts.append(
            f"{needed.programs_at_once} programs at once, occupancy {needed.occupancy:.0%}"
        )
    return f"compute capability {ARCHITECTURE}: {', '.join(parts)}"


TRANSFORMATIONS = ("jvp", "linearize", "transpose", "vmap")


@by_tool
def ladder(
    function: Callable[..., Any],
    *args: Any,
    transformations: Sequence[str] = TRANSFORMATIONS,
    batch_size: int = 8,
) -> LadderRecord:
    """The program of a function, and that after each of several transformations, with links between equations.

    `jvp` computes values and tangents. `linearize` is the linear program from tangents to tangents at a point; its
    first inputs are residuals. `transpose` is its transpose, the backward pass, and is linked to the linear program if
    that comes before it. `vmap` applies the program to `batch_size` arguments at once.

    >>> record = ladder(lambda x: x * 2.0, 1.0, transformations=("jvp", "transpose"))
    >>> record.transformations, [len(p.equations.id) for p in record.programs]
    (['', 'jvp', 'transpose'], [1, 2, 1])
    """
    unknown = set(transformations) - set(TRANSFORMATIONS)
    if unknown:
        raise ArgumentValueError(
            f"ladder knows no transformation {min(unknown)!r}.",
            do=f"Use some of {', '.join(TRANSFORMATIONS)}.",
        )
    closed = make_jaxpr(function)(*args)
    jaxpr = constants_as_inputs(closed.jaxpr)
    name = name_of(jaxpr)
    first = jaxpr_program(closed.jaxpr, key=f"{name}:jaxpr")
    base = frozenset(equations_by_id(jaxpr))
    programs, sources = [first], [-1]
    links: list[LinkRecord] = []
    names = ["", *transformations]
    for transformation in transformations:
        rung = jaxpr_program(
            transform_program(jaxpr, transformation, batch_size, len(closed.consts)), name=name, key=f"{name}:{transformation}",
            origin=Made(transformation, base), forward=None if transformation == "vmap" else jaxpr,
        )  # fmt: skip
        links.append(link(first, rung, transformation))
        sources.append(0)
        if transformation == "transpose" and "linearize" in names[: len(programs)]:
            sources[-1] = names.index("linearize")
            links.append(link_siblings(programs[sources[-1]], rung, transformation))
        programs.append(rung)
    return LadderRecord(
        name=name, transformations=names, sources=sources, programs=programs,
        links=links,
    )  # fmt: skip


def transform_program(
    jaxpr: Jaxpr, transformation: str, batch_size: int = 8, n_constants: int = 0
) -> Jaxpr:
    """Applies one of `TRANSFORMATIONS` to a program without constants, whose first `n_constants` inputs are values from
    outside: these have no tangents and no batch.
    """
    is_argument = [i >= n_constants for i in range(len(jaxpr.invars))]
    arguments = list(zip(jaxpr.in_avals, is_argument, strict=True))
    if transformation == "vmap":
        dims = [0 if hasattr(aval, "shape") and given else None for aval, given in arguments]
        return batch_jaxpr(jaxpr, BatchAxis(batch_size), dims, True).program.jaxpr
    nonzero = [is_differentiable(aval) and given for aval, given in arguments]
    if transformation == "jvp":
        return jvp_jaxpr(jaxpr, nonzero, False).program.jaxpr
    linear, results = _linear_program(jaxpr, nonzero)
    if transformation == "linearize":
        return linear
    n_residuals = len(linear.invars) - sum(nonzero)
    is_linear = [False] * n_residuals + [True] * sum(nonzero)
    transposed = transpose_jaxpr(linear, is_linear, linear.out_avals, True).program.jaxpr
    if transposed.debug is None:
        return transposed
    # Cotangents of the results come last; the program's own results are those of the arguments.
    known = [*argument_names(transposed).values()][: len(transposed.invars) - len(results)]
    names = [*known, *[f"d({name})" for name in results]]
    paths = [name and f"d({name})" for name in compress(argument_names(jaxpr).values(), nonzero)]
    info = transposed.debug
    return transposed.replace(
        debug=DebugInfo(info.traced_for, info.func_src_info, names, paths, notes=info.notes)
    )


def _linear_program(jaxpr: Jaxpr, nonzero: Sequence[bool]) -> tuple[Jaxpr, list[str]]:
    """(the linear map of a program at a point, with the names of the values that it takes from there; names of the
    results that have a tangent).
    """
    parts = linearize_jaxpr(jaxpr, tuple(nonzero))
    linear, primal = parts.linear.jaxpr, parts.primal.jaxpr
    paths = () if jaxpr.debug is None else jaxpr.debug.result_names
    padded = [*paths, *["result"] * (len(jaxpr.outvars) - len(paths))]
    results = [*compress(padded, parts.nonzero_out)]
    if linear.debug is None:
        return linear, results
    names, known = kept_names(primal), [*argument_names(linear).values()]
    kept = {"result": primal.outvars, "input": primal.invars[len(parts.consts) :]}
    for i, source in enumerate(parts.sources):
        if not known[i] and source.kind in kept:
            known[i] = residual_name(primal, kept[source.kind][source.index], names)
    info = linear.debug
    debug = DebugInfo(info.traced_for, info.func_src_info, known, notes=info.notes)
    return linear.replace(debug=debug), results


@by_tool
def diff(before: Any, after: Any, *args: Any) -> DiffRecord:
    """A comparison of two programs: anything that `program` accepts. If they are functions, both are applied to `args`.

    Identical equations are matched, and those that a transformation of one program took from the other. The view
    matches the remaining ones by their operations.

    >>> jaxpr = pl.make_jaxpr(lambda x: jnp.sin(x) + 1)(1.0)
    >>> record = diff(jaxpr, pl.make_jaxpr(lambda x: jnp.cos(x))(1.0))
    >>> len(record.before.equations.id), len(record.after.equations.id), record.matches
    (2, 1, None)
    >>> len(diff(jaxpr, jaxpr).matches.source_ids)
    2
    """
    first, second = _side(before, "before", args), _side(after, "after", args)
    return DiffRecord(before=first, after=second, matches=_matches(first, second))


def _side(x: Any, key: str, args: tuple[Any, ...]) -> ProgramRecord:
    if isinstance(x, ProgramRecord):
        return x
    return program(x, *(args if callable(x) and not isinstance(x, Compiled) else ()), key=key)


def _matches(first: ProgramRecord, second: ProgramRecord) -> LinkRecord | None:
    if first.dialect != "jaxpr" or second.dialect != "jaxpr":
        return None
    pairs = link(first, second, "same")
    return pairs if pairs.source_ids else None
