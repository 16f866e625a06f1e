"""The texts of errors, as `tests/messages/runtime.md` shows them."""

import numpy as np
import pytest
from message_page import Page

import pellucid as pl
from pellucid._machine.runtime import donation

PAGE = Page("runtime.md")


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=PAGE.names)
def test_the_message_is_as_shown(code, text, monkeypatch):
    monkeypatch.setattr(donation, "_donors", {})  # other tests' functions
    PAGE.check(code, text, {"pl": pl, "np": np, "x": pl.device_put(np.ones(3, np.float32))})
