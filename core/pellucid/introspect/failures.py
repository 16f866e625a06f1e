"""Records of exceptions: what went wrong, and the user's frames that led to it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from types import TracebackType

from pellucid._machine.base import PellucidError, is_filtered, source
from pellucid._machine.xla.traceback import JaxRuntimeError

from . import schema
from .spans import source_record

_LINES_AROUND = 3
_SIDE = r"got|expected|returned|taken|\S+ gives"
_DIFFERENCE = re.compile(
    rf"(?P<path>[^:]+): (?P<left_title>{_SIDE}) (?P<left>.+), (?P<right_title>{_SIDE}) (?P<right>.+)"
)
"""A line of an error that compares the two sides, each with a label, at a path of trees."""


def error(raised: BaseException) -> schema.ErrorRecord | None:
    """The record of an exception raised by core, or by a user's function while it was traced. None for others.

    >>> try:
    ...     jnp.ones((2, 3)) @ jnp.ones((4, 5))
    ... except TypeError as raised:
    ...     record = error(raised)
    >>> record.name, record.got
    ('ShapeError', ['a: f32[2,3], dimension 1', 'b: f32[4,5], dimension 0'])
    """
    if isinstance(raised, PellucidError):
        text, got, where, do = raised.what, list(raised.got), raised.where, raised.do
    elif isinstance(raised, JaxRuntimeError) or is_filtered(raised):
        text, got, where, do = str(raised), [], None, None
    else:
        return None
    # An interrupted wait has no message, but a note on what the devices still do.
    what = "\n".join(filter(None, [text, *getattr(raised, "__notes__", ())])) or "(no message)"
    return schema.ErrorRecord(
        name=type(raised).__name__,
        what=what,
        got=got,
        differences=[
            schema.DifferenceRecord(**match.groupdict())
            for match in map(_DIFFERENCE.fullmatch, got)
            if match is not None
        ],
        where=where,
        do=do,
        page=raised.page if isinstance(raised, PellucidError) else None,
        frames=list(_frames(raised.__traceback__)),
        traceback="".join(
            traceback.format_exception(type(raised), raised, _from_user(raised.__traceback__))
        ),
    )


def _from_user(held: TracebackType | None) -> TracebackType | None:
    """The traceback without the shell's frames before the user's first one."""
    first = held
    while first is not None and not source.is_user_file(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    return first or held


def _frames(held: TracebackType | None) -> Iterator[schema.ErrorFrameRecord]:
    """The user's frames, outermost first."""
    while held is not None:
        code = held.tb_frame.f_code
        if source.is_user_file(code.co_filename):
            frame = source.frame_of(code, held.tb_lasti)
            around = max(1, frame.line - _LINES_AROUND), frame.end_line + _LINES_AROUND
            yield schema.ErrorFrameRecord(
                source=source_record(frame.file, around),
                line=frame.line,
                end_line=max(frame.end_line, frame.line),
                column=frame.column,
                end_column=frame.end_column,
                function=frame.function,
            )
        held = held.tb_next
