"""Recorded answers as text that a person reads and `git diff` compares: a Python expression, read without running it.

    Outcome(
      leaves=(
        Leaf(kind="array", text="", dtype="float32", shape=(3,), array=float32[3](0.1, -0.0, nan)),
      ),
      structure="PyTreeDef(*)",
    )

What is short stands on one line, else each part has a line of its own. An array is its dtype, its shape and its numbers in
order, a complex one with two numbers for each element. Arrays of many elements, and those whose bits numbers don't tell
(NaN with a payload), are packed: a summary for people, then the bytes in base 64. Fields that have their default are left out.
"""

from __future__ import annotations

import ast
import base64
import dataclasses
import importlib
import json
import math
import zlib
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
from oracle import Failure, Key, Leaf, Outcome

LINE = 110
"""Columns up to which a value stays on one line."""

LISTED = 64
"""Elements up to which an array is written as numbers."""

FLOAT0 = np.dtype([("float0", np.void, 0)])
PLAIN = (type(None), bool, int, float, str, bytes)
CLASSES: dict[str, type] = {kind.__name__: kind for kind in (Failure, Key, Leaf, Outcome)}
NUMBERS = {"nan": math.nan, "inf": math.inf}


# Writing ------------------------------------------------------------------------------------------


def write(value: Any, indent: str = "") -> str:
    """Text of plain data, NumPy arrays, and data classes and named tuples that hold such.

    Raises: TypeError for anything else, which could not be read back.
    """
    if isinstance(value, PLAIN):
        return _text(value, indent) if isinstance(value, str) else repr(value)
    if isinstance(value, np.ndarray):
        return _array(value, indent)
    deeper = indent + "  "
    if _is_record(value):
        parts = [f"{name}={write(part, deeper)}" for name, part in _fields(value)]
        return _call(_class_name(type(value)) + "(", parts, ")", indent)
    if isinstance(value, dict):
        parts = [f"{write(key, deeper)}: {write(part, deeper)}" for key, part in value.items()]
        return _call("{", parts, "}", indent)
    if isinstance(value, list):
        return _call("[", [write(part, deeper) for part in value], "]", indent)
    if type(value) is tuple:
        parts = [write(part, deeper) for part in value]
        return (
            f"({parts[0]},)" if len(parts) == 1 and _fits(parts) else _call("(", parts, ")", indent)
        )
    raise TypeError(f"{type(value).__name__} can't be written as a recorded answer")


def _text(text: str, indent: str) -> str:
    """A string in double quotes; several lines of it stand below each other."""
    lines = [json.dumps(line, ensure_ascii=False) for line in text.splitlines(keepends=True)]
    if len(lines) < 2:
        return lines[0] if lines else '""'
    return _block("(", lines, ")", indent)


def _call(start: str, parts: list[str], end: str, indent: str) -> str:
    if _fits(parts):
        return start + ", ".join(parts) + end
    return _block(start, [f"{part}," for part in parts], end, indent)


def _block(start: str, lines: list[str], end: str, indent: str) -> str:
    return "\n".join([start, *(f"{indent}  {line}" for line in lines), indent + end])


def _fits(parts: list[str]) -> bool:
    return sum(map(len, parts)) + 2 * len(parts) <= LINE and not any("\n" in part for part in parts)


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) or hasattr(value, "_fields")


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    """Names and values of the fields that differ from their default."""
    if not dataclasses.is_dataclass(value):
        for name in value._fields:
            part = getattr(value, name)
            if not (name in value._field_defaults and _equals(part, value._field_defaults[name])):
                yield name, part
        return
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if not _equals(part, field.default):
            yield field.name, part


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and value == default


def _class_name(kind: type) -> str:
    if CLASSES.get(kind.__name__) is kind:
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


def _array(value: np.ndarray, indent: str) -> str:
    shape = ", ".join(map(str, value.shape)) or "()"
    if value.dtype == FLOAT0:
        return f"float0[{shape}]()"
    if value.dtype.kind == "U":
        return f"text[{shape}]({', '.join(json.dumps(str(part)) for part in value.ravel())})"
    start = f"{value.dtype.name}[{shape}]"
    numbers = [str(part) for part in _parts(value)]
    if value.size <= LISTED and _same_bits(value, _filled(value.dtype, value.shape, numbers)):
        # One line for each row, or for each eight numbers of a vector.
        width = value.shape[-1] if value.ndim > 1 else 8
        width *= 2 if value.dtype.kind == "c" else 1
        rows = [", ".join(numbers[i : i + width]) for i in range(0, len(numbers), width or 1)]
        return _call(start + "(", rows, ")", indent)
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 9)).decode()
    return f'{start}.packed("{_summary(numbers)}", "{data}")'


def _parts(value: np.ndarray) -> list[Any]:
    """Elements in order; a complex one is two, real and imaginary part."""
    flat = np.ascontiguousarray(value).ravel()
    return list(flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat)


def _summary(numbers: list[str]) -> str:
    return ", ".join(numbers[:6]) + (f", ... {numbers[-1]}" if len(numbers) > 6 else "")


def _filled(dtype: np.dtype, shape: tuple[int, ...], numbers: list[str]) -> np.ndarray:
    part = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    if part.kind in "iu" or part.name in ("int2", "int4", "uint2", "uint4"):
        flat = np.array(
            [int(number) for number in numbers], np.uint64 if part.kind == "u" else np.int64
        )
    elif part.kind == "b":
        flat = np.array([number == "True" for number in numbers], bool)
    else:
        flat = np.array([float(number) for number in numbers], np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return flat.astype(part).view(dtype).reshape(shape)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


# Reading ------------------------------------------------------------------------------------------


def read(text: str) -> Any:
    """The value that was written as `text`; nothing in it is run.

    Raises: ValueError for text that `write` doesn't make.
    """
    return _value(ast.parse(text.strip(), mode="eval").body)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name) if name in NUMBERS:
            return NUMBERS[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.Tuple(parts):
            return tuple(_value(part) for part in parts)
        case ast.List(parts):
            return [_value(part) for part in parts]
        case ast.Dict(keys, parts):
            return {_value(key): _value(part) for key, part in zip(keys, parts, strict=True) if key}
        case ast.Call(ast.Attribute(ast.Subscript(ast.Name(name), shape), "packed"), [_, data]):
            content = zlib.decompress(base64.b64decode(_value(data)))
            return np.frombuffer(content, _dtype(name)).reshape(_value(shape)).copy()
        case ast.Call(ast.Subscript(ast.Name(name), shape), parts):
            return _read_array(name, _value(shape), [ast.unparse(part) for part in parts])
        case ast.Call(function, [], fields):
            kind = _class(ast.unparse(function))
            return kind(**{str(field.arg): _value(field.value) for field in fields})
    raise ValueError(f"no recorded answer is written as {ast.unparse(node)!r}")


def _read_array(name: str, shape: Any, texts: list[str]) -> np.ndarray:
    shape = shape if isinstance(shape, tuple) else (shape,)
    if name == "float0":
        return np.zeros(shape, FLOAT0)
    if name == "text":
        return np.array([ast.literal_eval(text) for text in texts]).reshape(shape)
    return _filled(_dtype(name), shape, texts)


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def _class(name: str) -> type:
    if name in CLASSES:
        return CLASSES[name]
    module, _, attribute = name.rpartition(".")
    if not module.startswith(("tests.", "corpus.", "laws.")):
        raise ValueError(f"{name} isn't a class of the tests")
    return getattr(importlib.import_module(module), attribute)
