"""`jit`: trace once for each kind of arguments, compile, and call through C++."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid.base.errors import ArgumentTypeError
from pellucid.base.events import CacheLooked, on, publish
from pellucid.base.source import capture
from pellucid.compilation.options import frozen
from pellucid.compilation.pipeline import LoweredProgram, Request, compile_lowered, lower_program
from pellucid.compilation.placement import where
from pellucid.ir.effects import Effects
from pellucid.ir.jaxpr import ClosedJaxpr, Equation
from pellucid.ir.primitive import Primitive
from pellucid.ir.rewriting import remove_dead_equations
from pellucid.ir.rules import BatchAxis, BatchDim, LinearOperand, Zero
from pellucid.runtime import platforms
from pellucid.runtime.executable import Executable
from pellucid.runtime.transfer import shard_argument
from pellucid.tracing.context import context
from pellucid.tracing.function import Call, FunctionSpec, name_of, resolve_arguments
from pellucid.tracing.replay import replay
from pellucid.tracing.staging import stage
from pellucid.tracing.trace import bind
from pellucid.tracing.tracer import Tracer
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.linearize import linearize_jaxpr
from pellucid.transforms.transpose import transpose_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import spread
from pellucid.xla.calls import make_call
from pellucid.xla.flags import trace_context
from pellucid.xla.pytree import flatten

# The primitive ------------------------------------------------------------------------------------


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
        return JitParams(self.name, program, inline=self.inline, compiler_options=self.compiler_options)


class Jit(Primitive[JitParams]):
    """A call of a program."""

    name = "jit"
    remember_types = False

    def abstract_eval(self, avals: tuple[Any, ...], params: JitParams) -> Sequence[Any]:
        return params.jaxpr.out_avals

    def _typed(self, avals: tuple[Any, ...], params: JitParams) -> Any:
        return params.jaxpr.out_avals, params.jaxpr.effects

    def effects(self, avals: tuple[Any, ...], params: JitParams) -> Effects:
        return params.jaxpr.effects

    def called(self, params: JitParams) -> Any:
        return params.jaxpr.jaxpr

    def jvp(self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: JitParams) -> tuple[Any, Any]:
        nonzero = [type(t) is not Zero for t in tangents]
        program, consts, nonzero_out = jvp_jaxpr(params.jaxpr.jaxpr, nonzero, False)
        given = [t for t, nz in zip(tangents, nonzero, strict=True) if nz]
        results = bind(self, *consts, *primals, *given, params=params.on(program))
        n = len(nonzero_out)
        return results[:n], spread(results[n:], nonzero_out, params.jaxpr.out_avals)

    def linearize(self, trace: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: JitParams) -> Any:
        nonzero = [type(t) is not Zero for t in tangents]
        parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero)
        results = bind(self, *parts.consts, *primals, params=params.on(parts.primal))
        n = len(parts.nonzero_out)
        found: Sequence[Any] = ()
        if any(parts.nonzero_out):
            given = [t for t, nz in zip(tangents, nonzero, strict=True) if nz]
            operands = (*parts.residuals(primals, results), *given)
            found = trace.stage_linear(self, operands, params.on(parts.linear))
        return results[:n], spread(found, parts.nonzero_out, params.jaxpr.out_avals)

    def transpose(self, cotangents: tuple[Any, ...], operands: tuple[Any, ...], params: JitParams) -> Sequence[Any]:
        linear = [type(x) is LinearOperand for x in operands]
        nonzero = [type(ct) is not Zero for ct in cotangents]
        program, consts, mask = transpose_jaxpr(params.jaxpr.jaxpr, linear, nonzero, False)
        given = [x for x, is_linear in zip(operands, linear, strict=True) if not is_linear]
        given += [ct for ct, nz in zip(cotangents, nonzero, strict=True) if nz]
        results = iter(bind(self, *consts, *given, params=params.on(program)))
        masked = iter(mask)
        return [
            None if not is_linear else next(results) if next(masked) else Zero(x.aval)
            for x, is_linear in zip(operands, linear, strict=True)
        ]

    def batch(
        self, axis: BatchAxis, operands: tuple[Any, ...], dims: tuple[BatchDim, ...], params: JitParams
    ) -> tuple[Sequence[Any], Sequence[BatchDim]]:
        program, consts, out_dims = batch_jaxpr(params.jaxpr.jaxpr, axis, dims)
        return bind(self, *consts, *operands, params=params.on(program)), out_dims

    def lower(self, ctx: Any, operands: Sequence[Any], params: JitParams) -> Sequence[Any]:
        return ctx.call(params.jaxpr.jaxpr, params.name, operands)

    def dead_code(self, used: list[bool], equation: Equation) -> tuple[list[bool], Any]:
        jaxpr = equation.params.jaxpr.jaxpr
        key = ("dead code", tuple(used))
        found = jaxpr.memo.get(key)
        if found is None:
            pruned, used_inputs = remove_dead_equations(jaxpr, used)
            found = jaxpr.memo[key] = (ClosedJaxpr(pruned), used_inputs)
        program, used_inputs = found
        if not program.jaxpr.equations and not program.effects and not any(used):
            return used_inputs, None
        operands = [x for x, u in zip(equation.operands, used_inputs, strict=True) if u]
        results = [x for x, u in zip(equation.results, used, strict=True) if u]
        return used_inputs, equation.replace(
            operands=operands, results=results, params=equation.params.on(program)
        )

    def printed_params(self, equation: Equation) -> dict[str, Any]:
        params = equation.params
        shown: dict[str, Any] = {"name": params.name, "jaxpr": params.jaxpr}
        if any(params.donated_invars):
            shown["donated_invars"] = params.donated_invars
        if params.inline:
            shown["inline"] = True
        if params.keep_unused:
            shown["keep_unused"] = True
        return shown


jit_p = Jit()

# The function users call --------------------------------------------------------------------------


class Program(NamedTuple):
    """A traced function: its program, what it closes over, the tree of its results."""

    params: JitParams
    consts: list[Any]
    out_tree: Any
    call: Call


class Jitted:
    """The Python side of a jitted function: its programs and executables."""

    def __init__(self, spec: FunctionSpec, *, inline: bool, keep_unused: bool, device: Any, compiler_options: Any) -> None:
        self.spec = spec
        self.inline = inline
        self.keep_unused = keep_unused
        self.device = device
        self.compiler_options = compiler_options
        self.programs: dict[Any, Program] = {}
        self.executables: dict[Any, Executable] = {}

    def cache_miss(self, *args: Any, **kwargs: Any) -> Any:
        """What C++ calls when it has no executable: (results, how to run without Python)."""
        call = self.spec.call(args, kwargs)
        program = self.program(call)
        if not context.trace.is_eager or any(isinstance(x, Tracer) for x in call.leaves):
            return program.out_tree.unflatten(self.staged(program, call.leaves)), None
        executable = self.executable(program, call.leaves)
        results = executable(call.leaves)
        return program.out_tree.unflatten(results), executable.fast_path(program.out_tree)

    def staged(self, program: Program, leaves: Sequence[Any]) -> list[Any]:
        """Results of a call under a trace."""
        if program.params.inline:
            return replay(program.params.jaxpr.jaxpr, (), *program.consts, *leaves)
        return bind(jit_p, *program.consts, *leaves, params=program.params)

    def program(self, call: Call) -> Program:
        """The program for a call's arguments, traced unless it is known."""
        key = (call.tree, call.avals, call.static, trace_context())
        program = self.programs.get(key)
        if on.cache_looked:
            publish(on.cache_looked, CacheLooked(self.spec.name, self.spec.function, program is not None, key=key, source=capture()))
        if program is None:
            program = self.trace(call)
            if not any(isinstance(c, Tracer) for c in program.consts):
                self.programs[key] = program
        return program

    def trace(self, call: Call) -> Program:
        """Trace the function for a call's arguments."""
        spec = self.spec
        trees: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            results, tree = flatten(spec.run(call, leaves))
            trees.append(tree)
            return results

        jaxpr, consts = stage(flat, call.avals, spec.debug_info(call))
        jaxpr = jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
        donated = spec.donated(call)
        params = JitParams(
            spec.name, ClosedJaxpr(jaxpr), (*[False] * len(consts), *donated) if donated else (),
            self.inline, self.keep_unused, compiler_options=self.compiler_options,
        )  # fmt: skip
        return Program(params, consts, trees[0], call._replace(leaves=[]))

    def lower(self, program: Program, leaves: Sequence[Any]) -> LoweredProgram:
        """The StableHLO module for arguments that lie where `leaves` do."""
        place = where(leaves, self.spec.name, self.device)
        return lower_program(closed(program), self.request(program, place))

    def request(self, program: Program, place: Any) -> Request:
        """What decides the executable of `program` at `place`."""
        return Request(
            self.spec.name, place.placement, place.shardings, None,
            donated=program.params.donated_invars[len(program.consts) :],
            keep_unused=self.keep_unused, committed=place.committed,
            compiler_options=self.compiler_options,
        )  # fmt: skip

    def executable(self, program: Program, leaves: Sequence[Any]) -> Executable:
        """The executable of `program` where `leaves` lie, compiled unless it is known."""
        place = where(leaves, self.spec.name, self.device)
        key = (id(program.params.jaxpr), place)
        found = self.executables.get(key)
        if found is None:
            lowered = lower_program(closed(program), self.request(program, place))
            found = self.executables[key] = compile_lowered(lowered)
        return found


