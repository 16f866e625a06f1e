"""Recorded answers as text: every bit comes back, a changed number is a changed line, and nothing is run."""

import difflib

import ml_dtypes
import numpy as np
import pytest
from answer_text import FLOAT0, read, write
from laws.jax_answers import Answer
from oracle import Failure, Leaf, Outcome

PAYLOAD = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)

ARRAYS = [
    np.float32([0.1, -0.0, np.nan, np.inf, -np.inf, 1e-45, 3.4028235e38]),
    np.float64([[0.1, 1e300], [5e-324, -1]]),
    np.complex64([1 + 2j, complex(-0.0, np.inf), complex(np.nan, 1)]),
    np.array(0.1).astype(ml_dtypes.bfloat16),
    np.array([0.1, 448, -0.0]).astype(ml_dtypes.float8_e4m3fn),
    np.array([-8, 7]).astype(ml_dtypes.int4),
    np.array([2**63 - 1, -(2**63)]),
    np.array([2**64 - 1], np.uint64),
    np.array([[True], [False]]),
    np.zeros((2, 0, 3), np.int8),
    np.zeros((3,), FLOAT0),
    np.array(["a 'b'", 'c "d"']),
    PAYLOAD,
    np.arange(600, dtype=np.float16).reshape(3, 200),
]


@pytest.mark.parametrize("x", ARRAYS, ids=lambda x: f"{x.dtype.name}{x.shape}")
def test_arrays_come_back_bit_for_bit(x: np.ndarray) -> None:
    actual = read(write(x))
    assert (actual.dtype, actual.shape) == (x.dtype, x.shape)
    assert actual.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "value",
    [
        None, True, -3, 1.5, float("inf"), -0.0, "", "it's \"said\"", "two\nlines\n", "π\x00\u2028", b"\x00",
        (), (1,), ("a" * 200,), [1, [2]], {"a": (1, None), 2: []},
        Failure("KeyError", ("KeyError", "LookupError"), "text\nmore", "KeyError"),
        Outcome(structure="*", warnings=(("UserWarning", "text"),)), Answer(error="TypeError", weak_types=(True, False)),
    ],
    ids=repr,
)  # fmt: skip
def test_plain_data_and_records_come_back(value: object) -> None:
    actual = read(write(value))
    assert type(actual) is type(value)
    assert repr(actual) == repr(value)


def test_a_changed_number_is_a_changed_line() -> None:
    def text(x: float) -> str:
        array = np.float32([[1, 2, 3], [4, x, 6]] * 5)
        leaf = Leaf("array", "", "float32", (10, 3), array=array)
        return write(Outcome((leaf, leaf), "PyTreeDef((*, *))"))

    changed = [
        line
        for line in difflib.ndiff(text(5).splitlines(), text(5.5).splitlines())
        if line[0] in "+-"
    ]
    assert {line[1:].strip() for line in changed} == {"4.0, 5.0, 6.0,", "4.0, 5.5, 6.0,"}


def test_long_arrays_begin_with_numbers_for_people() -> None:
    assert '"0, 1, 2, 3, 4, 5, ... 99"' in write(np.arange(100))


@pytest.mark.parametrize(
    "text", ["__import__('os')", "os.system(x=1)", "subprocess.Popen(args='ls')", "1 + 1", "[x for x in y]"]
)  # fmt: skip
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"recorded answer|class of the tests"):
        read(text)


def test_what_cannot_be_read_back_is_not_written() -> None:
    with pytest.raises(TypeError, match="object can't be written"):
        write([object()])
