"""The texts of errors, as `tests/messages/effects.md` shows them."""

import numpy as np
import pytest
from message_page import Page

import pellucid as pl
from pellucid import lax
from pellucid.experimental import checkify, io_callback

PAGE = Page("effects.md")
X = np.arange(3, dtype=np.float32)


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=PAGE.names)
def test_the_message_is_as_shown(code, text):
    names = {
        "pl": pl, "np": np, "lax": lax, "checkify": checkify, "io_callback": io_callback,
        "x": pl.device_put(X), "ref": pl.new_ref(X), "vector": pl.ShapeDtypeStruct((3,), np.float32),
        "scalar": pl.ShapeDtypeStruct((), np.float32),
    }  # fmt: skip
    PAGE.check(code, text, names)
