"""What every test and every example of a docstring can rely on."""

import importlib
import importlib.util
import os
from typing import Any

import pytest

# Meshes and shardings are tested on eight virtual devices of the CPU. Read when the first client starts.
os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", "8")
# Kernels would keep their executables in the user's folder of caches.
os.environ.setdefault("PELLUCID_COMPILATION_CACHE_DIR", "")

# An example may use these names without importing them.
EXAMPLE_NAMES = {"np": "numpy", "pl": "pellucid", "jnp": "pellucid.numpy", "lax": "pellucid.lax"}


@pytest.fixture(autouse=True, scope="session")
def names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """Give examples the modules above, and the public functions on trees by their own names."""
    for name, module in EXAMPLE_NAMES.items():
        if importlib.util.find_spec(module) is not None:
            doctest_namespace[name] = importlib.import_module(module)
    tree_util = importlib.import_module("pellucid.tree_util")
    doctest_namespace |= {name: x for name, x in vars(tree_util).items() if name[0] != "_"}
