"""`post_mortem`: sessions at the operation where a compiled program failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pellucid as pl
from pellucid.introspect.errors import (
    ArgumentValueError,
    CheckedCall,
    CheckError,
    NonFiniteError,
    user_checks,
)
from pellucid.introspect.interception import keep_calls
from pellucid.introspect.traps import without_traps
from pellucid_kernel.debug import stopping_places
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.finders import isinf, isnan


def post_mortem(error: BaseException | None = None) -> DebugSession:
    """A session before the operation where a call of a jitted function failed, with its operands.

    `error` is the exception of the call (default: the last one that Python displayed). The program runs again: to the
    first NaN or infinity if `debug_nans` or `debug_infs` raised the error, to the failing check if it came from a
    checked function, else to the callback that raises. Side effects up to there happen again. If nothing fails in this
    run, the session stops at the end.

    Raises: ArgumentValueError for other errors, and for a call whose arguments were donated.

    >>> with pl.debug_nans(True):
    ...     try:
    ...         pl.jit(lambda x: pl.numpy.log(x) * 2.0)(-1.0)
    ...     except FloatingPointError as error:
    ...         session = post_mortem(error)
    >>> session.equation.primitive.name, session.operands()
    ('log', [Array(-1., dtype=float32)])
    """
    last = error or getattr(sys, "last_value", None)
    failure = _failure(last)
    if failure is None and any(isinstance(each, CheckError) for each in _causes(last)):
        keep_calls()
        raise ArgumentValueError(
            "post_mortem: the call of a jitted function that gave this error wasn't kept.",
            do="Run it again, and open the error then: calls of checked functions are kept from now on.",
        )
    if failure is None:
        raise ArgumentValueError(
            "post_mortem: no call of a jitted function raised this error while it ran.",
            got="no error was shown" if last is None else f"got {type(last).__name__}",
            do="Call it after such an error; wrap what runs as operations in `jit`, and in `checkify` last.",
        )
    call = failure.failed_call
    if call.operands is None:
        raise ArgumentValueError(
            f"post_mortem: arguments of `{call.name}` are gone, so that it can't run again.",
            do="Keep the arrays that it is called with in variables until then.",
        )
    if any(isinstance(x, pl.Array) and x.is_deleted() for x in call.operands):
        raise ArgumentValueError(
            f"post_mortem: arguments of `{call.name}` were donated, so that it can't run again.",
            do="Leave out `donate_argnums` while you debug.",
        )
    session = DebugSession.of_program(call.program, call.operands, _names(failure))
    if isinstance(call, CheckedCall):
        errors = call.errors
        match = session.search_failure(None if errors is None else errors | user_checks)
        return session if match is None else session.go_to(match)
    if not isinstance(failure, NonFiniteError):
        return session.to_failure()
    with without_traps():
        match = session.search(isnan) or session.search(isinf)
        return session if match is None else session.go_to(match)


def number_of(error: BaseException) -> int | None:
    """A number for a displayed error, by which `session_at` can open its call; None if no call failed.

    The number is valid while the error exists; Python keeps the error displayed last.
    """
    if _failure(error) is None:
        return None
    return stopping_places.number_of(error)


def session_at(number: int) -> tuple[str, DebugSession]:
    """(name of the call, session at the place) for a displayed error (see `post_mortem`) or figure, by its number.

    Raises: ArgumentValueError if it no longer exists; the exceptions of `post_mortem`.
    """
    shown = stopping_places.thing_of(number)
    if shown is None:
        raise ArgumentValueError(
            "this place can't be opened any more: another error was shown since, or nothing keeps what the figure shows.",
            do="Run its cell again, and stop there then.",
        )
    if not isinstance(shown, BaseException):
        return shown.opened()
    return _failure(shown).failed_call.name, post_mortem(shown)


def _failure(error: BaseException | None) -> Any:
    """The error raised by a call of a jitted function: `error` or one of its causes; None if there is none."""
    return next((each for each in _causes(error) if getattr(each, "failed_call", None)), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and its chain of causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> dict[str, Any]:
    """Globals of the module that made the call."""
    return {} if error.__traceback__ is None else error.__traceback__.tb_frame.f_globals
