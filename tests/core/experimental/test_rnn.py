"""LSTMs: the reference's numbers and derivatives, batches, and mistakes."""

import numpy as np
import pytest
from corpus.library_programs import lstms

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid.experimental import rnn

X = np.linspace(-1, 1, 30, dtype=np.float32).reshape(2, 5, 3)
STATE = np.zeros((1, 2, 4), np.float32)
SIZES = 3, 4, 1
WEIGHTS = np.linspace(-1, 1, 144, dtype=np.float32)
LENGTHS = np.array([5, 3])


def test_numbers_are_those_of_the_reference(oracle) -> None:
    oracle.check(lstms, library=pl)


def test_batches_and_compiled_calls() -> None:
    run = lambda x, lengths: rnn.lstm(x, STATE, STATE, WEIGHTS, lengths, *SIZES, 0.0, False)
    batched = pl.jit(pl.vmap(run, in_axes=(0, None)))(np.stack([X, 2 * X]), LENGTHS)
    for i, factor in enumerate((1, 2)):
        for all_results, one in zip(batched, run(factor * X, LENGTHS), strict=True):
            np.testing.assert_allclose(all_results[i], one, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"dropout": 0.5}, UnsupportedError, "dropout=0.5"),
        ({"weights": WEIGHTS[1:]}, ArgumentValueError, r"\(143,\), expected \(144,\)"),
        ({"h_0": STATE[0]}, ArgumentValueError, "h_0: shape"),
        ({"seq_lengths": LENGTHS[:1]}, ArgumentValueError, "seq_lengths: shape"),
    ],
)
def test_mistakes(changes, error, message) -> None:
    arguments = {
        "x": X, "h_0": STATE, "c_0": STATE, "weights": WEIGHTS, "seq_lengths": LENGTHS, "input_size": 3,
        "hidden_size": 4, "num_layers": 1, "dropout": 0.0, "bidirectional": False,
    }  # fmt: skip
    with pytest.raises(error, match=message):
        rnn.lstm(**arguments | changes)
