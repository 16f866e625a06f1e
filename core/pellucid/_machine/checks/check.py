"""`check`: the user's conditions inside a program."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, EffectsError, Shape, capture, describe
from pellucid._machine.base.formats import check_fields
from pellucid._machine.ir import Effect, Effects, Runs, derived_types
from pellucid._machine.primitives.arithmetic import min
from pellucid._machine.primitives.creation import iota
from pellucid._machine.primitives.logical import ne, select_n
from pellucid._machine.primitives.movement import broadcast, move_axis, reshape
from pellucid._machine.primitives.reduction import argmax, reduce_min
from pellucid._machine.primitives.slicing import dynamic_index_in_dim
from pellucid._machine.primitives.staging import WithoutResults
from pellucid._machine.tracing import bind, is_array_like, type_of
from pellucid._machine.xla.pytree import flatten, flatten_with_path

from .errors import CheckSite, Error, FailedCheckError, error_of


class CheckEffect(Effect):
    """The effect of a check, which `checkify` must convert to a value before the program is compiled."""

    control_flow_allowed = True


CHECKS: Effects = frozenset({CheckEffect()})


class CheckParams(NamedTuple):
    """Operands are the number of the failed site in `sites`, or 0, and the values for the sites' messages."""

    debug: bool
    sites: tuple[CheckSite, ...]


class Check(Runs, WithoutResults[CheckParams]):
    """Fails if the first operand, an error code, isn't 0."""

    name = "check"
    types = derived_types  # not cached, because the cache would keep the sites alive

    def effects(self, avals, params):
        return CHECKS

    def run(self, operands, params):
        if not params.debug:
            error_of(operands[0], operands[1:], params.sites).throw()
        return []

    def batch(self, axis, operands, dims, params):
        # For a batch, the failure of the first failed element is reported.
        code, *values = [
            broadcast(x, (axis.size,)) if d is None else move_axis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        ]
        positions = iota("int32", axis.size)
        failed = select_n(ne(code, np.int32(0)), np.full(axis.size, axis.size, np.int32), positions)
        first = min(reduce_min(failed, (0,)), np.int32(axis.size - 1))
        chosen = [dynamic_index_in_dim(x, first, 0, False) for x in (code, *values)]
        return bind(self, *chosen, params=params), []

    def lower(self, ctx, operands, params):
        if params.debug:
            return []
        raise EffectsError(
            "a `check` can't be compiled without `checkify`.",
            got=[line for line in [describe(site.source) for site in params.sites[:3]] if line],
            do="Wrap the function in `checkify`: `error, result = jit(checkify(f))(x)`, and look with `error.throw()`; "
            "or use `checkify.debug_check`, which does nothing without `checkify`.",
        )


check_p = Check()


class _Message:
    """The message of a failed `check`."""

    def __init__(self, text: str, tree: Any) -> None:
        self.text = text
        self.tree = tree

    def __call__(self, *values: Any) -> str:
        args, kwargs = self.tree.unflatten(values)
        return f"{self.text.format(*args, **kwargs)} (`check` failed)"


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """State that the scalar boolean `pred` is true; if it isn't, the message is `msg.format(*fmt_args, **fmt_kwargs)`.

    In a function wrapped in `checkify` a failure becomes part of the error that it returns. Outside traces it is raised
    at once. `debug` makes a check that does nothing without `checkify`.

    Raises: CheckError outside traces; ArgumentTypeError for a `pred` that isn't a scalar boolean, and for values of the
    message that aren't arrays. EffectsError when a program is compiled that contains a check.

    >>> check(True, "x must be positive, got {}", np.float32(1))
    """
    if not is_array_like(pred) or type_of(pred).shape != () or type_of(pred).dtype != np.bool_:
        shown = type_of(pred).text() if is_array_like(pred) else type(pred).__name__
        raise ArgumentTypeError(
            "check needs a scalar boolean.",
            got=f"pred: {shown}",
            do="Reduce it, for example with `.all()`; write a condition for a number.",
        )
    check_fields("check", msg, fmt_args, fmt_kwargs)
    pairs, tree = flatten_with_path((fmt_args, fmt_kwargs))
    for path, x in pairs:
        if not is_array_like(x):
            raise ArgumentTypeError(
                "check needs arrays as fields of its message.",
                got=f"argument {path[1]}: {type(x).__name__} ({x!r:.60})",
                do="Write other values into the message before.",
            )
    values = [x for _, x in pairs]
    site = CheckSite(FailedCheckError, _Message(msg, tree), [type_of(x) for x in values], capture())
    code = select_n(pred, np.int32(1), np.int32(0))
    bind(check_p, code, *values, params=CheckParams(debug, (site,)))


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Like `check`, but without effect outside of a function transformed by `checkify`.

    >>> debug_check(False, "never seen")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def _element(x: Any, batch: Shape, position: Any) -> Any:
    """The element of `x` at the flat `position` along the leading axes `batch`."""
    rows = reshape(x, (math.prod(batch), *type_of(x).shape[len(batch) :]))
    return dynamic_index_in_dim(rows, position, 0, keepdims=False)


def check_error(error: Error) -> None:
    """State that `error`, which a checked function returned, is no failure: raise it, or hand it on to `checkify`.

    Of errors of a batch, or of a loop's steps, the first one counts.

    Raises: CheckError outside traces; ArgumentTypeError for anything that isn't an error.

    >>> from pellucid._machine.checks.errors import init_error
    >>> check_error(init_error)
    """
    if not isinstance(error, Error):
        raise ArgumentTypeError("check_error needs an Error.", got=f"got {type(error).__name__}")
    code, values = error.code, flatten(error.payload)[0]
    batch = type_of(code).shape
    if batch:
        codes = reshape(code, (math.prod(batch),))
        position = argmax(ne(codes, np.int32(0)), 0, np.dtype(np.int32))
        code, *values = [_element(x, batch, position) for x in (code, *values)]
    bind(check_p, code, *values, params=CheckParams(False, error.sites))
