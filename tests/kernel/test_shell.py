"""The extension for plain IPython."""

import re
from collections.abc import Iterator

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import pellucid.numpy as jnp
import pellucid_profiler


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    yield shell
    if (
        "pellucid_kernel" in shell.extension_manager.loaded
    ):  # it would note what other tests compile
        shell.run_line_magic("unload_ext", "pellucid_kernel")


def line_of_last_statement(shell: InteractiveShell) -> int:
    shell.run_cell("\n\nimport sys\nline = sys._getframe().f_lineno")
    return shell.user_ns["line"]


def test_extension_keeps_empty_lines(shell: InteractiveShell) -> None:
    assert line_of_last_statement(shell) == 2
    shell.run_line_magic("load_ext", "pellucid_kernel")
    assert line_of_last_statement(shell) == 4


def test_unloading_restores_the_shell(shell: InteractiveShell) -> None:
    before = list(shell.input_transformer_manager.cleanup_transforms)
    shell.run_line_magic("load_ext", "pellucid_kernel")
    shell.run_line_magic("unload_ext", "pellucid_kernel")
    assert shell.input_transformer_manager.cleanup_transforms == before


PROFILED = """import pellucid as pl, pellucid.numpy as jnp
f = pl.jit(lambda x: jnp.sin(x) @ x - 0.25)
y = f(jnp.ones((64, 64)))
count = globals().get("count", 0) + 1"""


def test_a_cell_that_compiles_is_profiled_warm(shell: InteractiveShell) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    profile = shell.run_cell_magic("profile", "", PROFILED)
    assert shell.user_ns["count"] == 2
    assert {each.place.line for each in profile.lines if each.place} == {3, 4}
    assert "measured by line" in repr(profile)


EAGER = """from __future__ import annotations
import pellucid.numpy as jnp
def scaled(x):
    return x * 3
for i in range(2):
    if i:
        x = jnp.ones((33, 65)) * 2
        y = scaled(x)
z = jnp.sort(x.reshape(-1)); z"""


def test_eager_operations_count_for_the_lines_that_call_them(
    shell: InteractiveShell, capsys
) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    shell.run_cell("import pellucid.numpy as jnp\nx = jnp.ones((33, 65)) * 2")
    profile = shell.run_cell_magic("profile", "", EAGER)
    assert {each.place and each.place.line for each in profile.lines} == {5, 8, 10}
    assert profile.totals.unattributed_seconds == 0
    with pellucid_profiler.profile() as recorded:
        jnp.ones((33, 65)) * 2
    assert {each.place for each in recorded.lines} == {None}


def test_runs_of_a_profile_can_be_chosen(shell: InteractiveShell) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    profile = shell.run_cell_magic("profile", "-r 3", PROFILED)
    assert shell.user_ns["count"] == 3
    assert len({*profile.calls.run} - {-1}) >= 3


def test_of_several_profiled_runs_the_value_of_the_last_is_shown(
    shell: InteractiveShell, capsys
) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    shell.run_cell("%%profile -r 3\n" + PROFILED + "\ncount")
    assert re.findall(r"^Out\[\d*\]: (\d+)", capsys.readouterr().out, re.MULTILINE) == ["3"]


def test_a_cell_that_fails_has_no_profile(shell: InteractiveShell, capsys) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    assert shell.run_cell_magic("profile", "", "1 / 0") is None
    assert "ZeroDivisionError" in capsys.readouterr().out
    with pytest.raises(UsageError, match="number of runs"):
        shell.run_cell_magic("profile", "often", "1")
