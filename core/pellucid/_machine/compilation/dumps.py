"""Dumps of lowered programs, and warnings of large constants, controlled by options."""

from __future__ import annotations

import itertools
import pathlib
import re
from typing import Any

from pellucid._machine.base import ConfigError, config, warn_user
from pellucid._machine.ir import Operands

_numbers = itertools.count(1)


def dump_program(name: str, program: Any, module: Any) -> None:
    """Write a lowered program, in each form in `dump_ir_modes`, to a new file in the folder `dump_ir_to`.

    Raises: ConfigError if the folder can't be written to.
    """
    folder = config.dump_ir_to.value
    if not folder:
        return
    home = pathlib.Path(folder).expanduser()
    stem = f"ir{next(_numbers):04d}_{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:80]}"
    modes = [mode.strip() for mode in config.dump_ir_modes.value.split(",")]
    try:
        home.mkdir(parents=True, exist_ok=True)
        if "stablehlo" in modes:
            text = module.operation.get_asm(enable_debug_info=True)
            (home / f"{stem}.mlir").write_text(text, encoding="utf-8")
        if "jaxpr" in modes:
            (home / f"{stem}.jaxpr.txt").write_text(f"{program}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "programs can't be written to the folder of the option `dump_ir_to`.",
            got=str(error),
            do="Name a folder that can be written to, or set the option to ''.",
        ) from None


def warn_of_large_constants(name: str, constants: Operands) -> None:
    """Warn if a program's array constants exceed `captured_constants_warn_bytes`."""
    limit = config.captured_constants_warn_bytes.value
    if limit < 0 or not constants:
        return
    total = sum(getattr(x, "nbytes", 0) for x in constants)
    if total > limit:
        largest = max(constants, key=lambda x: getattr(x, "nbytes", 0))
        warn_user(
            f"`{name}` closes over {total:,} bytes of arrays, which its program keeps; the largest is "
            f"{largest.dtype}{list(largest.shape)}. Pass them as arguments, or raise the option "
            "`captured_constants_warn_bytes`.",
            UserWarning,
        )
