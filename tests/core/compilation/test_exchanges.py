"""Sharded programs exchange between devices no more bytes than those of the reference."""

from __future__ import annotations

from typing import Any

import pytest
from corpus import exchanges

import pellucid

QUICK = [name for name in exchanges.PROGRAMS if name.startswith("sharded") and "value" in name]
SLOW = [name for name in exchanges.PROGRAMS if name not in QUICK]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["values", "transformed"]
)
def test_programs_exchange_no_more_than_those_of_the_reference(
    oracle_8_devices: Any, names: list[str]
) -> None:
    theirs = oracle_8_devices.call(exchanges.of_corpora, names, timeout=600)
    ours = exchanges.of_corpora(pellucid, names)
    assert exchanges.exceeding(ours, theirs) == set()
    assert sum("bytes" in actual for actual in theirs.values()) > 0.8 * len(names)


def test_bytes_are_those_of_results() -> None:
    text = """
      %a = f32[4,8]{1,0} all-gather(%x), dimensions={0}
      %b = (f32[], bf16[3]{0}, s4[8]{0}) all-reduce(%y, %z, %w), to_apply=%add
      %c = f32[4,8]{1,0} add(%a, %a)
    """
    assert exchanges.exchanges(text) == ({"all-gather": 1, "all-reduce": 1}, 128 + 4 + 6 + 4)
