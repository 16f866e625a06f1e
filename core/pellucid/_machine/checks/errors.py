"""Errors of checked functions: their categories, and the error value."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import PellucidError, describe, register_pytree_node
from pellucid._machine.compilation.interception import call_to_keep
from pellucid._machine.ir import Avals, ClosedJaxpr, Equation, Operands
from pellucid._machine.tracing import Tracer
from pellucid._machine.xla.arrays import ArrayImpl


class CheckError(PellucidError, ValueError):
    """A check in a program failed; its cause is an exception of the check's category.

    >>> from pellucid.experimental import checkify
    >>> error, _ = checkify.checkify(lambda x: checkify.check(x > 0, "not positive"))(-1.0)
    >>> error.throw()
    Traceback (most recent call last):
        ...
    pellucid.errors.CheckError: not positive (`check` failed)
    ...
    """


class JaxException(Exception):
    """Base class of the categories of errors for which programs can be checked."""


class FailedCheckError(JaxException):
    """A condition of the user's `check` doesn't hold."""


class NaNError(JaxException):
    """An operation returned a NaN."""


class DivisionByZeroError(JaxException):
    """A divisor is zero."""


class OOBError(JaxException):
    """An index is out of bounds."""


class BatchedError(JaxException):
    """Several elements of a batch failed."""


ErrorCategory = type[JaxException]

user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class CheckSite:
    """A checked place in a program: its category, its message, the types of the message's values, and its source."""

    __slots__ = ("avals", "category", "equation", "message", "source")

    def __init__(
        self,
        category: ErrorCategory,
        message: Callable[..., str],
        avals: Avals,
        source: Any,
        equation: Equation | None = None,
    ) -> None:
        self.category = category
        self.message = message
        self.avals = tuple(avals)
        """Types of the values that `message` formats."""
        self.source = source
        self.equation = equation
        """The checked equation; None for a `check` of the user, which is an equation itself."""

    def exception(self, payload: Sequence[Any]) -> JaxException:
        """The failure as an exception, with the user's line in its message."""
        text = self.message(*payload)
        line = describe(self.source)
        return self.category(f"{text}\n  in {line}" if line else text)


class CheckedCall:
    """A call of a checked function, for debuggers. It doesn't keep the operands alive."""

    def __init__(
        self, name: str, program: ClosedJaxpr, operands: Operands, errors: frozenset[Any] | None
    ) -> None:
        self.name = name
        self.program = program
        self.errors = errors
        """The checked categories; None if `program` already contains the checks that `checkify` added."""
        # NumPy scalars don't support weak references.
        self._operands = [
            weakref.ref(x) if isinstance(x, (ArrayImpl, np.ndarray)) else lambda x=x: x
            for x in operands
        ]

    @property
    def operands(self) -> list[Any] | None:
        """The operands; None if one has been freed."""
        operands = [operand() for operand in self._operands]
        return None if any(x is None for x in operands) else operands


class Error:
    """The first failure of a checked function, if any, as a pytree of arrays that `jit` can return.

    `code` is 0 for no failure, else the number of the failed site, counted from 1. `payload` contains the values for
    each site's message. Under `vmap` both have batch axes.

    >>> from pellucid.experimental import checkify
    >>> def inverse(x):
    ...     checkify.check(x != 0, "no inverse of {x}", x=x)
    ...     return 1 / x
    >>> error, _ = pl.jit(checkify.checkify(inverse))(0.0)
    >>> error.get().splitlines()[0]
    'no inverse of 0.0 (`check` failed)'
    """

    __slots__ = ("call", "code", "payload", "sites")

    def __init__(
        self, code: Any, payload: Sequence[Sequence[Any]], sites: Sequence[CheckSite]
    ) -> None:
        self.call: CheckedCall | None = None
        """The call that returned it, for debuggers; if it left `jit`, the jitted call if calls are kept, else None."""
        self.code = code
        self.payload = tuple(map(tuple, payload))
        self.sites = tuple(sites)

    def get(self) -> str | None:
        """The message of the failure, with the user's line; None if there is none.

        For a batch, the messages of all failed elements.
        """
        exception = self.get_exception()
        return None if exception is None else str(exception)

    def get_exception(self) -> JaxException | None:
        """The failure as an exception, without raising it; None if there is none."""
        codes = np.asarray(self.code)
        if codes.ndim == 0:
            return self._exception_at(int(codes), ())
        failed = [tuple(map(int, index)) for index in np.argwhere(codes)]
        if not failed:
            return None
        texts = [
            f"at mapped index {', '.join(map(str, i))}: {self._exception_at(int(codes[i]), i)}"
            for i in failed
        ]
        return BatchedError("\n".join(texts))

    def _exception_at(self, code: int, index: tuple[int, ...]) -> JaxException | None:
        if code == 0:
            return None
        values = [np.asarray(x)[index] if index else x for x in self.payload[code - 1]]
        return self.sites[code - 1].exception(values)

    def throw(self) -> None:
        """Raise the failure, if there is one.

        Raises: CheckError, whose cause is the exception that `get_exception` returns.
        """
        exception = self.get_exception()
        if exception is not None:
            error = CheckError(str(exception))
            error.failed_call = self.call
            raise error from exception

    def __repr__(self) -> str:
        if isinstance(self.code, Tracer):
            return f"Error({len(self.sites)} places, traced)"
        return f"Error({self.get()!r})"


def error_of(code: Any, values: Operands, sites: Sequence[CheckSite]) -> Error:
    """The error with this code; `values` are those of all sites in sequence."""
    rest = iter(values)
    return Error(code, [[next(rest) for _ in site.avals] for site in sites], sites)


def _unflatten(sites: Any, children: Any) -> Error:
    error = Error(*children, sites=sites)
    if (call := call_to_keep()) is not None:
        error.call = CheckedCall(call.name, call.program, call.operands, None)
    return error


register_pytree_node(Error, lambda error: ((error.code, error.payload), error.sites), _unflatten)
init_error = Error(np.int32(0), (), ())
"""The error without a failure and without sites."""
