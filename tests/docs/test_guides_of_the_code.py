"""ARCHITECTURE.md and CONTRIBUTING.md name files, folders, pages and members that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = "ARCHITECTURE.md", "CONTRIBUTING.md"
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
_PATH = re.compile(r"(?<![\w./<>…-])(?:[\w.-]+/)+[\w.-]*\w(?![\w<…])(?!/\w)")
_MEMBER = re.compile(r"`([A-Z]\w+)\.(?!md)([a-z_]\w*)`")
_MADE = {".ci/run", "build/docs", "tests/browser/output", "path/to/python"}
"""Paths that are made, or stand for the user's."""


def _text(guide: str) -> str:
    return (ROOT / guide).read_text(encoding="utf-8")


def _paths(text: str) -> list[str]:
    """Paths in the code spans and code blocks of a page."""
    spans = re.findall(r"```.*?```|`[^`]*`", text, re.DOTALL)
    return [path for span in spans for path in _PATH.findall(span) if path not in _MADE]


@pytest.mark.parametrize("guide", GUIDES)
def test_links_lead_to_files(guide: str) -> None:
    links = _LINK.findall(_text(guide))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("guide", GUIDES)
def test_paths_exist_in_the_repository_or_in_core(guide: str) -> None:
    paths = _paths(_text(guide))
    assert len(paths) > 20
    starts = ROOT, ROOT / "core/pellucid"
    assert [path for path in paths if not any((start / path).exists() for start in starts)] == []


@pytest.mark.parametrize("guide", GUIDES)
def test_members_are_defined_in_classes_of_that_name(guide: str) -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for folder in ("core", "kernel", "viz", "profiler")
        for path in (ROOT / folder).rglob("*.py")
    ]
    for name, member in _MEMBER.findall(_text(guide)):
        defined = re.compile(
            rf"^class {name}\b.*?^    (?:def {member}\b|{member}:)", re.MULTILINE | re.DOTALL
        )
        assert any(f"class {name}" in source and defined.search(source) for source in sources), (
            f"{name}.{member}"
        )
