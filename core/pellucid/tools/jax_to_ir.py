r"""Command that writes the program of a function to files: `python -m pellucid.tools.jax_to_ir --help`.

    python -m pellucid.tools.jax_to_ir --fn prog.fn --input_shapes '[("x", "f32[8,128]"), ("y", "f32[128,32]")]' \
        --constants '{"z": 3.14}' --ir_format HLO --ir_dest fn.pb --ir_human_dest fn.txt

HLO is a serialized HloModuleProto; STABLEHLO is a portable artifact, which later releases read.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.xla.compile import to_hlo
from pellucid._machine.xla.mlir import portable_artifact
from pellucid.numpy.creation import asarray

FORMATS = ("HLO", "STABLEHLO")
_COMMAND = __spec__.name if __spec__ else __name__
"""The name by which the module is run: `jax.tools.jax_to_ir` where pellucid answers for jax."""
_SHAPE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[\d,\s]*)\]")
_DTYPES = {dtypes.short_name(d): d for d in dtypes.ALL}
_DTYPES |= {f"s{d.itemsize * 8}": d for d in map(np.dtype, ("int8", "int16", "int32", "int64"))}
_DTYPES["pred"] = np.dtype(bool)  # XLA's names beside ours


def parse_shape_str(s: str) -> ShapeDtypeStruct:
    """The shape and dtype that a text such as `f32[8,128]` states.

    Raises: ArgumentValueError for another text.

    >>> parse_shape_str("f32[8,128]")
    ShapeDtypeStruct(shape=(8, 128), dtype=float32)
    """
    match = _SHAPE.fullmatch(s.strip())
    dtype = None if match is None else _DTYPES.get(match["dtype"])
    if match is None or dtype is None:
        raise ArgumentValueError(
            "an input must be described by a dtype and sizes, as `f32[8,128]`.", got=repr(s)
        )
    return ShapeDtypeStruct(tuple([int(n) for n in match["sizes"].split(",") if n.strip()]), dtype)


def jax_to_ir(
    fn: Function,
    input_shapes: Sequence[tuple[str, Any]],
    *,
    constants: Mapping[str, Any] | None = None,
    format: str,
) -> tuple[bytes, str]:
    """The program of `fn`, called with keywords, in a serialized form and as a text.

    Its parameters are `input_shapes`, pairs of a keyword and its shape and dtype, in their order; `constants` are the
    other keywords. `format` is "HLO" or "STABLEHLO".

    Raises: ArgumentValueError for another format, and for an argument that is in both.

    >>> data, text = jax_to_ir(pow, [("base", parse_shape_str("f32[]"))], constants={"exp": 2}, format="HLO")
    >>> text.startswith("HloModule jit_pow")
    True
    """
    constants = dict(constants or {})
    if format not in FORMATS:
        raise ArgumentValueError(
            "jax_to_ir can only write HLO and StableHLO.",
            got=f"format: {format!r}",
            do=f"One of {FORMATS}.",
        )
    names = [name for name, _ in input_shapes]
    if both := sorted({*names} & constants.keys()):
        raise ArgumentValueError(
            "an argument can't be both an input and a constant.", got=f"both: {both}"
        )

    @functools.wraps(fn)
    def call_with_inputs(*inputs: Any) -> Any:
        return fn(**dict(zip(names, inputs, strict=True)), **constants)

    del call_with_inputs.__wrapped__  # type: ignore[attr-defined]  # whose signature is another one
    traced = jit(call_with_inputs).trace(*[struct for _, struct in input_shapes])
    module = traced.lower_portably(()).module.module
    if format == "HLO":
        hlo = to_hlo(module)
        return hlo.as_serialized_hlo_module_proto(), hlo.as_hlo_text()
    return portable_artifact(module), str(module)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        f"python -m {_COMMAND}", description="Write the program of a function to files."
    )
    parser.add_argument("--fn", required=True, help="the function, as module.name")
    parser.add_argument(
        "--input_shapes", required=True, help="""inputs in order: [("x", "f32[8,128]")]"""
    )
    parser.add_argument("--constants", default="{}", help="other arguments; lists become arrays")
    parser.add_argument(
        "--evaled_constants", default="{}", help="as --constants, where strings are evaluated first"
    )
    parser.add_argument("--ir_format", default="HLO", choices=FORMATS)
    parser.add_argument("--ir_dest", type=Path, help="file for the serialized program")
    parser.add_argument("--ir_human_dest", type=Path, help="file for its text")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the program that the command's `arguments` describe.

    >>> main([])
    Traceback (most recent call last):
        ...
    SystemExit: 2
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.ir_dest is None and options.ir_human_dest is None:
        parser.error("at least one of --ir_dest and --ir_human_dest is needed")
    module, _, name = options.fn.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    shapes = literal_eval(options.input_shapes)
    pairs = shapes.items() if isinstance(shapes, dict) else shapes
    evaluated = {
        k: literal_eval(v) if isinstance(v, str) else v
        for k, v in literal_eval(options.evaled_constants).items()
    }
    constants = {
        k: asarray(v) if isinstance(v, list) else v
        for k, v in (literal_eval(options.constants) | evaluated).items()
    }
    data, text = jax_to_ir(
        function,
        [(key, parse_shape_str(shape)) for key, shape in pairs],
        constants=constants,
        format=options.ir_format,
    )
    if options.ir_dest is not None:
        options.ir_dest.write_bytes(data)
    if options.ir_human_dest is not None:
        options.ir_human_dest.write_text(text, encoding="utf-8")


__all__ = ["jax_to_ir", "main", "parse_shape_str"]


if __name__ == "__main__":
    main()
