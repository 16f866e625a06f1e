"""Elementwise primitives: a table row is a primitive, and one class holds the rules of them all."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    Function,
    Shape,
    ShapeError,
    dtypes,
    strict_zip,
)
from pellucid._machine.ir import (
    ARITHMETIC,
    TRANSCENDENTAL,
    Avals,
    P,
    Primitive,
    Shown,
    Traits,
    Zero,
    is_linear,
    pointwise,
    shaped_array,
)
from pellucid._machine.lowering.exact import protect_value
from pellucid._machine.tracing import bind, bind1, bottom, type_of

from .movement import (
    aligned_at,
    aligned_for_batch,
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    unbroadcast,
)
from .varying import vary


def scalar(value: Any, dtype: Any) -> Any:
    """The number, or NumPy array, `value` with the dtype of an operand: a NumPy scalar, which programs show as a literal.

    With 64 bits off, NumPy's numbers count as 32 bits wide. Beside an operand of 64 bits, it is an array.

    >>> scalar(2, np.float32)
    np.float32(2.0)
    """
    host = np.asarray(value, dtype)[()]
    if dtypes.canonicalize(host.dtype) == host.dtype:
        return host
    return bottom().number(host, shaped_array(host.shape, host.dtype))


# Kinds of elements that a primitive accepts; they are combined with `|`.
BOOL = frozenset({"bool"})
SIGNED = frozenset({"signed"})
UNSIGNED = frozenset({"unsigned"})
FLOATING = frozenset({"floating"})
COMPLEX = frozenset({"complex"})
KEY = frozenset({"key"})
INTEGER = SIGNED | UNSIGNED
REAL = INTEGER | FLOATING
NUMBER = REAL | COMPLEX
ANY = NUMBER | BOOL
ANY_OR_KEY = ANY | KEY


@functools.cache
def kind_of(dtype: Any) -> str:
    """'bool', 'signed', 'unsigned', 'floating', 'complex', 'key' or 'float0'."""
    if isinstance(dtype, dtypes.ExtendedDType):
        return "key"
    if dtype == dtypes.float0:
        return "float0"
    name = dtype.name
    if name == "bool":
        return "bool"
    if name.startswith("uint"):
        return "unsigned"
    if name.startswith("int"):
        return "signed"
    return "complex" if dtype.kind == "c" else "floating"


def constant_like(x: Any, value: Any) -> Any:
    """The scalar `value` with the dtype of `x`, and weakly typed if `x` is."""
    return scalar_of(type_of(x), value)


def scalar_of(aval: Any, value: Any) -> Any:
    """The scalar `value` as programs show it, a literal, with the dtype and weak type of `aval`."""
    if aval.weak_type:
        number = {"c": complex, "f": float, "i": int, "b": bool}[aval.dtype.kind](value)
        if type_of(number) == aval.update(shape=()):
            return number
    return scalar(value, aval.dtype)


Accepts = frozenset[str] | tuple[frozenset[str], ...]
"""Kinds of elements that all operands may have, or one set for each."""


def check_elements(name: str, avals: Avals, accepts: Accepts) -> None:
    """Raise DtypeError for an element type that `accepts` doesn't hold."""
    for i, aval in enumerate(avals):
        kinds = accepts[i] if isinstance(accepts, tuple) else accepts
        if kind_of(aval.dtype) not in kinds:
            raise DtypeError(
                f"{name} does not accept {dtypes.short_name(aval.dtype)} elements.",
                got=texts("operand", avals),
                do=f"It accepts {', '.join(sorted(kinds))} elements.",
            )


def check_one_dtype(name: str, avals: Avals, do: str) -> None:
    """Raise DtypeError unless all `avals` have one dtype."""
    if any(a.dtype != avals[0].dtype for a in avals):
        raise DtypeError(f"{name} needs operands of one dtype.", got=texts("operand", avals), do=do)


