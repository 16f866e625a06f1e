"""Compilation by XLA as `jax._src.compiler`: a function that is set here compiles all programs from then on."""

from __future__ import annotations

import sys
from types import ModuleType

from pellucid.base.typing import Function
from pellucid.xla import compile as xla_compile


class _Compiler(ModuleType):
    """The class of this module: its one function is that of the compilation pipeline."""

    @property
    def backend_compile_and_load(self) -> Function:
        """The function of (client, module, devices, options, host callbacks) that compiles and loads."""
        return xla_compile.compile_module

    @backend_compile_and_load.setter
    def backend_compile_and_load(self, function: Function) -> None:
        xla_compile.compile_module = function


sys.modules[__name__].__class__ = _Compiler
