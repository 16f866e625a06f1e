"""Primitives whose rules are functions that a library registers one by one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pellucid._machine.base.errors import ArgumentTypeError, MissingRule
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.avals import AbstractValue
from pellucid._machine.ir.effects import no_effects
from pellucid._machine.ir.facets import Runs
from pellucid._machine.ir.primitive import Primitive as BuiltIn
from pellucid._machine.ir.rules import (
    Avals,
    Operands,
    Results,
    Values,
)
from pellucid._machine.ir.traits import Traits
from pellucid._machine.sharding.explicit_types import check_divisible

CUSTOM = Traits(kind="custom", flops=None)
"""Traits of an operation of which only the rules are known."""


class Keywords:
    """Params of a user's primitive: values by name, equal where names and values are equal."""

    __slots__ = ("_values",)

    def __init__(self, **values: Any) -> None:
        self._values = values

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(self._values)

    def _asdict(self) -> dict[str, Any]:
        return dict(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no param {name!r}; there are {[*self._values]}") from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keywords) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __reduce__(self) -> Any:
        return _keywords, (self._values,)

    def __repr__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._values.items())


def _keywords(values: Mapping[str, Any]) -> Keywords:
    return Keywords(**values)


class _CountsBuiltIns(type):
    """Makes every primitive an instance of `Primitive`, as code that reads programs expects; subclasses stay apart."""

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, BuiltIn)
            if cls is Primitive
            else type.__instancecheck__(cls, instance)
        )


class Primitive(Runs, BuiltIn[Keywords], metaclass=_CountsBuiltIns):
    """A new primitive called `name`, without any rule.

    `def_abstract_eval` gives it types of results, `def_impl` a result outside of a trace. Lowering, derivatives and
    batching are registered in `pellucid.interpreters`. Its params are whatever keywords `bind` gets. With
    `multiple_results` set, rules and `bind` have lists of results, else one result. A subclass may define
    `impl(*operands, **params)`, and `abstract_eval(*avals, **params)`, which returns (types, set of effects), as methods.

    Raises: MissingRule where a transformation needs a rule that wasn't defined; ArgumentTypeError for a rule that
    returns something else than its results.

    >>> twice_p = Primitive("twice")
    >>> _ = twice_p.def_impl(lambda x: 2 * x)
    >>> _ = twice_p.def_abstract_eval(lambda x: x)
    >>> twice_p.bind(np.ones(2, np.float32))
    array([2., 2.], dtype=float32)
    >>> print(pl.make_jaxpr(twice_p.bind)(np.ones(2, np.float32)))
    { lambda ; a:f32[2]. let b:f32[2] = twice a in (b,) }
    """

    traits = CUSTOM
    params_type = Keywords  # pyright: ignore[reportAssignmentType]  # there it follows from a row
    multiple_results = False  # pyright: ignore[reportAssignmentType]  # an attribute that users set
    calls_python = True
    types_are_laid_out = True
    impl: Function
    """The function of `def_impl`."""
    result_rule: Function | None = None
    """(types of operands, params) -> (type or types of results, effects)."""
    is_used = False
    """Whether programs with this primitive were made, which may be remembered."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError("Primitive needs its name, a string.", got=f"got {name!r}")
        # The registry of built-in primitives must keep them, whatever names a library chooses.
        self.name = name
        _by_name.setdefault(name, self)

    def __reduce__(self) -> Any:
        if _by_name.get(self.name) is not self:
            raise ArgumentTypeError(
                f"`{self.name}` can't be pickled: another user's primitive has the same name.",
                do="Give each primitive a name of its own.",
            )
        return user_primitive, (self.name,)

    # What users define ------------------------------------------------------------------------

    def def_impl(self, impl: Function) -> Function:
        """Computes results outside of a trace by `impl(*operands, **params)`; returns `impl`."""
        self.impl = _checked_function(impl, "def_impl", self)
        return impl

    def def_abstract_eval(self, rule: Function) -> Function:
        """Types results by `rule(*avals, **params)`, which returns ShapedArrays; returns `rule`.

        Over Explicit mesh axes a result has the sharding of the type that the rule returns: `x.update(dtype=...)` keeps
        that of `x`, `x.update(shape=..., sharding=...)` states another, and every device has the whole of a
        `ShapedArray(shape, dtype)`.
        """
        _checked_function(rule, "def_abstract_eval", self)
        self.result_rule = lambda *avals, **params: (rule(*avals, **params), no_effects)
        return rule

    def def_effectful_abstract_eval(self, rule: Function) -> Function:
        """Types results by `rule(*avals, **params)`, which returns (types, set of effects); returns `rule`."""
        self.result_rule = _checked_function(rule, "def_effectful_abstract_eval", self)
        return rule

    # The rules of our contract ----------------------------------------------------------------

    def run(self, operands: Operands, params: Keywords) -> Values:
        impl = getattr(self, "impl", None)
        if impl is None:
            raise MissingRule(
                f"`{self.name}` has no implementation outside of compiled functions.",
                do=f"Define one: `{self.name}_p.def_impl(function)`; to compile its lowering, the function is "
                f"`partial(interpreters.xla.apply_primitive, {self.name}_p)`.",
            )
        return as_list(self, impl(*operands, **params._asdict()), "implementation")

    def types(self, avals: Avals, params: Keywords) -> tuple[tuple[AbstractValue, ...], Any]:  # pyright: ignore[reportIncompatibleVariableOverride]  # not remembered: params may be unhashable
        rule: Function | None = self.result_rule
        if rule is None and type(self).abstract_eval is not Primitive.abstract_eval:
            rule = self.abstract_eval
        if rule is None:
            raise self.missing("abstract_eval")
        answer = rule(*avals, **params._asdict())
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ArgumentTypeError(
                f"the effectful abstract_eval rule of `{self.name}` must return (types, effects).",
                got=f"got {answer!r:.200}",
            )
        self.is_used = True
        results = as_list(self, answer[0], "abstract_eval rule")
        for result in results:
            if not isinstance(result, AbstractValue):
                raise ArgumentTypeError(
                    f"the abstract_eval rule of `{self.name}` must return types of results.",
                    got=f"got {type(result).__name__}",
                    do="Return `core.ShapedArray(shape, dtype)`"
                    + (", or a list of them." if self.multiple_results else "."),
                )
            _check_layout(self, result)
        return tuple(self.typed(avals, results, params)), frozenset(answer[1])

    def abstract_eval(self, avals, params):
        return self.types(avals, params)[0]

    def effects(self, avals, params):
        return self.types(avals, params)[1]

    def missing(self, rule: str) -> MissingRule:
        return MissingRule(
            f"`{self.name}` has no {rule} rule.",
            do=f"To add one: {_HOW_TO_DEFINE[rule].format(f'{self.name}_p')}.",
        )


def _check_layout(primitive: Primitive, result: Any) -> None:
    sharding = getattr(result, "shown_sharding", None)
    if sharding is None:
        return
    if len(sharding.spec) != result.ndim:
        raise ArgumentTypeError(
            f"the abstract_eval rule of `{primitive.name}` must return a sharding of its result's rank.",
            got=f"{sharding.spec} for shape {result.shape}",
            do="State it with the shape: `x.update(shape=shape, sharding=x.sharding.update(spec=spec))`.",
        )
    check_divisible(
        result.shape, sharding.spec, sharding.mesh, f"abstract_eval rule of `{primitive.name}`: "
    )


_HOW_TO_DEFINE = {
    "abstract_eval": "`{0}.def_abstract_eval(lambda *avals, **params: ShapedArray(shape, dtype))`",
    "jvp": "`interpreters.ad.primitive_jvps[{0}] = rule`, or `interpreters.ad.defjvp({0}, *rules)`",
    "transpose": "`interpreters.ad.primitive_transposes[{0}] = rule`",
    "batch": "`interpreters.batching.primitive_batchers[{0}] = rule`",
    "lower": "`interpreters.mlir.register_lowering({0}, rule)`; "
    "`interpreters.mlir.lower_fun(function, multiple_results=False)` makes a rule of other operations",
}
_by_name: weakref.WeakValueDictionary[str, Primitive] = weakref.WeakValueDictionary()


def user_primitives() -> list[Primitive]:
    """The users' primitives that are alive; of several with one name, the first."""
    return list(_by_name.values())


