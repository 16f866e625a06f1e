"""The pass `jaxpr`: the traced program, whose lines come from the equations that they show."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid._machine.base.source import user_frame
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.ir import ClosedJaxpr
from pellucid._machine.ir.printing import listing

from .common import Pass, SourceMapDump, register_pass
from .source_map import source_map_of


def canonicalize_filename(file_name: str) -> str:
    """The absolute path of a file that exists; other names, as of cells, stay.

    >>> canonicalize_filename("<cell 3>")
    '<cell 3>'
    """
    return os.path.abspath(file_name) if os.path.exists(file_name) else file_name


def compile_jaxpr(
    work_dir: str, f: Function, f_args: Sequence[Any], f_kwargs: Mapping[str, Any], **_: Any
) -> ClosedJaxpr:
    """The program of `f` for its arguments.

    >>> compile_jaxpr("", lambda x: -x, (1.0,), {})
    { lambda ; a:f32[]. let b:f32[] = neg a in (b,) }
    """
    return make_jaxpr(f)(*f_args, **f_kwargs)


def make_jaxpr_dump(jaxpr: ClosedJaxpr, **_: Any) -> SourceMapDump:
    """The text of a program, and where its lines come from.

    >>> make_jaxpr_dump(pl.make_jaxpr(lambda x: -x)(1.0)).generated_code
    '{ lambda ; a:f32[]. let b:f32[] = neg a in (b,) }'
    """
    shown = listing(jaxpr)
    places: list[Any] = []
    for line, equation in zip(shown.text.split("\n"), shown.line_equations, strict=True):
        frame = None if equation is None else user_frame(equation.source)
        if frame is None:
            places.append(None)
        else:
            frame = frame._replace(file=canonicalize_filename(frame.file))
            places.append((len(line) - len(line.lstrip()), frame))
    return SourceMapDump(source_map_of(places), shown.text, "jaxpr")


register_pass(Pass("jaxpr", compile_jaxpr, make_jaxpr_dump))
