"""The bottom trace, which runs each primitive as a small compiled program through C++; also exchanges of shards."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import (
    Function,
    Shape,
    UnexpectedTracerError,
    cached,
    config,
    strict_zip,
)
from pellucid._machine.ir import (
    AbstractRef,
    Avals,
    ClosedJaxpr,
    HigherOrderPrimitive,
    Jaxpr,
    Operands,
    Placed,
    Primitive,
    Runs,
    ShapedArray,
    Var,
    constants_as_inputs,
    forget_sources,
    subjaxprs,
)
from pellucid._machine.runtime.array import default_sharding
from pellucid._machine.runtime.assembly import make_array_from_callback
from pellucid._machine.runtime.calls import clear_entries, make_call
from pellucid._machine.runtime.executable import Executable, is_wrapped
from pellucid._machine.runtime.transfer import device_put, from_host, put_host, put_leaf
from pellucid._machine.sharding import Sharding
from pellucid._machine.sharding.layout import Layout
from pellucid._machine.tracing import (
    DischargedJaxpr,
    Trace,
    Tracer,
    bind,
    check_alive,
    computes_known,
    note_scalar,
    stage,
    types_of,
)
from pellucid._machine.xla import ArrayImpl, flatten, trace_context

from . import interception, key_reuse
from .launches import Launch
from .listeners import run
from .pipeline import Request, compile_program
from .placement import ExecutionPlacement, ResolvedPlacement, placements_of, resolved_placement


class EvalTrace(Trace):
    """The trace that computes results immediately."""

    __slots__ = ()
    is_eager = True

    def interpret(self, primitive, operands, params):
        if key_reuse.is_checking():
            records = key_reuse.follow_operation(primitive, params, operands)
            results = self.run(primitive, operands, params)
            key_reuse.remember(results, records)
            return results
        return self.run(primitive, operands, params)

    @staticmethod
    def run(primitive: Primitive[Any], operands: Operands, params: Any) -> Any:
        """Results of `primitive` as a list."""
        if isinstance(primitive, Runs):
            from_tracers(operands)
            results = primitive.run(operands, params)
            if interception.runner is not None:
                interception.look_at(primitive, params, operands, results)
            return results
        return primitive_callable(primitive, params)(*operands)

    def custom_call(self, call, operands):
        return call.function(*operands)

    # Transfers to devices, for lower layers, which access these functions through `bottom()`.

    put = staticmethod(put_leaf)
    put_tree = staticmethod(device_put)
    from_host = staticmethod(from_host)
    from_callback = staticmethod(make_array_from_callback)

    def number(self, value: Any, aval: Any) -> Any:
        """The NumPy scalar `value` of type `aval` on the default device."""
        return put_host(value, aval, default_sharding(), committed=False)

    def scalar(self, value: Any, aval: Any) -> Any:
        """The scalar `value` of type `aval` on the default device; equal ones share an array."""
        array = _scalar(value, aval, default_sharding())
        note_scalar(array, value)
        return array


@cached(256)
def _scalar(value, aval, sharding):
    return put_host(value, aval, sharding, committed=False)


bottom = EvalTrace()
"""The bottom trace, shared by all threads."""


def _cache_operation(make: Function, primitive: Primitive[Any], params: Any, *key: Any) -> Any:
    """`make(primitive, params, *key)`, cached globally, or together with the programs among `params`."""
    memory = _memory(primitive, params)
    if memory is None:
        return make(primitive, params, *key)
    key = (make, primitive, params, *key)
    made = memory.get(key)
    if made is None:
        # Another thread may have created it in the meantime: all use the same one.
        made = memory.setdefault(key, make.__wrapped__(*key[1:]))
    return made


def _memory(primitive: Primitive[Any], params: Any) -> dict[Any, Any] | None:
    programs = subjaxprs(params) if isinstance(primitive, HigherOrderPrimitive) else ()
    return programs[0].memo if programs else primitive.memory(params)


def primitive_callable(primitive: Primitive[Any], params: Any) -> Any:
    """A C++ callable that applies `primitive`; it compiles once per combination of operand types."""
    if isinstance(primitive, HigherOrderPrimitive) or primitive.memory(params) is not None:
        return _cache_operation(compiled_primitive, primitive, params)
    return compiled_primitive(primitive, params)


@cached(8192)
def compiled_primitive(primitive: Primitive[Any], params: Any) -> Any:
    """`primitive_callable` for params without programs."""

    def apply(*operands):
        try:
            return _apply(primitive, params, operands)
        except BaseException:
            # After an error, C++ would use its slow path for operands of these types from then on.
            clear_entries(primitive_callable(primitive, params))
            raise

    def without_fast_path(*operands):
        return apply(*operands)[0]

    # While jit is disabled, C++ calls the function itself, which for a primitive is its own small program.
    # C++ keeps the key outside of the garbage collector's reach: it must not refer to params.
    return make_call(primitive.name, without_fast_path, apply, (), (), primitive.name)


def _apply(primitive: Primitive[Any], params, operands: Operands):
    for x in operands:
        if isinstance(x, Tracer) and x._trace.evaluates_its_tracers:
            return x._trace.interpret(primitive, operands, params), None
    from_tracers(operands)
    avals = tuple(types_of(operands))
    positions = None
    if any(type(aval) is AbstractRef for aval in avals):
        # The condition and body of a loop may use the same reference, which is one operand of the program on values.
        distinct = {id(x): x for x in operands}
        positions = tuple(map([*distinct].index, map(id, operands)))
        operands = tuple(distinct.values())
        avals = tuple(types_of(operands))
    program = _cache_operation(_program, primitive, params, avals, positions, trace_context())
    values = program.operands(operands)
    place = resolved_placement(values, primitive.name, placements_of(primitive, params))
    executable = _cache_operation(_executable, primitive, params, program, place)
    is_of_user = isinstance(primitive, HigherOrderPrimitive)
    launch = Launch(
        getattr(params, "name", primitive.name) if is_of_user else primitive.name,
        program, operands, executable, lambda: clear_entries(primitive_callable(primitive, params)),
        is_of_user=is_of_user, is_operation=True,
    )  # fmt: skip
    results = run(launch)
    if launch.needs_python or program.takes_references:
        return results, None
    return results, executable.fast_path(flatten(results)[1], operands)


@cached(8192)
def _program(
    primitive: Primitive[Any], params, avals: Avals, positions: tuple[int, ...] | None, context
) -> DischargedJaxpr:
    """The program of one primitive; its operand i is argument `positions[i]`."""

    def apply(*xs):
        operands = xs if positions is None else [xs[i] for i in positions]
        return bind(primitive, *operands, params=params)

    previous = computes_known.swap_local(None)  # the primitive itself has to be staged
    try:
        jaxpr, consts = stage(apply, avals)
    finally:
        computes_known.set_local(previous)
    return DischargedJaxpr(constants_as_inputs(forget_sources(jaxpr)), consts)


@cached(8192)
def _executable(
    primitive: Primitive[Any], params: Any, program: DischargedJaxpr, place: ResolvedPlacement
) -> Executable:
    is_placed = isinstance(primitive, Placed)
    results = primitive.stated_results(program.closed.in_avals, params) if is_placed else None
    request = Request(
        primitive.name, place.placement, place.shardings, results,
        donated=program.donated_inputs(()), committed=place.committed, mesh=place.mesh,
        is_exact=config.exact_arithmetic.value,
    )  # fmt: skip
    return compile_program(program.closed, request)


class Planned(NamedTuple):
    """The placement of a value that isn't computed yet."""

    aval: Any
    sharding: Any
    """None for an uncommitted value."""

    @property
    def shape(self) -> Shape:
        return self.aval.shape


