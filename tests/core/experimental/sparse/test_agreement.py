"""Sparse arrays have the types, layouts and elements of the reference's, and refuse what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corpus import sparse_expressions as corpus
from rotation import rotating

import pellucid as pl
from pellucid.experimental import sparse

CHUNKS = 32
"""Number of tests that share the expressions; one of them, and a part of the others, run each time."""


@pytest.mark.parametrize("k", rotating([(k,) for k in range(CHUNKS)], lambda case: "chunk"))
def test_values_and_layouts_are_those_of_the_reference(oracle, k: int) -> None:
    texts = corpus.TEXTS[k::CHUNKS]
    expected = oracle.call_each(corpus.answers, texts)
    ours = corpus.answers(pl, texts)
    differing = [
        f"{text}\n  {ours!r}\n  {theirs!r}"
        for text, ours, theirs in zip(texts, ours, expected, strict=True)
        if text not in corpus.DIFFERENT and not agree(ours, theirs)
    ]
    assert not differing, "\n".join(differing)


def agree(x: Any, y: Any) -> bool:
    """Whether facts are equal, elements of arrays up to rounding, and errors of a class that is theirs."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        wide = [np.asarray(z, np.complex128) for z in (x, y)]
        return (x.shape, x.dtype) == (y.shape, y.dtype) and np.allclose(*wide, 1e-5, 1e-5)
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(agree, x, y))
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(agree(x[key], y[key]) for key in x)
    if isinstance(x, tuple) and isinstance(y, tuple) and y[:1] == ("raises",):
        return x[:1] == ("raises",) and y[1] in x  # one of our classes is theirs
    return type(x) is type(y) and x == y


def test_every_function_is_compared() -> None:
    texts = " ".join(corpus.TEXTS)
    names = [name for name in dir(sparse) if name[0] != "_" and callable(getattr(sparse, name))]
    functions = {name for name in names if not name.endswith("_p")} - set(corpus.CLASSES)
    missing = {name for name in functions if f"sparse.{name}(" not in texts}
    assert missing <= {
        "bcoo_eliminate_zeros", "bcoo_gather", "bcoo_sort_indices", "bcoo_todense", "bcoo_transpose",
        "bcoo_update_layout", "bcsr_eliminate_zeros",
    }, "methods and indexing compare these; write an expression for others"  # fmt: skip
