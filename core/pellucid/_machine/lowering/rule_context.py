"""JAX's names for the lowering context, used by rules of libraries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid._machine.base import ArgumentTypeError
from pellucid._machine.ir import Effect
from pellucid._machine.xla.mlir import ir


class TokenSet:
    """Tokens by ordered effect, as an immutable mapping.

    >>> len(TokenSet())
    0
    """

    __slots__ = ("_tokens",)

    def __init__(self, tokens: dict[Effect, Any] | None = None) -> None:
        self._tokens = dict(tokens or {})

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, effect: Effect) -> Any:
        """The token of `effect`."""
        return self._tokens[effect]

    def items(self) -> tuple[tuple[Effect, Any], ...]:
        """Pairs of an effect and its token."""
        return tuple(self._tokens.items())

    def effects(self) -> set[Effect]:
        """The effects that have a token."""
        return {*self._tokens}

    def subset(self, effects: Iterable[Effect]) -> TokenSet:
        """The tokens of `effects` alone."""
        return TokenSet({effect: self._tokens[effect] for effect in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """These tokens, some replaced by those of `tokens`."""
        return TokenSet({e: tokens._tokens.get(e, t) for e, t in self._tokens.items()})


class RuleContext:
    """Base class of `LoweringContext`: attributes of the module and the current equation that library rules read."""

    __slots__ = ()
    context: ir.Context
    module: ir.Module
    equation: Any
    tokens: dict[Effect, Any]
    keep_alive: list[Any]

    @property
    def module_context(self) -> Any:
        """The context of the whole module: this object."""
        return self

    @property
    def ip(self) -> ir.InsertionPoint:
        """Insertion point at the end of the module's functions."""
        return ir.InsertionPoint(self.module.body)

    @property
    def symbol_table(self) -> ir.SymbolTable:
        """The functions of the module by name."""
        return ir.SymbolTable(self.module.operation)

    @property
    def primitive(self) -> Any:
        """The primitive of the current equation; None outside of equations."""
        return getattr(self.equation, "primitive", None)

    @property
    def name_stack(self) -> Any:
        """The name stack of the current equation, or None."""
        return getattr(self.equation, "scope", None)

    @property
    def traceback(self) -> Any:
        """Source of the current equation."""
        return getattr(self.equation, "source", None)

    @property
    def keepalives(self) -> list[Any]:
        """Objects that must live as long as the executable."""
        return self.keep_alive

    def add_keepalive(self, keepalive: Any) -> None:
        """Keeps `keepalive` alive as long as the executable."""
        self.keep_alive.append(keepalive)

    @property
    def tokens_in(self) -> TokenSet:
        """Tokens of ordered effects before the current equation."""
        return TokenSet(self.tokens)

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Sets the tokens after which the next equation with an ordered effect runs."""
        self.tokens = self.tokens | dict(tokens_out.items())

    def replace(self, **changes: Any) -> Any:
        """A context of the same module with `changes`, for running the rule of another equation.

        `changes` may contain `avals_in`, `avals_out`, `primitive`, `name_stack` and `traceback`.

        Raises: ArgumentTypeError for other names.

        >>> from pellucid.extend.core import Primitive
        >>> from pellucid.interpreters import mlir
        >>> double = mlir.lower_fun(lambda x: x + x, multiple_results=False)
        >>> def rule(ctx, x, y):
        ...     return double(ctx.replace(avals_in=ctx.avals_in[1:]), y)
        >>> p = Primitive("twice_the_second")
        >>> _ = p.def_abstract_eval(lambda x, y: y)
        >>> _ = mlir.register_lowering(p, rule)
        >>> pl.jit(p.bind)(np.zeros(2), np.float32(3))
        Array(6., dtype=float32)
        """
        unknown = changes.keys() - _OF_THE_EQUATION
        if unknown:
            raise ArgumentTypeError(
                "ctx.replace can only replace attributes of one equation.",
                got=f"got {', '.join(sorted(unknown))}",
                do=f"Replace among {', '.join(_OF_THE_EQUATION)}.",
            )
        bases = (type(self),) if isinstance(self, _Replaced) else (_Replaced, type(self))
        return object.__new__(type("ReplacedContext", bases, {"whole": self, **changes}))


_OF_THE_EQUATION = ("avals_in", "avals_out", "primitive", "name_stack", "traceback")


class _Replaced:
    """Mixin for contexts that override some attributes; all others come from the context `whole`."""

    whole: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.whole, name, value)

    @property
    def module_context(self) -> Any:
        return self.whole.module_context

    def inline(self, *program: Any) -> Any:
        """Like `LoweringContext.inline`, in the module's own context, which has the attributes of each inlined
        equation.
        """
        return self.whole.inline(*program)
