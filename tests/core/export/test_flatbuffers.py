"""FlatBuffers written and read without a schema."""

import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pellucid.export.flatbuffers import decode, encode

SCALARS = (np.int8, np.uint16, np.uint32, np.bool_)


@given(
    st.dictionaries(st.integers(0, 12), st.integers(0, 100)),
    st.lists(st.text(max_size=5), max_size=4),
    st.binary(max_size=9),
    st.lists(st.integers(0, 2**32 - 1), max_size=5),
)
def test_what_is_written_is_read(numbers, texts, data, words):
    scalars = {slot: SCALARS[slot % 4](n % 2) for slot, n in numbers.items()}
    table = {
        **scalars,
        13: texts,
        14: data,
        15: np.array(words, np.uint32),
        16: [{0: "a"}, {}],
        17: {1: scalars.get(0)},
    }
    root = decode(encode(table))
    for slot in range(13):
        expected = scalars[slot].item() if slot in scalars else 0
        assert root.number(slot, SCALARS[slot % 4]) == expected
    assert root.texts(13) == texts
    assert root.array(14, np.uint8).tobytes() == data
    assert root.array(15, np.uint32).tolist() == words
    assert [t.text(0) for t in root.tables(16)] == ["a", None]
    assert root.table(17).number(1, np.int8) == (scalars[0].item() if 0 in scalars else 0)


def test_fields_that_are_left_out_have_defaults():
    root = decode(encode({3: None}))
    assert root.table(0) is None
    assert root.text(3) is None
    assert root.tables(1) == []
    assert root.texts(2) == []
    assert root.array(4, np.uint16).size == 0


def test_vectors_and_scalars_are_aligned():
    data = encode({0: np.int8(1), 1: np.uint32(7), 2: b"x", 3: np.arange(3, dtype=np.uint32)})
    words = np.array([7], "<u4").tobytes()
    assert data.index(words) % 4 == 0
    assert data.index(np.arange(3, dtype="<u4").tobytes()) % 4 == 0


@pytest.mark.parametrize("n", range(0, 60, 7))
def test_cut_data_are_refused(n):
    data = encode({0: "a long enough text", 1: [{0: "b"}], 2: np.arange(9, dtype=np.uint32)})

    def read():
        root = decode(data[:n])
        return root.text(0), root.tables(1)[0].text(0), root.array(2, np.uint32)

    with pytest.raises(struct.error):
        read()
