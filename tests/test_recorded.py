"""Recorded answers of the oracle: found by program and operands, and missing where either changed."""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import recorded
from corpus import probes
from oracle import Failure, Oracle
from recorded import Digest, MissingAnswerError, RecordedOracle


class Asked(Oracle):
    """An oracle that counts its questions and answers with these."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = []

    def _ask(self, request, timeout):
        self.questions.append(request)
        if isinstance(request[2][0], str):
            text = f"text of {recorded.ROOT}/tests/a_file.py"
            return Failure("KeyError", ("KeyError", "LookupError"), text, "/a/path/of/a/machine")
        return request[2][0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "VERSION").write_text("0.10.2\n")
    (tmp_path / "corpus.probes.txt").touch()
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setattr(recorded.importlib.metadata, "version", {"jax": "0.10.2"}.get)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    recorded.book_of.cache_clear()
    recorded.version.cache_clear()


def test_an_answer_is_asked_once_and_then_read(folder: Path) -> None:
    live = Asked()
    x = np.arange(3).astype(ml_dtypes.bfloat16)
    adding = RecordedOracle(live, "add")
    for _ in range(2):
        np.testing.assert_array_equal(adding.run(probes.double, x), x)
    forget()
    actual = RecordedOracle(live, "read").run(probes.double, x)
    assert actual.dtype == x.dtype
    np.testing.assert_array_equal(actual, x)
    assert len(live.questions) == 1


def test_a_missing_answer_fails_with_the_command_that_records_it(folder: Path) -> None:
    with pytest.raises(MissingAnswerError, match="double has no recorded answer") as e:
        RecordedOracle(Asked(), "read").run(probes.double, 1.0)
    assert "python -m pytest --references=add" in str(e.value)
    assert "tests/test_recorded.py::test_a_missing_answer" in str(e.value)
    assert "make references" in str(e.value)


def test_answers_of_another_version_are_not_added(folder: Path) -> None:
    (folder / "VERSION").write_text("0.11.0\n")
    with pytest.raises(
        MissingAnswerError, match=r"Answers of jax 0\.11\.0 are recorded, but 0\.10\.2"
    ):
        RecordedOracle(Asked(), "add").run(probes.double, 1.0)


def test_a_module_without_a_file_is_asked_each_time(folder: Path) -> None:
    (folder / "corpus.probes.txt").unlink()
    live = Asked()
    for _ in range(2):
        assert RecordedOracle(live, "read").call(probes.double, 1.0) == 1.0
    assert len(live.questions) == 2


def test_failures_are_recorded_without_paths(folder: Path) -> None:
    failure = RecordedOracle(Asked(), "add").run(probes.double, "fails")
    text = "text of tests/a_file.py"
    assert (failure.name, failure.text) == ("KeyError", text)
    assert failure.traceback == f"KeyError: {text}"


def test_each_question_of_a_list_is_recorded_by_itself(folder: Path) -> None:
    live = Asked()
    adding = RecordedOracle(live, "add")
    assert adding.call_each(probes.double, [1, 2]) == [1, 2]
    assert adding.call_each(probes.double, [2, 3, 1]) == [2, 3, 1]
    assert [request[2] for request in live.questions] == [([1, 2],), ([3],)]


def test_answers_that_nobody_asked_for_are_dropped(folder: Path) -> None:
    adding = RecordedOracle(Asked(), "add")
    adding.call_each(probes.double, [1, 2, 3])
    forget()
    RecordedOracle(Asked(), "renew").call_each(probes.double, [3, 1])
    recorded.drop_unused()
    forget()
    assert (folder / "corpus.probes.txt").read_text().count("# ") == 2
    assert RecordedOracle(Asked(), "read").call_each(probes.double, [1, 3]) == [1, 3]


def test_answers_to_other_programs_stay(folder: Path) -> None:
    (folder / "corpus.others.txt").write_text("key answer\n")
    RecordedOracle(Asked(), "renew").call_each(probes.double, [1])
    recorded.drop_unused()
    assert (folder / "corpus.others.txt").read_text() == "key answer\n"


def test_a_single_test_drops_no_answers() -> None:
    command = [sys.executable, "-m", "pytest", "--references=renew", "-k", "nothing", __file__]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "give whole files" in run.stderr


TABLE = {"a": 1}


def inner(x):
    return TABLE, x


def outer(x):
    return [inner(y) for y in x]


def digest(value) -> str:
    actual = Digest()
    actual.add(value)
    return actual.text()


def test_keys_tell_operands_apart() -> None:
    values = [
        1, 1.0, True, "1", None, (1,), [1], {"a": 1}, {"b": 1}, np.float32(1), np.float64(1), np.zeros(2), np.zeros((2, 1)),
        np.array([0.0, -0.0]), np.dtype("int8"), np.array(0).astype(ml_dtypes.bfloat16), np.array(0, np.int16),
    ]  # fmt: skip
    keys = [digest(value) for value in values]
    assert len(set(keys)) == len(keys)
    assert keys == [digest(value) for value in values]
    assert digest({"x", "y"}) == digest({"y", "x"})


def test_keys_follow_what_a_program_names(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(outer)
    assert digest(outer) == before
    monkeypatch.setitem(TABLE, "a", 2)
    changed = digest(outer)
    assert changed != before
    monkeypatch.setitem(globals(), "inner", lambda x: x)
    assert digest(outer) not in (before, changed)


def test_what_has_no_key_is_an_error() -> None:
    with pytest.raises(TypeError, match="answer to object can't be recorded"):
        digest(object())
