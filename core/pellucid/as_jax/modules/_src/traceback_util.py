"""Tracebacks as `jax._src.traceback_util`: what libraries say of their own frames.

Pellucid's tools show the code of libraries as they show the user's, so exclusions are listed and hide nothing.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pellucid.extend.source_info_util import excluded_paths, register_exclusion

F = TypeVar("F")
_exclude_paths = excluded_paths


def include_frame(f: Any) -> bool:
    """Whether the frame `f` is in none of the listed paths."""
    return not any(f.f_code.co_filename.startswith(path) for path in _exclude_paths)


def api_boundary(fun: F, **_: Any) -> F:
    """`fun`: filtering of tracebacks takes place where errors are shown.

    >>> api_boundary(abs)(-1)
    1
    """
    return fun


__all__ = ["api_boundary", "include_frame", "register_exclusion"]
