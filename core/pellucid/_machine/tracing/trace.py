"""Traces, which interpret primitives, and the values that they take: types of operands, and tracers that stand for values.

One trace is current in each thread; a rule runs under its parent.
"""

from __future__ import annotations

import functools
import operator
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ConcretizationTypeError,
    PellucidError,
    Shape,
    Symbol,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    cached,
    called_with,
    dtypes,
    is_loaded,
    strict_zip,
    tracebacks,
    users_function,
)
from pellucid._machine.ir import (
    NO_PARAMS,
    AbstractValue,
    Avals,
    Described,
    Effects,
    Jaxpr,
    Literal,
    Operands,
    Primitive,
    Results,
    Values,
    primitive as primitives,
    shaped_array,
)
from pellucid._machine.xla import ARRAY_TYPES, ArrayImpl, flags, set_tracer_class

from .array_methods import add_late_methods, late_attribute
from .current import context

# Values -------------------------------------------------------------------------------------------

_DTYPES = {
    bool: (np.bool_, np.bool_), int: (np.int32, np.int64), float: (np.float32, np.float64),
    complex: (np.complex64, np.complex128),
}  # fmt: skip
"""Dtypes of Python numbers, without and with 64-bit types."""
_x64 = flags.enable_x64


def type_of_numpy(x: Any) -> AbstractValue:
    """The aval of a NumPy array or scalar; raises ArgumentTypeError for dtypes that arrays can't have."""
    return _type_of_shape(x.shape, x.dtype, _x64.value)


@cached(4096)
def _type_of_shape(shape: Shape, dtype, _is_x64: bool) -> AbstractValue:
    if dtype not in dtypes.SUPPORTED:
        raise ArgumentTypeError(
            f"arrays can't have NumPy's dtype {dtype}.",
            got=f"a NumPy array of dtype {dtype} and shape {shape}",
            do="Use a boolean, integer, floating or complex dtype in the machine's byte order.",
        )
    return shaped_array(shape, dtypes.canonicalize(dtype), False)


def refuse_masked(x: np.ma.MaskedArray) -> NoReturn:
    """Raise ArgumentValueError for an array of NumPy with a mask, which arrays would lose."""
    raise ArgumentValueError(
        "numpy masked arrays are not supported: the mask would be lost.",
        got=f"got {type(x).__name__} of dtype {x.dtype} and shape {x.shape}",
        do="Pass an array without a mask, `x.filled(value)`, or `x.data` and `~x.mask` as `where`.",
    )


value_types: set[type] = {*ARRAY_TYPES}
"""Types of arrays and tracers. Each class of tracers adds itself."""


def _number_handler(kind: type) -> Callable[[Any], AbstractValue]:
    """Handler of Python numbers of type `kind`, and of its subclasses (enumerations of numbers are such)."""
    narrow, wide = (shaped_array((), np.dtype(dtype), kind is not bool) for dtype in _DTYPES[kind])
    return lambda x: wide if _x64.value else narrow


type_handlers: dict[type, Callable[[Any], AbstractValue]] = {
    ArrayImpl: lambda x: x.aval,
    **{kind: _number_handler(kind) for kind in _DTYPES},
    np.ndarray: type_of_numpy,
    np.ma.MaskedArray: refuse_masked,
    Symbol: _number_handler(int),
}
"""For each type of operand, how to get its aval. Extended at import by layers that add types."""


def type_of(x: Any) -> Any:
    """The aval of `x`, for arrays a `ShapedArray`; raises ArgumentTypeError for values that are no arrays.

    >>> type_of(np.ones(3, np.float32))
    ShapedArray(float32[3])
    """
    try:
        return x.aval
    except AttributeError:
        pass
    handler = type_handlers.get(type(x))
    if handler is None:
        handler = _handler_for(x)
    return handler(x)


def types_of(values: Iterable[Any]) -> list[Any]:
    """The avals of `values`."""
    return [type_of(x) for x in values]


