"""The bottom trace: each primitive is a small compiled program, called through C++; and so is an exchange of parts."""

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
    Trace,
    Tracer,
    ValueProgram,
    bind,
    check_alive,
    computes_known,
    note_scalar,
    stage,
    types_of,
)
from pellucid._machine.xla import ArrayImpl, flatten, trace_context

from . import key_reuse
from .launches import Launch
from .listeners import run
from .pipeline import Request, compile_program
from .placement import ExecutionPlacement, ResolvedPlacement, placements_of, resolved_placement


class EvalTrace(Trace):
    """Computes results at once."""

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
        """Results of `primitive`, as a list."""
        if isinstance(primitive, Runs):
            from_tracers(operands)
            return primitive.run(operands, params)
        return compiled(primitive, params)(*operands)

    def custom_call(self, call, operands):
        return call.function(*operands)

    # How arrays get onto devices, for lower layers, which reach these functions by `bottom()`.

    put = staticmethod(put_leaf)
    put_tree = staticmethod(device_put)
    from_host = staticmethod(from_host)
    from_callback = staticmethod(make_array_from_callback)

    def number(self, value: Any, aval: Any) -> Any:
        """The NumPy scalar `value` of type `aval` on the default device."""
        return put_host(value, aval, default_sharding(), committed=False)

    def scalar(self, value: Any, aval: Any) -> Any:
        """The scalar `value` of type `aval` on the default device; equal ones are one array."""
        array = _scalar(value, aval, default_sharding())
        note_scalar(array, value)
        return array


@cached(256)
def _scalar(value, aval, sharding):
    return put_host(value, aval, sharding, committed=False)


bottom = EvalTrace()
"""The bottom trace of every thread."""


def _remembered(make: Function, primitive: Primitive[Any], params: Any, *key: Any) -> Any:
    """`make(primitive, params, *key)`, remembered by the process, or by the programs among `params`, with which it goes."""
    memory = _memory(primitive, params)
    if memory is None:
        return make(primitive, params, *key)
    key = (make, primitive, params, *key)
    made = memory.get(key)
    if made is None:
        # Another thread may have made it meanwhile: all take the same.
        made = memory.setdefault(key, make.__wrapped__(*key[1:]))
    return made


def _memory(primitive: Primitive[Any], params: Any) -> dict[Any, Any] | None:
    programs = subjaxprs(params) if isinstance(primitive, HigherOrderPrimitive) else ()
    return programs[0].memo if programs else primitive.memory(params)


def compiled(primitive: Primitive[Any], params: Any) -> Any:
    """A C++ callable that applies `primitive`; it compiles once for each operands' types."""
    if isinstance(primitive, HigherOrderPrimitive) or primitive.memory(params) is not None:
        return _remembered(compiled_primitive, primitive, params)
    return compiled_primitive(primitive, params)


@cached(8192)
def compiled_primitive(primitive: Primitive[Any], params: Any) -> Any:
    """`compiled` of params that refer to no programs."""

    def apply(*operands):
        try:
            return _applied(primitive, params, operands)
        except BaseException:
            # C++ would take the slow road for operands of this kind from now on, whatever went wrong.
            clear_entries(compiled(primitive, params))
            raise

    def without_fast_path(*operands):
        return apply(*operands)[0]

    # While jit is off, C++ calls the function itself, which for a primitive is its own small program.
    # C++ keeps the key where no garbage collector sees it: it must not refer to params.
    return make_call(primitive.name, without_fast_path, apply, (), (), primitive.name)


