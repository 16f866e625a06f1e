"""The list of public names, on a small package written for the test."""

import sys
from pathlib import Path

import pytest

from tools import public_api

FILES = {
    "__init__.py": "from sample.inner import shown\n__all__ = ['shown', 'Shown', 'LIMIT']\nLIMIT = 3\n"
    "class _Base:\n    def inherited(self): ...\n"
    "class Shown(_Base):\n    def method(self, x: int = 1): ...\n    @staticmethod\n    def make(): ...\n"
    "    def _hidden(self): ...\n",
    "inner/__init__.py": "__all__ = ['shown']\n"
    "def shown(x: list[int], *rest, flag=True, default=object()): ...\ndef not_shown(): ...\n",
    "inner/deep.py": "__all__ = ['deep']\ndef deep(): ...\n",
    "facade.py": "from sample.inner.deep import deep\n__all__ = ['deep']\n",
    "wiring.py": "raise RuntimeError('wiring is imported by the package alone')\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, text in FILES.items():
        path = tmp_path / "sample" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "sample"]:
        monkeypatch.delitem(sys.modules, name)
    return "sample"


def test_public_names_with_their_signatures(package: str) -> None:
    assert public_api.public_api((package,)).splitlines() == [
        "sample.LIMIT: int",
        "sample.Shown.inherited(self)",
        "sample.Shown.make()",
        "sample.Shown.method(self, x=1)",
        "sample.Shown: class",
        "sample.facade.deep()",
        "sample.inner.shown(x, *rest, flag=True, default=...)",
        "sample.shown(x, *rest, flag=True, default=...)",
    ]