def _handler_for(x) -> Callable[[Any], AbstractValue]:
    if isinstance(x, np.generic):  # first, because np.float64 is a Python float too
        type_handlers[type(x)] = type_of_numpy
        return type_of_numpy
    for base in type(x).__mro__:
        if base in type_handlers:
            if base is np.ndarray:
                type_handlers[type(x)] = type_of_numpy
            return type_handlers[base]
    if hasattr(x, "__jax_array__"):
        return lambda value: type_of(as_operand(value))
    raise ArgumentTypeError(
        f"a value of type {type(x).__name__} is not an array.",
        got=f"got {x!r:.80}",
        do="Arrays, NumPy arrays and Python numbers are accepted; convert lists with `jnp.array`.",
    )


def as_operand(x: Any) -> Any:
    """`x`, or the array that `x.__jax_array__()` gives; a symbolic size is an operand itself, as integers are."""
    # Objects that stand for an array may pass `aval` on to it; what has an aval has it by its class.
    if type(x) in type_handlers or hasattr(type(x), "aval") or isinstance(x, Symbol):
        return x
    method = getattr(x, "__jax_array__", None)
    return x if method is None else as_operand(users_function(method)())


E = TypeVar("E", bound=PellucidError)


class OperandText(NamedTuple):
    """An operand in a message."""

    name: str | None
    """Its name, if it is an argument of a function that is traced or transformed, or is computed from one alone."""
    type: str
    batch: str
    """Of which batches it is one element."""


def operand_text(x: Any) -> OperandText:
    """The name, type and batches of the operand `x` of an error."""
    if isinstance(x, Tracer):
        name, sizes = x.argument_name(), x.batches()
        source = None if name else x.only_argument()
        name = f"from {source}" if source else name
    else:
        # Equal numbers may be one object.
        name, sizes = None if type(x) in _DTYPES else context.trace.name_of_argument(x), ()
    batch = f", one of {' x '.join(map(str, reversed(sizes)))} in a batch" if sizes else ""
    return OperandText(name, type_of(x).text(), batch)


def operand_lines(operands: Iterable[Any]) -> list[str]:
    """For each operand of an error its name, if it is an argument of a traced function, its type and its batches."""
    texts = map(operand_text, operands)
    return [f"{t.name or f'argument {i}'}: {t.type}{t.batch}" for i, t in enumerate(texts)]


def name_operands(error: E, operands: Sequence[Any]) -> E:
    """`error`, with the names and batches of `operands` in the lines that have their types.

    A line is `label: type`, where more text may follow, or `got type` or `type`. Operands of one type are named only
    where each of them has a line; lines have the order of the operands.
    """
    if error.names_arguments:
        return error
    error.names_arguments = True
    texts = [*map(operand_text, operands)]
    lines = list(error.got)
    for kind in {text.type for text in texts}:
        alike = [text for text in texts if text.type == kind]
        shown = re.compile(
            f"(?:got )?{re.escape(kind)}|((?:(?!: ).)+): {re.escape(kind)}((?:[, ].*)?)"
        )
        places = [(i, match) for i, line in enumerate(lines) if (match := shown.fullmatch(line))]
        if len(places) == len(alike):
            for (i, match), text in strict_zip(places, alike):
                lines[i] = _named(match[1] or "", match[2] or "", text)
    error.state_got(lines)
    return error


def _named(label: str, more: str, text: OperandText) -> str:
    """A line that shows the type of an operand, with the operand's name and batches."""
    if not more.startswith(text.batch):
        more = text.batch + more
    if text.name and label != text.name:
        has_role = label.rstrip("0123456789") not in ("", "argument ", "array ", "operand ")
        label = f"{label} ({text.name})" if has_role else text.name
    return f"{label}: {text.type}{more}" if label else f"got {text.type}{more}"


def is_array_like(x: Any) -> bool:
    """Whether `type_of(x)` gives an aval.

    >>> is_array_like(1.0), is_array_like("a")
    (True, False)
    """
    # Objects that pass all attributes on to an array are none themselves.
    if type(x) in type_handlers or hasattr(type(x), "aval") or isinstance(x, np.generic):
        return True
    return any(base in type_handlers for base in type(x).__mro__) or hasattr(x, "__jax_array__")


