"""The texts of errors, as `tests/messages/transforms.md` shows them."""

import numpy as np
import pytest
from message_page import Page

import pellucid as pl

PAGE = Page("transforms.md")


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=PAGE.names)
def test_the_message_is_as_shown(code, text):
    PAGE.check(code, text, {"pl": pl, "np": np, "x": pl.device_put(np.ones(3, np.float32))})
