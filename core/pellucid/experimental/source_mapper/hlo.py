"""The passes `hlo:*`: StableHLO, HLO as it is given to the compiler, and HLO that is executed."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.jitted import jit
from pellucid.analysis.hlo import source_frames

from .common import Pass, SourceMapDump, register_pass
from .jaxpr import canonicalize_filename
from .mlir import create_mlir_sourcemap
from .source_map import SourceMap, source_map_of

METADATA_REGEX = re.compile(r"metadata=\{[^}]*stack_frame_id=(\d+)[^}]*\}")
"""The metadata of an instruction, with the number of the place that it comes from."""


class HloPass(enum.Enum):
    """Names of the passes, after `hlo:`."""

    STABLE_HLO = "stable-hlo"
    ORIGINAL = "original"
    OPTIMIZED = "optimized"


def trace_and_lower(
    work_dir: str, f: Function, f_args: Sequence[Any], f_kwargs: Mapping[str, Any], **_: Any
) -> tuple[Any, str]:
    """`f` lowered for its arguments, and the folder for files.

    >>> lowered, _ = trace_and_lower("", lambda x: -x, (1.0,), {})
    >>> "stablehlo.negate" in lowered.as_text()
    True
    """
    return jit(f).lower(*f_args, **f_kwargs), work_dir


def parse_hlo_dump(text: str) -> SourceMap:
    """The map of a text of HLO, by the metadata of its instructions.

    >>> parse_hlo_dump("HloModule empty").mappings
    [[]]
    """
    frames = source_frames(text)
    places: list[Any] = []
    for line in text.split("\n"):
        match = METADATA_REGEX.search(line)
        frame = frames.get(int(match[1])) if match else None
        if frame is None:
            places.append(None)
        else:
            frame = frame._replace(file=canonicalize_filename(frame.file))
            places.append((len(line) - len(line.lstrip()), frame))
    return source_map_of(places)


def stable_hlo_generate_dump(args: tuple[Any, str], **_: Any) -> SourceMapDump:
    """The StableHLO of a lowered function, and its map.

    >>> stable_hlo_generate_dump(trace_and_lower("", lambda x: -x, (1.0,), {})).pass_name
    'hlo:stable-hlo'
    """
    text = args[0].as_text(debug_info=True)
    return SourceMapDump(create_mlir_sourcemap(text), text, "hlo:stable-hlo")


def original_hlo_generate_dump(args: tuple[Any, str], **_: Any) -> SourceMapDump:
    """The HLO of a lowered function before it is optimized, and its map.

    >>> original_hlo_generate_dump(trace_and_lower("", lambda x: -x, (1.0,), {})).pass_name
    'hlo:original'
    """
    text = args[0].as_text("hlo", debug_info=True)
    return SourceMapDump(parse_hlo_dump(text), text, "hlo:original")


def optimized_generate_dump(
    args: tuple[Any, str], xla_compiler_flags: Mapping[str, Any] | None = None, **_: Any
) -> SourceMapDump:
    """The HLO that is executed, compiled with `xla_compiler_flags`, and its map.

    >>> optimized_generate_dump(trace_and_lower("", lambda x: -x, (1.0,), {})).pass_name
    'hlo:optimized'
    """
    text = args[0].compile(xla_compiler_flags).as_text()
    return SourceMapDump(parse_hlo_dump(text), text, "hlo:optimized")


for _pass, _generate in (
    (HloPass.STABLE_HLO, stable_hlo_generate_dump),
    (HloPass.ORIGINAL, original_hlo_generate_dump),
    (HloPass.OPTIMIZED, optimized_generate_dump),
):
    register_pass(Pass(f"hlo:{_pass.value}", trace_and_lower, _generate))