def compile_ahead(primitive: Primitive[Any], params: Any, operands: Operands) -> list[Planned]:
    """Compiles the program for a later call of `primitive` with arrays or `Planned` values; returns the planned
    results.
    """
    avals = tuple(types_of(operands))
    program = _cache_operation(_program, primitive, params, avals, None, trace_context())
    place = resolved_placement(operands, primitive.name, placements_of(primitive, params))
    executable = _cache_operation(_executable, primitive, params, program, place)
    # Keys are always committed.
    return [
        Planned(aval, sharding if executable.committed or is_wrapped(aval) else None)
        for aval, sharding in strict_zip(executable.out_avals, executable.out_shardings)
    ]


def from_tracers(operands: Operands) -> None:
    """Raise UnexpectedTracerError if any operand is a tracer, which has escaped its trace."""
    for x in operands:
        if isinstance(x, Tracer):
            check_alive(x)
            raise UnexpectedTracerError(
                "a traced value reached a computation outside its transformation.",
                got=repr(x),
                do="Return it from the transformed function; a function with its own derivative (custom_jvp, "
                "custom_vjp) must get it as an argument.",
            )


def relaid(x: ArrayImpl, sharding: Sharding, layout: Layout | None = None) -> ArrayImpl:
    """A committed copy of array `x` with `sharding` over the same devices in the same order.

    `layout` is the order of elements in memory, by default the device's own.
    """
    current = Layout.from_pjrt_layout(x._pjrt_layout)
    [result] = _relaying(x.aval, x._sharding, current, sharding, layout)([x])
    return result


@cached(1024)
def _relaying(aval: ShapedArray, old, old_layout: Layout, new, layout: Layout | None) -> Executable:
    """The program with which devices exchange the shards of an array."""
    value = Var(aval)
    devices = tuple(new._internal_device_list)
    request = Request(
        "device_put", ExecutionPlacement(devices[0].client, devices), (old,), (new,),
        committed=True, argument_layouts=(old_layout,), result_layouts=(layout,), mesh=getattr(new, "mesh", None) or getattr(old, "mesh", None),
    )  # fmt: skip
    return compile_program(ClosedJaxpr(Jaxpr((), (value,), (), (value,))), request)