# Plans ---------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One equation; `take` gives its operands from the list of all values so far."""

    primitive: Primitive
    params: Any
    take: Callable[[Values], Operands]
    avals: Avals
    effects: Effects


class Plan(NamedTuple):
    """The steps of a program. Its values are the operands, then `fixed`, then the results of each step.

    `fixed` are the values of `literals`.
    `results` are positions among the values, and `take` gives the values there; `container` is the type of a result that
    holds several. `derived` are programs that transformations made of the plan.
    """

    fixed: Values
    literals: list[Literal]
    steps: list[Step]
    results: list[int]
    take: Callable[[Values], Results]
    container: type | None = None
    derived: dict[Any, Any] = {}  # noqa: RUF012  (each plan has one of its own)


def plan_of(jaxpr: Jaxpr, container: type | None = None) -> Plan:
    """The plan of a program, which takes the values of its constants behind its inputs."""
    equations = jaxpr.equations
    atoms = (*(a for e in equations for a in e.operands), *jaxpr.outvars)
    literals = [*dict.fromkeys(a for a in atoms if isinstance(a, Literal))]
    computed = [v for e in equations for v in e.results]
    values = (*jaxpr.invars, *jaxpr.constvars, *literals, *computed)
    positions: dict[Any, int] = {v: i for i, v in enumerate(values)}
    steps = [
        Step(
            e.primitive, e.params, _taker([positions[a] for a in e.operands]),
            tuple([v.aval for v in e.results]), e.effects,
        )
        for e in equations
    ]  # fmt: skip
    return Plan(
        [literal.val for literal in literals],
        literals,
        steps,
        (results := [positions[a] for a in jaxpr.outvars]),
        _taker(results),
        container,
        {},
    )


def _taker(positions: Sequence[int]) -> Callable[[Values], Sequence[Any]]:
    """Gives the elements of a list at `positions`, as a list or a tuple."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    [first] = positions or [0]
    return operator.itemgetter(slice(first, first + len(positions)))


# Traces --------------------------------------------------------------------------------------------


tracebacks.install()


class Trace:
    """Interprets primitives."""

    __slots__ = ("__weakref__", "call")

    is_eager = False
    """Whether results are computed at once; only then may compiled functions skip Python."""
    evaluates_its_tracers = False
    """Whether it interprets also what eager code does with its tracers, as traces of libraries do."""
    call: Any
    """The call of the user's function that is being transformed; None, or not set, where there is none."""

    def name_of_argument(self, x: Any) -> str | None:
        """The name of `x` as an argument of the user's function that is being transformed; None if it is none."""
        call = getattr(self, "call", None)
        return None if call is None else call.name_of(x)

    @property
    def main(self) -> Any:
        """The trace itself: libraries compare it with that of a tracer to see whose the tracer is."""
        return self

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
        """Results of `primitive`, as a list."""
        raise NotImplementedError(type(self))

    def run_plan(self, plan: Plan, operands: Values) -> Results:
        """Results of a program on `operands`, whose types are those that it was made for."""
        interpret = self.interpret
        values = [*operands, *plan.fixed]
        for primitive, params, take, _, _ in plan.steps:
            values += interpret(primitive, tuple(take(values)), params)
        return plan.take(values)

    def custom_call(self, call: Any, operands: Operands) -> Any:
        """Results of a function with its own derivative, as a list.

        `call` has `function(*operands)`, `rule(primals, tangents)`, `batched(axis, dims)`, `staged(trace, operands)`
        and `has_forward_mode`, which is False where only reverse mode can compute the rule's tangents.
        """
        raise NotImplementedError(type(self))


