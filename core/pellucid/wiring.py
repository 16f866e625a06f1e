"""Every late binding of the core: what a lower layer is given by a higher one."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pellucid import sharding as _sharding
from pellucid.base.dtypes import set_scalar_conversion
from pellucid.compilation.eager import EvalTrace
from pellucid.compilation.relayout import relaid
from pellucid.ir import jaxpr as _jaxpr, printing as _printing
from pellucid.primitives import reshard as _reshard
from pellucid.runtime import (
    interchange as _interchange,  # noqa: F401  (methods of arrays)
    platforms,
    transfer as _transfer,
)
from pellucid.sharding.topology import default_devices
from pellucid.tracing.context import Context
from pellucid.tracing.tracer import Tracer
from pellucid.xla.arrays import ArrayImpl

# The bottom trace, for every thread.
Context.trace = EvalTrace()

# The text of programs.
_jaxpr.printer = _printing.text

# Operators and methods of arrays are the NumPy API, which loads when one of them is first used.
_OPERATORS = (
    *(f"__{prefix}{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul") for prefix in ("", "r")),
    *(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem", "setitem", "iter", "contains", "round")),
)  # fmt: skip
_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "conj",
    "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "nonzero", "prod",
    "ptp", "ravel", "repeat", "reshape", "round", "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes",
    "take", "trace", "transpose", "var", "view",
)  # fmt: skip
_PROPERTIES = ("T", "mT", "real", "imag", "at")


def _load_operators() -> None:
    importlib.import_module("pellucid.numpy")


def _late_method(name: str) -> Any:
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        _load_operators()
        return getattr(x, name)(*args, **kwargs)

    method.__name__ = name
    return method


def _late_property(name: str) -> Any:
    def read(x: Any) -> Any:
        _load_operators()
        return getattr(x, name)

    return property(read)


for _class in (ArrayImpl, Tracer):
    for _name in {*_OPERATORS, *_METHODS} - vars(
        _class
    ).keys():  # the NumPy API may be loaded already
        setattr(_class, _name, _late_method(_name))
    for _name in set(_PROPERTIES) - vars(_class).keys():
        setattr(_class, _name, _late_property(_name))


def _scalar(x: Any, dtype: np.dtype) -> Any:
    return importlib.import_module("pellucid.numpy").asarray(x, dtype)


# `jnp.float32(3)` makes an array.
set_scalar_conversion(_scalar)

# Large arrays are laid out anew by a compiled program.
_transfer.late.relaid = relaid

# The operations among the names of `sharding`, a low layer.
for _operation in (_reshard.auto_axes, _reshard.explicit_axes, _reshard.reshard):
    setattr(_sharding, _operation.__name__, _operation)

# `make_mesh` without devices takes them all.
default_devices.find = platforms.devices
