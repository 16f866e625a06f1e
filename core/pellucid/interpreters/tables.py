"""Tables of rules: mappings from primitives to rules as the reference states them, over the slots of our contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

from pellucid._machine.base.errors import ArgumentTypeError
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.facets import Linearized
from pellucid._machine.ir.primitive import Primitive, registry
from pellucid._machine.xla import flags
from pellucid.interpreters import user_primitive
from pellucid.introspect.rules import has_rule

_version = flags.RareFlag("pellucid_rules", 0, in_trace_key=True)
"""Number of replaced rules, in the keys of all that was derived or compiled by rules."""


class Registered(NamedTuple):
    """A user's rule for one primitive, with an adapter to the signature of pellucid's rules."""

    rule: Any
    call: Function

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class RuleTable(MutableMapping[Primitive[Any], Function]):
    """The rules of all primitives in one slot, such as `jvp`, in the form in which users state them.

    `adapted(primitive, rule)` is a rule of the user as our contract has it, and `stated(primitive, rule)` a built-in rule as
    the user's form has it. A rule that is set replaces the built-in one, and what was compiled or derived with that
    is forgotten; deleting it brings the built-in one back.

    Raises: KeyError for primitives without such a rule; ArgumentTypeError for keys and values that can't be any.
    """

    def __init__(
        self,
        slot: str,
        adapted: Callable[[Primitive[Any], Any], Function],
        stated: Callable[[Primitive[Any], Function], Function],
    ) -> None:
        self.slot = slot
        self.adapted = adapted
        self.stated = stated

    def __getitem__(self, primitive: Primitive[Any]) -> Function:
        registered = registered_rule(primitive, self.slot)
        if registered is not None:
            return registered.rule
        if not isinstance(primitive, Primitive) or not has_rule(primitive, self.slot):
            raise KeyError(primitive)
        return self.stated(primitive, getattr(primitive, self.slot))

    def __setitem__(self, primitive: Primitive[Any], rule: Function) -> None:
        if not callable(rule):
            raise ArgumentTypeError(
                f"a {self.slot} rule of `{primitive}` must be a function.",
                got=f"got {type(rule).__name__}",
            )
        register(primitive, self.slot, rule, self.adapted(primitive, rule))

    def __delitem__(self, primitive: Primitive[Any]) -> None:
        if registered_rule(primitive, self.slot) is None:
            raise KeyError(primitive)
        delattr(primitive, self.slot)
        primitive.__dict__.pop("is_linearized", None)
        _forget(primitive)

    def __iter__(self) -> Iterator[Primitive[Any]]:
        primitives = [*registry.values(), *user_primitive.user_primitives()]
        return iter([p for p in primitives if p in self])

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and (
            registered_rule(primitive, self.slot) is not None or has_rule(primitive, self.slot)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{self.slot} rules of {len(self)} primitives>"


def registered_rule(primitive: Any, slot: str) -> Registered | None:
    """The rule that was registered for `primitive`; None where its class's own is in force."""
    rule = getattr(primitive, "__dict__", {}).get(slot)
    return rule if isinstance(rule, Registered) else None


def register(primitive: Primitive[Any], slot: str, rule: Any, call: Function) -> None:
    """Put a rule of the user into `slot` of `primitive`.

    Raises: ArgumentTypeError for anything that isn't a primitive.
    """
    if not isinstance(primitive, Primitive):
        raise ArgumentTypeError(
            f"rules can only be registered for primitives, such as `lax.sin_p` (slot {slot}).",
            got=f"got {type(primitive).__name__}",
        )
    setattr(primitive, slot, Registered(rule, call))
    if slot == "jvp" and isinstance(primitive, Linearized):
        # Otherwise its own rule that splits programs would come first.
        primitive.is_linearized = False
    _forget(primitive)


def _forget(primitive: Primitive[Any]) -> None:
    if getattr(primitive, "is_used", True):
        _version.set_global(_version.value + 1)


def checked_list(primitive: Primitive[Any], rule: str, values: Any, count: int) -> list[Any]:
    """`values` as a list.

    Raises: ArgumentTypeError unless the rule returned a list or tuple of `count` values.
    """
    if isinstance(values, (list, tuple)) and len(values) == count:
        return list(values)
    is_list = isinstance(values, (list, tuple))
    raise ArgumentTypeError(
        f"the {rule} rule of `{primitive.name}` must return {count} values.",
        got=f"got {len(values)}" if is_list else f"got {type(values).__name__}",
    )