def texts(what: str, avals: Avals) -> list[str]:
    """The types `avals` as lines of an error, numbered: `operand 0: float32[3]`."""
    return [f"{what} {i}: {aval.text()}" for i, aval in enumerate(avals)]


def full_as(x: Any, value: Any) -> Any:
    """An array of the type of `x` (shape, dtype, layout, axes over which it varies) whose elements are all `value`."""
    aval = type_of(x)
    repeated = broadcast_in_dim(
        constant_like(x, value), aval.shape, (), out_sharding=aval.shown_sharding
    )
    return vary(repeated, aval.varying)


TangentRule = Callable[..., Any]

FUNCTIONS = {
    "and": "bitwise_and", "not": "bitwise_not", "or": "bitwise_or", "xor": "bitwise_xor", "regularized_incomplete_beta": "betainc",
}  # fmt: skip
"""Functions of `lax` that aren't called as their primitives."""
BROADCASTING = {
    "add": "jnp.add", "add_any": "jnp.add", "and": "jnp.bitwise_and", "atan2": "jnp.arctan2", "div": "jnp.divide", "eq": "jnp.equal",
    "ge": "jnp.greater_equal", "gt": "jnp.greater", "igamma": "scipy.special.gammainc", "igammac": "scipy.special.gammaincc",
    "le": "jnp.less_equal", "lt": "jnp.less", "max": "jnp.maximum", "min": "jnp.minimum", "mul": "jnp.multiply", "ne": "jnp.not_equal",
    "nextafter": "jnp.nextafter", "or": "jnp.bitwise_or", "polygamma": "scipy.special.polygamma", "pow": "jnp.power",
    "regularized_incomplete_beta": "scipy.special.betainc", "rem": "jnp.fmod", "shift_left": "jnp.left_shift",
    "shift_right_arithmetic": "jnp.right_shift", "sub": "jnp.subtract", "xor": "jnp.bitwise_xor", "zeta": "scipy.special.zeta",
}  # fmt: skip
"""Functions that stretch their operands, by the primitive."""


