"""Processes that a notebook starts; notebooks/05_processes.ipynb drives them, and loses one."""

import sys
import types

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from pellucid_kernel import processes
from pellucid_kernel.magics import PellucidMagics
from pellucid_kernel.shell import ShellExtension


@pytest.fixture
def magics():
    shell = InteractiveShell()
    return PellucidMagics(shell, ShellExtension(shell))


def test_the_words_of_the_line():
    assert processes.counts(["3"]) == (3, 2)
    assert processes.counts(["3", "4"]) == (3, 4)


@pytest.mark.parametrize("words", [["0"], ["two"], ["1", "2", "3"], ["2", "-1"]])
def test_words_that_are_no_numbers(words):
    with pytest.raises(UsageError, match="%pellucid processes 2 4"):
        processes.counts(words)


def test_ipyparallel_is_asked_for_where_it_is_missing(magics, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    with pytest.raises(UsageError, match=r'pip install "pellucid\[processes\]"'):
        magics.pellucid("processes 2")


def test_processes_are_stopped_before_others_start(magics, monkeypatch):
    said = []

    def start(count, devices):
        said.append(("start", count, devices))
        return types.SimpleNamespace(stop=lambda: said.append(("stop", count)))

    monkeypatch.setattr(processes, "Processes", start)
    assert magics.pellucid("processes") is None
    first = magics.pellucid("processes 2")
    assert magics.pellucid("processes") is first
    with pytest.raises(UsageError):
        magics.pellucid("processes none")
    assert magics.pellucid("processes") is first
    magics.pellucid("processes 3 1")
    assert magics.pellucid("processes stop") is None
    assert said == [("start", 2, 2), ("stop", 2), ("start", 3, 1), ("stop", 3)]
