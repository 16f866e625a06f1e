"""Expressions about devices, meshes, shardings and placed arrays have the reference's values."""

import concurrent.futures

import pytest
from corpus import placements

import pellucid as pl


@pytest.mark.parametrize("topic", placements.TOPICS)
def test_expressions_give_what_the_reference_gives(oracle_8_devices, topic):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pending = pool.submit(oracle_8_devices.call, placements.answers, topic)
        ours = placements.answers(pl, topic)
        theirs = pending.result()
    differ = [
        f"{text}\n  here:          {our}\n  the reference: {their}"
        for text, our, their in zip(placements.rows(topic), ours, theirs, strict=True)
        if not _agree(our, their)
    ]
    assert not differ, "\n" + "\n".join(differ)


def _agree(our, their):
    """Whether two answers are equal, or both errors, ours of the built-in class that the reference raises."""
    if isinstance(their, placements.Raised):
        return isinstance(our, placements.Raised) and their[0] in our
    return our == their