def user_primitive(name: str) -> Primitive:
    """The user's primitive called `name`, for pickles of programs.

    Raises: ArgumentTypeError if the module that defines it wasn't imported.
    """
    primitive = _by_name.get(name)
    if primitive is None:
        raise ArgumentTypeError(
            f"a pickled program uses the primitive `{name}`, which isn't defined in this process.",
            do="Import the module that defines it before unpickling.",
        )
    return primitive


def as_list(primitive: BuiltIn[Any], results: Any, what: str) -> Values:
    """Results that a function of the user returned for `primitive`, as a list.

    Raises: ArgumentTypeError for a list where `primitive` has one result, and for anything else where it has several.
    """
    if primitive.multiple_results == isinstance(results, (list, tuple)):
        return list(results) if primitive.multiple_results else [results]
    name = primitive.name
    if primitive.multiple_results:
        raise ArgumentTypeError(
            f"the {what} of `{name}` must return a list, as it has multiple_results.",
            got=f"got {type(results).__name__}",
        )
    raise ArgumentTypeError(
        f"the {what} of `{name}` must return one value.",
        got=f"got a {type(results).__name__} of {len(results)}",
        do=f"Return the value itself, or set `{name}_p.multiple_results = True`.",
    )


def from_list(primitive: BuiltIn[Any], values: Results) -> Any:
    """Results in the form that users' functions take: the list if `multiple_results`, else the only one."""
    return list(values) if primitive.multiple_results else values[0]


def _checked_function(function: Any, method: str, primitive: Primitive) -> Callable[..., Any]:
    if not callable(function):
        raise ArgumentTypeError(
            f"`{primitive.name}_p.{method}` needs a function.", got=f"got {type(function).__name__}"
        )
    return function
