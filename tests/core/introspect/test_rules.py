"""The table of primitives and their rules."""

import subprocess
import sys
from pathlib import Path

from pellucid.introspect.rules import rule_table

SNAPSHOT = Path(__file__).parents[2] / "snapshots" / "rule_matrix.txt"


def parsed(table):
    header, *lines = table.splitlines()
    rules = header.split()[1:]
    return {
        (primitive, rule)
        for primitive, *cells in map(str.split, lines)
        for rule, cell in zip(rules, cells, strict=True)
        if cell == "yes"
    }


def test_the_table_tells_rules_that_a_family_only_declares():
    rules = parsed(rule_table())
    assert ("neg", "transpose") in rules
    assert ("sin", "transpose") not in rules
    assert ("sin", "jvp") in rules
    assert ("floor", "lower") in rules


def test_no_primitive_lost_a_rule():
    """New rules are welcome; `make snapshots` writes them down."""
    command = [sys.executable, "-m", "pellucid.introspect", "rules"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert parsed(SNAPSHOT.read_text()) - parsed(printed) == set()
