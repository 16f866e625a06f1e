"""Names that examples in docstrings use without importing them."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def names_of_the_package(
    request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]
) -> Iterator[None]:
    """`np`, and the public names of the package that the example's module belongs to."""
    before = dict(doctest_namespace)
    if isinstance(request.node, pytest.DoctestItem):
        names_of_module = request.node.dtest.globs
        module = names_of_module["__name__"]
        package = importlib.import_module(module.rpartition(".")[0] or module)
        doctest_namespace["np"] = np
        doctest_namespace.update(
            (name, getattr(package, name))
            for name in getattr(package, "__all__", ())
            if name not in names_of_module
        )
    yield
    doctest_namespace.clear()
    doctest_namespace.update(before)
