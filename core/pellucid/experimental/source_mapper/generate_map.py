"""The maps of a function after each of several passes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.base.typing import Function

from .common import Pass, SourceMapDump

SourceMapGeneratorFn = Callable[..., Sequence[SourceMapDump]]
"""`generate(*args, **kwargs)` gives the text and the map of each pass for these arguments."""


def generate_sourcemaps(
    f: Function, passes: Sequence[Pass], **pass_kwargs: Any
) -> SourceMapGeneratorFn:
    """A function that gives, for arguments of `f`, the text and the map of each of `passes`.

    `pass_kwargs` are options of the passes.

    >>> from pellucid.experimental.source_mapper import filter_passes
    >>> [dump] = generate_sourcemaps(lambda x: x * 2, filter_passes("hlo:optimized"))(1.0)
    >>> dump.pass_name, "multiply" in dump.generated_code
    ('hlo:optimized', True)
    """

    def generate(*args: Any, **kwargs: Any) -> Sequence[SourceMapDump]:
        dumps = []
        for each in passes:
            with tempfile.TemporaryDirectory() as work_dir:
                compiled = each.compile_fn(work_dir, f, args, kwargs, **pass_kwargs)
                dumps.append(each.generate_dump(compiled, **pass_kwargs))
        return dumps

    return generate