class Elementwise(Shown, Primitive[P]):
    """A primitive that works element by element on operands of one shape.

    A scalar fits any shape, and a dimension of size 1 any size.

    `traits`: what it does, mostly ARITHMETIC or TRANSCENDENTAL, with what differs.
    `accepts`: kinds of elements, the same for all operands, or one set for each.
    `hlo`: the operation, `dialect.name` or a StableHLO name, or a function (ctx, operands, params) -> value; by default its name.
    `tangents`: for each operand, `(t, y, *operands) -> tangent of the result`, or None where it is zero.
        By default the primitive has no derivative.
    `transposes`: for each operand in which the primitive is linear (the others given), a function
        `(cotangent, *operands) -> cotangent`; None for operands in which it is not.
    `result`: the result's dtype, as a function of the operands' dtypes; by default the first's.
    `rules_take_params`: whether `tangents`, `transposes` and `result` get the keyword `params`.
    """

    says_nothing = (None,)

    def __init__(
        self,
        name: str,
        traits: Traits,
        accepts: Accepts,
        hlo: str | Function | None = None,
        *,
        tangents: Sequence[TangentRule | None] | None = None,
        transposes: Sequence[Function | None] | None = None,
        result: Function | None = None,
        rules_take_params: bool = False,
    ) -> None:
        self.traits = traits
        super().__init__(name)
        self.function = FUNCTIONS.get(name, name)
        """The name of its function, for messages."""
        self.accepts = accepts
        hlo = hlo or name
        self.hlo = hlo if callable(hlo) or "." in hlo else f"stablehlo.{hlo}"
        self.tangents = tangents
        self.transposes = transposes
        self.result = result
        self.rules_take_params = rules_take_params

    def abstract_eval(self, avals, params):
        shape = self._shape(avals)
        self._check_dtypes(avals)
        dtype = avals[0].dtype
        if self.result is not None:
            dtype = self.result(*[a.dtype for a in avals], **self._more(params))
        weak = all(a.weak_type for a in avals)
        return [shaped_array(shape, dtype, weak)]

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def _more(self, params) -> dict[str, Any]:
        return {"params": params} if self.rules_take_params else {}

    def _shape(self, avals: Avals) -> Shape:
        shapes = [aval.shape for aval in avals if aval.shape]
        try:
            if len(set(map(len, shapes))) < 2:
                return broadcast_shapes(*shapes)
        except ShapeError:
            pass
        other = BROADCASTING.get(self.name)
        raise ShapeError(
            f"{self.function} needs operands of one shape, up to dimensions of size 1 and scalars.",
            got=texts("operand", avals),
            do=f"Broadcast them first{f', or use `{other}`' if other else ''}.",
        )

    def _check_dtypes(self, avals: Avals) -> None:
        check_one_dtype(
            self.function,
            avals,
            do="Convert one with `lax.convert_element_type`, or use the `jnp` function, which promotes.",
        )
        check_elements(self.function, avals, self.accepts)

    def jvp(self, primals, tangents, params):
        if self.tangents is None:
            raise self.missing("jvp")
        y = bind1(self, *primals, params=params)
        aval = type_of(y)
        total: Any = Zero(aval.tangent())
        more = self._more(params)
        for rule, t in strict_zip(self.tangents, tangents):
            if rule is None or type(t) is Zero:
                continue
            term = rule(t, y, *primals, **more)
            if type(term) is not Zero and type_of(term).shape != aval.shape:
                term = broadcast_to(term, aval.shape)
            total = add_tangents(total, term)
        return [y], [total]

    def transpose(self, cotangents, operands, params):
        is_product = self.traits.linear == "each" and sum(map(is_linear, operands)) > 1
        if self.transposes is None or is_product:
            raise self.missing("transpose")
        [cotangent] = cotangents
        more = self._more(params)
        results = []
        for rule, x in strict_zip(self.transposes, operands):
            if not is_linear(x):
                results.append(None)
            elif rule is None:
                raise self.missing("transpose")
            else:
                results.append(unbroadcast(rule(cotangent, *operands, **more), x.aval))
        return results

    def batch(self, axis, operands, dims, params):
        if len(operands) == 1:
            return bind(self, *operands, params=params), dims
        aligned, dim = aligned_for_batch(axis, operands, dims)
        return bind(self, *aligned, params=params), [dim]

    def lower(self, ctx, operands, params):
        result = ctx.avals_out[0]
        shape = result.shape
        if any(a.shape != shape for a in ctx.avals_in):
            operands = [
                x if a.shape == shape else ctx.broadcast_to(x, a, shape)
                for x, a in strict_zip(operands, ctx.avals_in)
            ]
            ctx.avals_in = tuple([a.update(shape=shape) for a in ctx.avals_in])
        if callable(self.hlo):
            value = self.hlo(ctx, operands, params)
        else:
            value = ctx.op1(self.hlo, result, operands)
        # Results of operations that may make NaN are rounded, too.
        return [protect_value(ctx, value, result) if self.traits.makes_nan else value]


class LinearElementwise(Elementwise[P]):
    """An elementwise primitive that is linear in all operands together: its jvp applies it to the tangents."""

    def jvp(self, primals, tangents, params):
        if any(type(t) is Zero for t in tangents):
            return super().jvp(primals, tangents, params)
        return bind(self, *primals, params=params), bind(self, *tangents, params=params)


def identity_rule(t: Any, *_: Any) -> Any:
    """The rule of an operand whose tangent is the result's, and its cotangent."""
    return t


class AddAny(LinearElementwise):
    """Adds two operands of one type; if only one has a batch axis, the other one is repeated."""

    def batch(self, axis, operands, dims, params):
        dim = next(d for d in dims if d is not None)
        return [bind1(self, *aligned_at(axis, operands, dims, dim))], [dim]