def bind(primitive: Primitive, *operands: Any, params: Any = NO_PARAMS) -> Values:
    """Results of `primitive` applied to `operands` under the current trace."""
    for x in operands:
        if type(x) not in value_types and type(x) not in type_handlers:
            operands = tuple(map(as_operand, operands))
            break
    if context.unify is not None:
        operands = context.unify(primitive, operands)
    try:
        return context.trace.interpret(primitive, operands, params)
    except PellucidError as error:
        if not isinstance(error, NotImplementedError):
            _check_types(primitive, operands, params, error)
        raise


def _check_types(
    primitive: Primitive, operands: Operands, params: Any, failure: PellucidError
) -> None:
    """Raise what the type rule raises for the operands as the caller has them, with their names.

    The rule that raised `failure` under the current trace may have had other operands: whole batches, or values within a
    program. An error of another class isn't the same failure.
    """
    try:
        primitive.types(tuple(types_of(operands)), params)
    except type(failure) as error:
        raise name_operands(error, operands) from None
    except PellucidError:
        return


primitives.binder = bind


def bind1(primitive: Primitive, *operands: Any, params: Any = NO_PARAMS) -> Any:
    """The one result of `primitive` applied to `operands` under the current trace."""
    return bind(primitive, *operands, params=params)[0]


def find_top_trace(xs: Any) -> Trace:
    """The current trace, whatever the values `xs` are.

    >>> find_top_trace(()).is_eager
    True
    """
    return context.trace