def _applied(primitive: Primitive[Any], params, operands: Operands):
    for x in operands:
        if isinstance(x, Tracer) and x._trace.evaluates_its_tracers:
            return x._trace.interpret(primitive, operands, params), None
    from_tracers(operands)
    avals = tuple(types_of(operands))
    positions = None
    if any(type(aval) is AbstractRef for aval in avals):
        # A loop's condition and body may use the same reference: it is one operand of the program on values.
        distinct = {id(x): x for x in operands}
        positions = tuple(map([*distinct].index, map(id, operands)))
        operands = tuple(distinct.values())
        avals = tuple(types_of(operands))
    program = _remembered(_program, primitive, params, avals, positions, trace_context())
    values = program.operands(operands)
    place = resolved_placement(values, primitive.name, placements_of(primitive, params))
    executable = _remembered(_executable, primitive, params, program, place)
    is_of_user = isinstance(primitive, HigherOrderPrimitive)
    launch = Launch(
        getattr(params, "name", primitive.name) if is_of_user else primitive.name,
        program, operands, executable, lambda: clear_entries(compiled(primitive, params)),
        is_of_user=is_of_user, is_operation=True,
    )  # fmt: skip
    results = run(launch)
    if launch.needs_python or program.takes_references:
        return results, None
    return results, executable.fast_path(flatten(results)[1], operands)


@cached(8192)
def _program(
    primitive: Primitive[Any], params, avals: Avals, positions: tuple[int, ...] | None, context
) -> ValueProgram:
    """The program of one primitive, whose operand i is argument `positions[i]`."""

    def apply(*xs):
        operands = xs if positions is None else [xs[i] for i in positions]
        return bind(primitive, *operands, params=params)

    previous = computes_known.swap_local(None)  # the primitive itself is what has to be staged
    try:
        jaxpr, consts = stage(apply, avals)
    finally:
        computes_known.set_local(previous)
    return ValueProgram(constants_as_inputs(forget_sources(jaxpr)), consts)


@cached(8192)
def _executable(
    primitive: Primitive[Any], params: Any, program: ValueProgram, place: ResolvedPlacement
) -> Executable:
    is_placed = isinstance(primitive, Placed)
    results = primitive.stated_results(program.closed.in_avals, params) if is_placed else None
    request = Request(
        primitive.name, place.placement, place.shardings, results,
        donated=program.donated(()), committed=place.committed, mesh=place.mesh,
        is_exact=config.exact_arithmetic.value,
    )  # fmt: skip
    return compile_program(program.closed, request)


class Planned(NamedTuple):
    """The placement of a value that is not computed yet."""

    aval: Any
    sharding: Any
    """None for a value that is not committed to devices."""

    @property
    def shape(self) -> Shape:
        return self.aval.shape


def compile_ahead(primitive: Primitive[Any], params: Any, operands: Operands) -> list[Planned]:
    """Compiles what a later call of `primitive` runs on `operands`, arrays or `Planned` values; gives the planned results."""
    avals = tuple(types_of(operands))
    program = _remembered(_program, primitive, params, avals, None, trace_context())
    place = resolved_placement(operands, primitive.name, placements_of(primitive, params))
    executable = _remembered(_executable, primitive, params, program, place)
    # Keys are committed wherever they lie.
    return [
        Planned(aval, sharding if executable.committed or is_wrapped(aval) else None)
        for aval, sharding in strict_zip(executable.out_avals, executable.out_shardings)
    ]


def from_tracers(operands: Operands) -> None:
    """Raise UnexpectedTracerError if a tracer reached a computation outside its trace."""
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
    """A copy of array `x`, laid out as `sharding` over the same devices in the same order; it is committed.

    `layout` is the order of its elements in memory, by default the device's own.
    """
    current = Layout.from_pjrt_layout(x._pjrt_layout)
    [result] = _relaying(x.aval, x._sharding, current, sharding, layout)([x])
    return result


@cached(1024)
def _relaying(aval: ShapedArray, old, old_layout: Layout, new, layout: Layout | None) -> Executable:
    """The program by which devices exchange the parts of an array."""
    value = Var(aval)
    devices = tuple(new._internal_device_list)
    request = Request(
        "device_put", ExecutionPlacement(devices[0].client, devices), (old,), (new,),
        committed=True, argument_layouts=(old_layout,), result_layouts=(layout,), mesh=getattr(new, "mesh", None) or getattr(old, "mesh", None),
    )  # fmt: skip
    return compile_program(ClosedJaxpr(Jaxpr((), (value,), (), (value,))), request)
