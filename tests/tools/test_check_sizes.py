"""The limit on the length of files, on a small repository of its own."""

from pathlib import Path

import pytest

from tools import check_sizes


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "core").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / check_sizes.ALLOWED).write_text("# nothing yet\n")
    return tmp_path


def write_lines(path: Path, count: int) -> None:
    path.write_text("x = 1\n" * count)


def test_a_file_at_the_limit_passes(repository: Path) -> None:
    write_lines(repository / "core/gather.py", 900)
    assert check_sizes.check(repository) == []


def test_a_longer_file_fails_with_its_length(repository: Path) -> None:
    write_lines(repository / "core/gather.py", 901)
    assert check_sizes.check(repository) == ["core/gather.py has 901 lines; the limit is 900."]


def test_an_allowed_file_passes(repository: Path) -> None:
    write_lines(repository / "core/gather.py", 901)
    (repository / check_sizes.ALLOWED).write_text("core/gather.py: one table (2026-01-01)\n")
    assert check_sizes.check(repository) == []


def test_a_file_is_not_allowed_without_a_reason(repository: Path) -> None:
    (repository / check_sizes.ALLOWED).write_text("core/gather.py\n")
    with pytest.raises(ValueError, match=r"core/gather\.py is allowed without a reason"):
        check_sizes.check(repository)


def test_an_allowance_that_is_no_longer_needed_fails(repository: Path) -> None:
    write_lines(repository / "core/gather.py", 10)
    (repository / check_sizes.ALLOWED).write_text("core/gather.py: one table (2026-01-01)\n")
    [problem] = check_sizes.check(repository)
    assert "core/gather.py, which is not longer" in problem


def test_installed_packages_are_not_counted(repository: Path) -> None:
    folder = repository / "lab-extension/node_modules/someone"
    folder.mkdir(parents=True)
    write_lines(folder / "index.ts", 5000)
    assert check_sizes.check(repository) == []


def test_a_long_function_is_listed_and_fails_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "    x = 1\n" * 80
    (repository / "core/gather.py").write_text(f"def short():\n    pass\n\n\ndef long():\n{body}")
    assert check_sizes.check(repository) == []
    listed = capsys.readouterr().out
    assert "core/gather.py:5 long" in listed
    assert "short" not in listed
