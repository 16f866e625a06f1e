"""Passes, by name: how each compiles a function, and how it shows the result with its map."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import config
from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.jitted import jit

from .source_map import SourceMap

CompileFn = Callable[..., Any]
"""`compile_fn(work_dir, f, f_args, f_kwargs, **options)` gives what `generate_dump` takes."""
GenerateDumpFn = Callable[..., "SourceMapDump"]
"""`generate_dump(compiled, **options)` gives the text and its map."""


@dataclass(frozen=True)
class SourceMapDump:
    """The text of a program after a pass, and its map."""

    source_map: SourceMap
    generated_code: str
    pass_name: str


@dataclass(frozen=True)
class Pass:
    """A step of compilation whose text is mapped."""

    name: str
    compile_fn: CompileFn
    generate_dump: GenerateDumpFn


_passes: dict[str, Pass] = {}


def register_pass(pass_: Pass) -> None:
    """Add a pass to those of `all_passes`.

    Raises: ArgumentValueError for a name that is taken.

    >>> register_pass(all_passes()[0])
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentValueError: register_pass: there is a pass of this name.
      name: 'jaxpr'
    """
    if pass_.name in _passes:
        raise ArgumentValueError(
            "register_pass: there is a pass of this name.", got=f"name: {pass_.name!r}"
        )
    _passes[pass_.name] = pass_


def all_passes() -> Sequence[Pass]:
    """All passes, from the program on to what is executed.

    >>> [each.name for each in all_passes()]
    ['jaxpr', 'hlo:stable-hlo', 'hlo:original', 'hlo:optimized']
    """
    return list(_passes.values())


def filter_passes(regex: str) -> Sequence[Pass]:
    """The passes whose names begin with a match of `regex`.

    >>> [each.name for each in filter_passes("hlo:o.*")]
    ['hlo:original', 'hlo:optimized']
    """
    return [each for each in _passes.values() if re.match(regex, each.name)]


@contextlib.contextmanager
def flag_env(**kwargs: Any) -> Iterator[None]:
    """Set options of `config` until the block ends.

    >>> with flag_env(enable_x64=True):
    ...     pl.config.enable_x64
    True
    """
    with contextlib.ExitStack() as stack:
        for name, value in kwargs.items():
            stack.enter_context(getattr(config, name)(value))
        yield


def compile_with_env(
    f: Function,
    f_args: Sequence[Any],
    f_kwargs: Mapping[str, Any],
    env_flags: Mapping[str, Any],
    compiler_flags: Mapping[str, Any],
) -> Any:
    """`f` compiled for its arguments under options of `config`, with `compiler_flags` for the compiler.

    >>> compiled = compile_with_env(lambda x: x + 1, (1.0,), {}, {"default_matmul_precision": "highest"}, {})
    >>> float(compiled(1.0))
    2.0
    """
    with flag_env(**env_flags):
        return jit(f).lower(*f_args, **f_kwargs).compile(dict(compiler_flags) or None)
