"""Messages about arguments that fit nothing name functions that users can call, not private ones."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.primitives.families import BROADCASTING, FUNCTIONS

MODULES = (
    "lax", "lax.linalg", "nn", "nn.initializers", "image", "ops", "scipy.special", "scipy.linalg", "scipy.signal", "scipy.stats", "scipy.fft",
    "scipy.ndimage", "scipy.cluster.vq", "scipy.interpolate", "scipy.integrate", "scipy.sparse.linalg", "numpy", "numpy.linalg", "numpy.fft",
)  # fmt: skip
X = np.ones(3, np.float32)
WRITING = {"save", "savez", "fromfile", "load", "loadtxt", "genfromtxt"}
"""Functions that take names of files."""
ARGUMENTS = {
    "text": "a", "object": object(), "key": pl.random.key(0), "other shape": np.ones((2, 5, 3), np.float32),
    "complex": np.ones(3, np.complex64), "bools": np.ones(3, bool),
}  # fmt: skip
BEGINS = re.compile(r"^([A-Za-z_][\w.]*)(?: needs| can't| got| does not|:)")
PRIVATE = re.compile(r"(?<![\w.])_[a-zA-Z]\w*|[\w)]\._[a-z]\w*")
THINGS = {"arithmetic", "ufunc", "integers", "image", "key", "keys", "convolution"}
"""What messages begin with that are no functions."""


def functions(module: str) -> dict[str, Any]:
    found = importlib.import_module(f"pellucid.{module}")
    return {
        name: value
        for name in getattr(found, "__all__", vars(found))
        if name[0] != "_"
        and name not in WRITING
        and callable(value := getattr(found, name))
        and not inspect.isclass(value)
    }


PUBLIC = {name for module in (*MODULES, "random", "tree") for name in functions(module)} | {
    *vars(pl)
}


def positions(function: Any) -> int:
    """How many arguments a function needs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    return sum(p.default is p.empty and p.kind in (0, 1) for p in parameters) or 1


@pytest.mark.parametrize("module", MODULES)
def test_messages_name_functions_that_users_can_call(module: str) -> None:
    wrong: list[str] = []
    for name, function in functions(module).items():
        n = positions(function)
        for place in range(n):
            for kind, argument in ARGUMENTS.items():
                arguments: list[Any] = [X] * n
                arguments[place] = argument
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        pl.eval_shape(lambda a=arguments, f=function: f(*a))
                except pl.errors.PellucidError as error:
                    line = str(error).splitlines()[0]
                    if line.startswith("a value of type"):  # a result, of which eval_shape speaks
                        continue
                except Exception:  # of Python and NumPy
                    continue
                else:
                    continue
                subject = BEGINS.match(line)
                named = subject.group(1).split(".")[-1] if subject else ""
                is_known = not named or named in PUBLIC | THINGS or named == name
                if PRIVATE.search(line) or not is_known:
                    wrong.append(f"{module}.{name}({kind} at {place}): {line}")
    assert not wrong


@pytest.mark.parametrize("name", BROADCASTING)
def test_messages_name_functions_that_broadcast(name: str) -> None:
    *path, last = BROADCASTING[name].split(".")
    module = jnp if path == ["jnp"] else importlib.import_module(".".join(["pellucid", *path]))
    assert callable(getattr(module, last))


def test_functions_of_primitives_are_in_lax() -> None:
    for function in FUNCTIONS.values():
        assert callable(getattr(pl.lax, function))
    with pytest.raises(pl.errors.ShapeError, match=r"^bitwise_and needs.*(\n.*)*jnp\.bitwise_and"):
        pl.lax.bitwise_and(np.ones(2, int), np.ones(3, int))