class OpaqueTraceState:
    """Which trace was current at some moment; equal only to that of the same trace."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        # The bottom trace is made when it is first used, so that two objects may stand for it.
        self._trace = None if trace.is_eager else weakref.ref(trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    __hash__ = None  # type: ignore[assignment]


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """The trace that is current, to be compared with that of another moment; `convention` does nothing.

    >>> from pellucid import jit
    >>> here = get_opaque_trace_state()
    >>> here == get_opaque_trace_state(), jit(lambda: here == get_opaque_trace_state())()
    (True, Array(False, dtype=bool))
    """
    return OpaqueTraceState(context.trace)


# Tracers -------------------------------------------------------------------------------------------


class Tracer(Described):
    """Stands for a value of type `aval` under `trace`. Its operators and methods are the NumPy API's.

    >>> def f(x):
    ...     print(isinstance(x, pl.core.Tracer), x)
    ...     return x * 2
    >>> pl.jit(f)(1.5)
    True StagingTracer(~float32[])
    Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("_trace", "aval", "__weakref__")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    _trace: Any

    def __init__(self, trace: Any, aval: Any) -> None:
        self._trace = trace
        self.aval = aval

    def __init_subclass__(cls) -> None:
        value_types.add(cls)

    def _is_traced_array(self) -> bool:
        """Asked by the C++ side for `isinstance(tracer, Array)`."""
        return hasattr(self.aval, "shape")

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.aval, "methods", {}).get(name) if name != "aval" else None
        if method is None:
            if not is_loaded("array methods"):
                return late_attribute(self, name)
            raise AttributeError(
                f"a traced array has no {name!r}: it has data and a place when the program runs. "
                "`typeof(x)` says what its type shows of them."
                if hasattr(ArrayImpl, name)
                else f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return functools.partial(method, self)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of a 0-dimensional array")
        return self.aval.shape[0]

    def concrete(self) -> Any:
        """The value, where the trace knows it; None otherwise."""
        return None

    def asked_for(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        """The value, where it can be computed for Python, which needs it as `use`; None otherwise.

        Raises: `kind` for a value that isn't one, because devices have several.
        """
        return None

    def transformed(self) -> Any:
        """The value of the enclosing trace that is transformed here, a whole batch for example; None without one."""
        return None

    def origin(self) -> str | None:
        """Where the value was made, for error messages."""
        value = self.transformed()
        return value.origin() if isinstance(value, Tracer) else None

    def argument_name(self) -> str | None:
        """The name of the argument of a traced or transformed function that the value is; None if it is none."""
        name, value = self._trace.name_of_argument(self), self.transformed()
        return value.argument_name() if name is None and isinstance(value, Tracer) else name

    def only_argument(self) -> str | None:
        """The name of the one argument of a traced function that the value was computed from; None if there are several."""
        value = self.transformed()
        return value.only_argument() if isinstance(value, Tracer) else None

    def batches(self) -> tuple[int, ...]:
        """Sizes of the batches of which the value is one element, innermost first."""
        value = self.transformed()
        return value.batches() if isinstance(value, Tracer) else ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval}{self.details()})"

    def details(self) -> str:
        """Text of a tracer of its kind behind the type."""
        return ""

    # Python asks for concrete values --------------------------------------------------------------

    def _known(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        """The value, which is needed as `use`; raises an error of `kind` where the trace doesn't know it."""
        value = self.concrete()
        if value is None:
            value = self.asked_for(use, kind, do)
        if value is None:
            got = [f"got {self.aval.text()}", *made_at(self)]
            call = called_with(self)
            if call is not None:
                function, parameter, line = call
                raise kind(
                    f"`{function}` needs to know `{parameter}` when the program is traced, and was given a traced array.",
                    got=got,
                    where=line,
                    do="Pass a value that is known, or mark the argument that it comes from as static.",
                )
            raise kind(
                f"a traced array was used as {use}, but its value is known only when the program runs.",
                got=got,
                do=do,
            )
        return value

    def _scalar(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        if self.aval.shape != () and self.aval.size != 1:
            raise TypeError(
                f"only arrays with one element can be used as {use}, got {self.aval.text()}."
            )
        return self._known(use, kind, do)

    def __bool__(self) -> bool:
        if self.aval.shape != () and self.aval.size != 1:
            raise ValueError(
                f"the truth value of an array with more than one element is ambiguous: "
                f"{self.aval.text()}. Use `.any()` or `.all()`."
            )
        do = "Use `lax.cond` or `jnp.where` instead of `if`, or mark the argument static."
        return bool(self._scalar("a Python bool", TracerBoolConversionError, do))

    def __int__(self) -> int:
        do = "Use `.astype(int)`, or mark the argument static."
        return int(self._scalar("a Python int", TracerIntegerConversionError, do))

    def __index__(self) -> int:
        do = "Use `lax.dynamic_slice` or `x[i]` with a traced `i`, or mark the argument static."
        return self._scalar("a Python index", TracerIntegerConversionError, do).__index__()

    def __float__(self) -> float:
        do = "Use `.astype(float)`, or mark the argument static."
        return float(self._scalar("a Python float", ConcretizationTypeError, do))

    def __complex__(self) -> complex:
        do = "Use `.astype(complex)`, or mark the argument static."
        return complex(self._scalar("a Python complex", ConcretizationTypeError, do))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        do = "Use the functions of `pellucid.numpy` instead of NumPy's."
        return np.asarray(self._known("a NumPy array", TracerArrayConversionError, do), dtype=dtype)

    def tolist(self) -> Any:
        return self.__array__().tolist()

    def item(self, *index: int) -> Any:
        return self.__array__().item(*index)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        raise ConcretizationTypeError(
            "a traced array can't be pickled: it belongs to its trace.",
            got=[f"got {self.aval.text()}", *made_at(self)],
            do="Pickle values outside of the traced function.",
        )


def made_at(x: Any) -> list[str]:
    """The line of an error that says where the traced value `x` was made; none where that isn't known."""
    origin = x.origin() if isinstance(x, Tracer) else None
    return [f"made at {origin}"] if origin else []


def is_concrete(x: Any) -> bool:
    """Whether the value of `x` is known now; of traced values it is only in eager transformations.

    >>> is_concrete(3.0)
    True
    """
    return not isinstance(x, Tracer) or x.concrete() is not None


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)`, or `val` itself where `force` is None; `context` says in the error who needs the value.

    Raises: ConcretizationTypeError for a value that is known only when the program runs.

    >>> concrete_or_error(int, np.float32(3))
    3
    """
    if isinstance(val, Tracer):
        do = context or "Mark the argument static."
        val = val._known("a known value", ConcretizationTypeError, do)
    return val if force is None else force(val)


set_tracer_class(Tracer)
add_late_methods(Tracer)
