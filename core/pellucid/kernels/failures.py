"""Failures while a kernel runs: its programs record the first one in a vector, which the call reads afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Function, capture
from pellucid._machine.checks.errors import CheckSite, ErrorCategory
from pellucid._machine.checks.guard import guard
from pellucid._machine.ir import ShapedArray, Values, shaped_array
from pellucid._machine.primitives import convert_element_type, select_n
from pellucid._machine.refs.access import get, set as write
from pellucid._machine.tracing import type_of
from pellucid.numpy import argmax, asarray, stack

from .grid import current_position

_INT32 = np.dtype(np.int32)


class Layout(NamedTuple):
    """The vector of a kernel's failure: the number of the failed site, from 1, or 0; the program's position; `n_values` numbers."""

    n_axes: int
    n_values: int

    @property
    def aval(self) -> ShapedArray:
        """Its type."""
        return shaped_array((1 + self.n_axes + self.n_values,), _INT32)

    def vector(self, code: int, ids: Sequence[Any], values: Sequence[Any]) -> Any:
        """The failure of site `code` in the program at `ids`, with what its message shows."""
        missing = self.n_values - len(values)
        parts = [np.int32(code), *ids, *values, *[np.int32(0)] * missing]
        return stack([convert_element_type(x, _INT32) for x in parts])

    def site(self, category: ErrorCategory, message: Function, source: Any) -> CheckSite:
        """A site, whose `message` takes the position of the program and the numbers."""

        def text(vector: Any) -> str:
            numbers = [int(x) for x in np.asarray(vector)[1:]]
            return message(tuple(numbers[: self.n_axes]), numbers[self.n_axes :])

        return CheckSite(category, text, [self.aval], source)


class Failures(NamedTuple):
    """Where the programs of a kernel that is being traced note their failures, with their position `ids`; `sites` grows."""

    layout: Layout
    ref: Any
    ids: Sequence[Any]
    sites: list[CheckSite]


def first_of(before: Any, has_failed: Any, failure: Any) -> Any:
    """The failure that was noted before, else `failure` where `has_failed`."""
    return select_n(has_failed & (before[0] == 0), before, failure)


def first_in_batch(failures: Any) -> Any:
    """One failure of many, which lie along the leading axes of `failures`."""
    if type_of(failures).ndim == 1:
        return failures
    rows = asarray(failures).reshape(-1, type_of(failures).shape[-1])
    return rows[argmax(rows[:, 0] != 0)]


def fail_where(has_failed: Any, category: ErrorCategory, message: Function, values: Values) -> None:
    """State that the scalar `has_failed` is false when the program runs.

    `message` takes the position of the program, () outside of kernels, and `values`, at most two integers. A kernel goes on, and its
    call raises CheckError.
    """
    position, source = current_position(), capture()
    failures = None if position is None else position.failures
    if position is None or failures is None:
        layout = Layout(0, 2)
        site = layout.site(category, message, source)
        code = select_n(has_failed, np.int32(0), np.int32(1))
        guard(code, [layout.vector(1, (), values)], [site])
        return
    failures.sites.append(failures.layout.site(category, message, source))
    failure = failures.layout.vector(len(failures.sites), failures.ids, values)
    write(failures.ref, ..., first_of(get(failures.ref), has_failed, failure))
