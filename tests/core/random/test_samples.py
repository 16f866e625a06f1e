"""Keys and samples are those of the reference: bits and integers exactly, floating numbers up to `MAX_ULP`.

Where answers were recorded floating ones are equal to the last bit, too. Processors that contract other products and
sums give others.
"""

import builtins

import numpy as np
import pytest
from corpus import random_samples as corpus
from rotation import rotating

import pellucid as pl
from pellucid._machine.base.config import optimization_level

MAX_ULP = dict.fromkeys(("float16", "bfloat16", "float32", "float64", "complex64", "complex128"), 4)
MAX_ULP["float16"] = (
    8  # a sample near 0 of a truncated normal differs by 5 on processors with other contractions
)
MAX_LOG1P_ULP = 32
"""Of Gumbel numbers in float64: the reference's scalar log1p is 26 off the exact value, which vectors give on some processors."""


MAX_LAPACK_ULP = 256
"""Of matrices by decompositions: the bits of LAPACK depend on the processor, those of answers on the one that recorded them."""


def distance(dtype: str, sample: bytes, expected: bytes) -> int:
    """The largest difference of elements as integers: of floating ones, in units in the last place."""
    part = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    size = (
        1
        if "key" in part or part == "bool"
        else pl.dtypes.finfo(part).bits // 8
        if "float" in part
        else 1
    )
    as_integers = [np.frombuffer(x, f"int{8 * size}").astype(object) for x in (sample, expected)]
    assert len(as_integers[0]) == len(as_integers[1])
    return max((abs(a - b) for a, b in zip(*as_integers, strict=True)), default=0)


def function(row) -> str:
    """The function that a row calls: the first row of each is in every run."""
    text, wide = row
    return text.partition("(")[0], wide


@pytest.mark.parametrize(("text", "wide"), rotating(corpus.ROWS, function))
def test_samples_are_those_of_the_reference(oracle, oracle_x64, text, wide) -> None:
    [expected] = (oracle_x64 if wide else oracle).call_each(corpus.answers, [text])
    with pl.enable_x64(wide):
        if isinstance(expected, str):
            with pytest.raises(getattr(builtins, expected)):
                corpus.evaluate(pl, text)
            return
        with optimization_level("O3"):  # contracts products and sums as where answers were recorded
            ours = corpus.answer(pl, text)
    assert not isinstance(ours, str), ours
    assert [(dtype, weak) for dtype, weak, _ in ours] == [(d, w) for d, w, _ in expected]
    for (dtype, _, sample), (_, _, target) in zip(ours, expected, strict=True):
        is_log1p = text.startswith("random.gumbel(") and dtype == "float64"
        allowed = MAX_LOG1P_ULP if is_log1p else MAX_ULP.get(dtype, 0)
        if text.startswith("random.orthogonal("):
            allowed = MAX_LAPACK_ULP
        assert distance(dtype, sample.tobytes(), target.tobytes()) <= allowed


def test_t_numbers_have_the_shape_of_their_parameter_by_default():
    assert pl.random.t(pl.random.key(0), np.ones((2, 3))).shape == (2, 3)
    assert pl.random.t(pl.random.key(0), 3.0).shape == ()
