"""Answers `import jax` by pellucid in a process that starts with `PELLUCID_AS_JAX=1`.

`pellucid_start.pth`, which Python reads when it starts, calls `answer_later` where the variable is set: so do worker processes, kernels and
engines, whoever starts them. Nothing of pellucid is loaded before `jax` is asked for, and so this module lies outside of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any


class FirstImport:
    """Finder that installs the one of `pellucid.as_jax` as soon as `jax`, or its installed version, is requested."""

    answers_for_jax_later = True

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return self._finder().find_spec(name, path, target) if name == "jax" else None

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """The distribution `jax`, if that is requested."""
        if getattr(context, "name", None) != "jax":
            return []
        return self._finder().find_distributions(context)

    def _finder(self) -> Any:
        importlib.import_module("pellucid.as_jax").install()
        return sys.meta_path[0]


def answer_later() -> None:
    """Answers for `jax` from the first request on."""
    sys.meta_path.insert(0, FirstImport())
