"""Names of the reference for the state of a lowering, in whose words libraries write their rules."""

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
    """Base class of `LoweringContext`: what rules of libraries read of the module and of the equation at hand."""

    __slots__ = ()
    context: ir.Context
    module: ir.Module
    equation: Any
    tokens: dict[Effect, Any]
    keep_alive: list[Any]

    @property
    def module_context(self) -> Any:
        """The context of the whole module, which is this."""
        return self

    @property
    def ip(self) -> ir.InsertionPoint:
        """The place of the module's functions."""
        return ir.InsertionPoint(self.module.body)

    @property
    def symbol_table(self) -> ir.SymbolTable:
        """The functions of the module by name."""
        return ir.SymbolTable(self.module.operation)

    @property
    def primitive(self) -> Any:
        """The primitive of the equation at hand; None outside of equations."""
        return getattr(self.equation, "primitive", None)

    @property
    def name_stack(self) -> Any:
        """The names in force at the equation at hand; None for none."""
        return getattr(self.equation, "scope", None)

    @property
    def traceback(self) -> Any:
        """Where the equation at hand was made."""
        return getattr(self.equation, "source", None)

    @property
    def keepalives(self) -> list[Any]:
        """Objects that live as long as the executable."""
        return self.keep_alive

    def add_keepalive(self, keepalive: Any) -> None:
        """Let `keepalive` live as long as the executable."""
        self.keep_alive.append(keepalive)

    @property
    def tokens_in(self) -> TokenSet:
        """The tokens of ordered effects before the equation at hand."""
        return TokenSet(self.tokens)

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Let the next equation with an ordered effect come after `tokens_out`."""
        self.tokens = self.tokens | dict(tokens_out.items())

    def replace(self, **changes: Any) -> Any:
        """A context of the same module for the rule of another equation, whose `changes` it has.

        These are among `avals_in`, `avals_out`, `primitive`, `name_stack` and `traceback`.

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
                "ctx.replace takes what belongs to one equation.",
                got=f"got {', '.join(sorted(unknown))}",
                do=f"Replace among {', '.join(_OF_THE_EQUATION)}.",
            )
        bases = (type(self),) if isinstance(self, _Replaced) else (_Replaced, type(self))
        return object.__new__(type("ReplacedContext", bases, {"whole": self, **changes}))


_OF_THE_EQUATION = ("avals_in", "avals_out", "primitive", "name_stack", "traceback")


class _Replaced:
    """Mixin of contexts that have some attributes in their class, and all others in the context `whole`."""

    whole: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.whole, name, value)

    @property
    def module_context(self) -> Any:
        return self.whole.module_context

    def inline(self, *program: Any) -> Any:
        """As `LoweringContext.inline`: each equation of a program has what belongs to it in the context of the module."""
        return self.whole.inline(*program)