add_any_p: Elementwise = AddAny(
    "add_any",
    ARITHMETIC.replace(linear="all", makes_nan=True),
    ANY,
    "add",
    tangents=(identity_rule, identity_rule),
    transposes=(identity_rule, identity_rule),
)
"""Sum of two tangents or cotangents of one type."""


def zero_of(x: Any) -> Zero:
    """The zero tangent of `x`.

    >>> zero_of(np.int32(2))
    Zero(float0[])
    """
    return Zero(type_of(x).tangent())


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, each an array or a known zero.

    >>> add_tangents(Zero(pl.typeof(1.0)), 2.0)
    2.0
    """
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    dtype = type_of(x).dtype
    if rules := getattr(dtype, "_rules", None):
        return rules.add(dtype, x, y)
    return bind1(add_any_p, x, y)


def transcendental(
    name: str,
    hlo: str | Function,
    *tangents: TangentRule,
    accepts: frozenset[str] = FLOATING | COMPLEX,
) -> Elementwise:
    """A transcendental function, with one tangent rule for each operand, or none if it has no derivative."""
    return Elementwise(name, TRANSCENDENTAL, accepts, hlo, tangents=tangents or None)


def real_transcendental(name: str, hlo: str | Function, *tangents: TangentRule) -> Elementwise:
    """A transcendental function of real numbers."""
    return transcendental(name, hlo, *tangents, accepts=FLOATING)


def boolean(*_: Any, **__: Any) -> np.dtype:
    """The dtype rule of predicates."""
    return np.dtype(bool)


class AccuracyMode(enum.Enum):
    """The compiler's usual implementation, or its most accurate one.

    >>> lax.exp(1.0, accuracy=lax.AccuracyMode.HIGHEST)
    Array(2.7182817, dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2


@dataclass(frozen=True)
class Tolerance:
    """The error that a result may have: absolute, relative, and in units in the last place.

    >>> Tolerance(rtol=1e-3)
    Tolerance(atol=0.0, rtol=0.001, ulps=0)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if self.atol < 0 or self.rtol < 0 or self.ulps < 0:
            raise ArgumentValueError("Tolerance takes no negative numbers.", got=repr(self))


class AccuracyParams(NamedTuple):
    accuracy: AccuracyMode | Tolerance | None = None


_AS_USUAL = AccuracyParams()


def accurate(primitive: Elementwise, x: Any, accuracy: Any) -> Any:
    """The result of a primitive for `x`, with the accuracy that the user requested."""
    if accuracy is None:
        return bind1(primitive, x, params=_AS_USUAL)
    if not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise ArgumentTypeError(
            "accuracy must be an AccuracyMode, a Tolerance or None.",
            got=f"accuracy: {type(accuracy).__name__}",
        )
    return bind1(primitive, x, params=AccuracyParams(accuracy))


def accuracy_attributes(ctx: Any, params: AccuracyParams) -> dict[str, Any]:
    """The attributes of a StableHLO operation that has `result_accuracy`."""
    wish = params.accuracy
    if wish is None or wish is AccuracyMode.DEFAULT:
        return {}
    if isinstance(wish, Tolerance):
        fields = f"atol = {wish.atol:e}, rtol = {wish.rtol:e}, ulps = {wish.ulps}, "
        mode = "TOLERANCE"
    else:
        fields, mode = "", wish.name
    text = f"#stablehlo.result_accuracy<{fields}mode = #stablehlo.result_accuracy_mode<{mode}>>"
    return {"result_accuracy": ctx.attribute(text)}


def with_accuracy(name: str) -> Any:
    """A lowering rule to the StableHLO operation `name`, which has an accuracy attribute."""

    def lower(ctx: Any, operands: Any, params: AccuracyParams) -> Any:
        attributes = accuracy_attributes(ctx, params)
        return ctx.as_result(f"stablehlo.{name}", operands, attributes)

    return lower
