"""Checks of what an error says."""

import pytest


def check_message(call, error, *fragments):
    """`call()` raises `error`, whose text has all `fragments`."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    missing = [f for f in fragments if f not in text]
    assert not missing, f"the message lacks {missing}:\n{text}"
