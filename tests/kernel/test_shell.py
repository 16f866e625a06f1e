"""The extension for plain IPython."""

import re
import sys
from collections.abc import Iterator

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import pellucid.numpy as jnp
import pellucid_profiler
from pellucid_kernel import magics
from pellucid_profiler import step_limit


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


LOOP = """import pellucid as pl, pellucid.numpy as jnp
import sys, time
step = pl.jit(lambda w: jnp.tanh(w @ w) * {salt})
w, count, unrecorded = jnp.full((64, 64), 0.01), 0, 0
end = time.monotonic() + {seconds}
while unrecorded < 5 and time.monotonic() < end:
    count, unrecorded = count + 1, unrecorded + (sys.gettrace() is None)
    w = step(w).block_until_ready()
after = jnp.sort(w.reshape(-1)).block_until_ready()"""


def test_of_a_long_loop_steps_behind_the_warm_up_are_recorded(shell: InteractiveShell) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    # `step` compiles, so that the recording begins again, and ends before the loop does.
    profile = shell.run_cell_magic("profile", "", LOOP.format(salt=0.31, seconds=60))
    calls, count = len(profile.calls), shell.user_ns["count"]
    assert profile.is_cut
    assert profile.has_begun_again
    assert sys.gettrace() is None
    assert shell.user_ns["after"].shape == (4096,)  # the cell ran to its end, once
    assert step_limit.MIN_STEPS - 1 <= calls < count
    assert profile.compilations == []
    assert {each.place.line for each in profile.lines if each.place} == {4}
    [remark] = profile.remarks
    assert re.match(
        r"The recording holds \d+ steps of the loop at line \d+, .*, behind a warm-up", remark
    )
    with pellucid_profiler.profile():  # and none is left
        pass


def test_a_loop_of_few_steps_is_recorded_whole(shell: InteractiveShell) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    shell.run_cell(
        "import pellucid as pl, pellucid.numpy as jnp, time\nstep = pl.jit(jnp.cos)\nstep(1.0)"
    )
    cell = "for _ in range(step_count):\n    y = step(1.0)\n    time.sleep(0.7 / step_count)"
    shell.user_ns["step_count"] = step_limit.MIN_STEPS - 2
    profile = shell.run_cell_magic("profile", "", cell)
    assert not profile.is_cut
    assert len(profile.calls) == step_limit.MIN_STEPS - 2
    assert profile.remarks == []


def test_a_loop_without_programs_ends_no_recording(shell: InteractiveShell) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    shell.run_cell(
        "import pellucid as pl, pellucid.numpy as jnp, time\nstep = pl.jit(jnp.cos)\nstep(1.0)"
    )
    cell = "for _ in range(1000):\n    time.sleep(0.001)\ny = step(1.0).block_until_ready()"
    profile = shell.run_cell_magic("profile", "", cell)
    assert not profile.is_cut
    assert len(profile.calls) == 1


def test_all_of_a_long_loop_is_recorded_on_request(shell: InteractiveShell) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    profile = shell.run_cell_magic("profile", "-r 1", LOOP.format(salt=0.32, seconds=1))
    assert not profile.is_cut
    assert len(profile.calls) > shell.user_ns["count"]


def test_a_run_that_compiles_and_takes_long_is_not_repeated(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magics, "_MAX_SECONDS_AGAIN", 0.0)
    shell.run_line_magic("load_ext", "pellucid_kernel")
    profile = shell.run_cell_magic("profile", "", PROFILED.replace("0.25", "0.35"))
    assert shell.user_ns["count"] == 1
    assert profile.compilations


def test_a_short_run_suggests_more(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(magics, "_SHORT_RUN_SECONDS", 60.0)
    shell.run_line_magic("load_ext", "pellucid_kernel")
    profile = shell.run_cell_magic("profile", "", PROFILED)
    [remark] = profile.remarks
    assert re.search(r"`%%profile -r \d+` records more", remark)
    assert shell.run_cell_magic("profile", "-r 2", PROFILED).remarks == []


def test_a_cell_that_fails_has_no_profile(shell: InteractiveShell, capsys) -> None:
    shell.run_line_magic("load_ext", "pellucid_kernel")
    failed = shell.run_cell("%%profile\n1 / 0")
    assert isinstance(failed.error_in_exec, ZeroDivisionError)
    assert capsys.readouterr().out.count("division by zero") == 1
    # Other errors are shown as before, one that isn't shown yet, too.
    shell.run_cell(
        "try:\n    get_ipython().run_cell_magic('profile', '', '1 / 0')\nexcept ZeroDivisionError:\n    pass"
    )
    capsys.readouterr()
    shell.run_cell("[][0]")
    assert "list index out of range" in capsys.readouterr().out
    with pytest.raises(UsageError, match="number of runs"):
        shell.run_cell_magic("profile", "often", "1")
