"""The extension for plain IPython."""

import pytest
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def shell() -> InteractiveShell:
    return InteractiveShell()


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