def closed(program: Program) -> ClosedJaxpr:
    """The program with what it closes over as constants again."""
    jaxpr, n = program.params.jaxpr.jaxpr, len(program.consts)
    return ClosedJaxpr(jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:]), program.consts)


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """`fun`, traced and compiled at its first call for each kind of arguments.

    >>> jit(lambda x: x + x)(np.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if fun is None:
        return functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
            static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options,
        )  # fmt: skip
    if not callable(fun):
        raise ArgumentTypeError("jit takes a function.", got=f"got {type(fun).__name__}")
    static_nums, static_names = resolve_arguments(fun, static_argnums, static_argnames, "static")
    donated_nums, donated_names = resolve_arguments(fun, donate_argnums, donate_argnames, "donate")
    spec = FunctionSpec(fun, name_of(fun), static_nums, static_names, donated_nums, donated_names)
    if backend is not None:
        device = platforms.client(backend).local_devices()[0]
    jitted = Jitted(spec, inline=inline, keep_unused=keep_unused, device=device, compiler_options=frozen(compiler_options))
    call = make_call(
        spec.name, fun, jitted.cache_miss, static_nums, static_names,
        (static_nums, static_names, donated_nums, donated_names, keep_unused, device, inline, jitted.compiler_options),
        shard_argument,
    )  # fmt: skip
    functools.update_wrapper(call, fun)
    call.jitted = jitted
    return call
