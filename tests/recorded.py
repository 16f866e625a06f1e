"""Recorded answers of the oracle: tests that read them need no jax and start no worker.

A module of programs is recorded if it has a file in `tests/references`, see the README there.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import answer_text
import numpy as np
import pytest
from oracle import Failure, Oracle, Outcome, is_available

FOLDER = Path(__file__).parent / "references"
ROOT = FOLDER.parent.parent
DIGEST_BYTES = 12
LONGEST_QUESTION = 150
MODES = ("read", "add", "renew")


class MissingAnswerError(AssertionError):
    """A recorded module of programs has no answer for a question."""


class Book:
    """The answers recorded for the programs of one module.

    In its file an answer begins with a line `# KEY  QUESTION`; its text is that of `answer_text`.
    """

    def __init__(self, module: str) -> None:
        self.path = FOLDER / f"{module}.txt"
        self.is_recorded = self.path.exists()
        self.texts: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        """Questions of this run, by key."""
        text = self.path.read_text(encoding="utf-8") if self.is_recorded else ""
        for block in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
            head, _, answer = block.partition("\n")
            self.texts[head.split()[0]] = answer

    def find(self, key: str, question: str) -> Any:
        """The answer for `key`; KeyError if there is none."""
        self.asked[key] = question
        return answer_text.read(self.texts[key])

    def add(self, key: str, question: str, answer: Any) -> None:
        """Append an answer; several processes may do so at once."""
        # Texts of errors name files of the tests: without the folder where this machine has them.
        self.texts[key] = answer_text.write(answer).replace(f"{ROOT}/", "") + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"# {key}  {question}\n{self.texts[key]}")

    def keep(self, asked: dict[str, str]) -> None:
        """Rewrite the file with the answers to these questions only, in order of the questions."""
        texts = Book(self.path.stem).texts
        blocks = [
            f"# {key}  {question}\n{texts[key]}"
            for question, key in sorted((question, key) for key, question in asked.items())
            if key in texts
        ]
        self.path.write_text("".join(blocks), encoding="utf-8")


@functools.cache
def book_of(module: str) -> Book:
    """The book of a module of programs."""
    return Book(module)


def drop_unused() -> None:
    """Rewrite the books of which answers were asked for, without those that nobody asked for."""
    for path in FOLDER.glob("*.txt"):
        book = book_of(path.stem)
        if book.asked:
            book.keep(book.asked)


class RecordedOracle(Oracle):
    """An oracle that looks its answers up, and asks jax only for modules that aren't recorded."""

    def __init__(self, live: Oracle, mode: str) -> None:
        super().__init__(x64=live.x64, devices=live.devices, timeout=live.timeout)
        self.live = live
        self.mode = mode

    def call_each(self, function: Callable[..., list[Any]], questions: Sequence[Any]) -> list[Any]:
        """`function(jax, questions)`: a list with an answer for each question, each recorded by itself."""
        book = book_of(function.__module__)
        if not book.is_recorded:
            return super().call_each(function, questions)
        address = (function.__module__, function.__qualname__)
        keys = [self.key(("each", address, question)) for question in questions]
        texts = [f"{address[1]} {described(question)}" for question in questions]
        titles = dict(zip(keys, texts, strict=True))
        missing = {k: q for k, q in zip(keys, questions, strict=True) if k not in book.texts}
        if missing:
            self.require_recording(address)
            answers = self.live.call(function, list(missing.values()))
            for key, answer in zip(missing, answers, strict=True):
                book.add(key, titles[key], answer)
        return [book.find(key, titles[key]) for key in keys]

    def _ask(self, request: Any, timeout: float | None) -> Any:
        book = book_of(request[1][0])
        if not book.is_recorded:
            if not is_available():
                pytest.skip("needs a Python with jax: these answers aren't recorded")
            return self.live._ask(request, timeout)
        key = self.key(request)
        _, (_, name), *operands = request
        title = f"{name} {described(operands)}"
        if key not in book.texts:
            self.require_recording(request[1])
            book.add(key, title, without_traceback(self.live._ask(request, timeout)))
        return book.find(key, title)

    def key(self, request: Any) -> str:
        """Digest of everything that an answer depends on."""
        kind, (module, name), *rest = request
        program: Any = sys.modules[module]
        for part in name.split("."):
            program = getattr(program, part)
        digest = Digest()
        digest.add((version(), self.x64, self.devices, kind, program, rest))
        return digest.text()

    def require_recording(self, address: tuple[str, str]) -> None:
        """Raise unless this run records, with the jax that is followed."""
        if self.mode == "read":
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            raise MissingAnswerError(
                f"{'.'.join(address)} has no recorded answer of jax {version()} for these operands.\n"
                f"  Record it: python -m pytest --references=add {test!r}\n"
                "  or all that are missing: make references"
            )
        installed = importlib.metadata.version("jax")
        if installed != version():
            raise MissingAnswerError(
                f"Answers of jax {version()} are recorded, but {installed} is installed.\n"
                f"  To follow {installed}, write it into {FOLDER / 'VERSION'} and run `make references`."
            )


@functools.cache
def version() -> str:
    """The version of jax whose answers are recorded."""
    return (FOLDER / "VERSION").read_text(encoding="ascii").strip()


def without_traceback(answer: Any) -> Any:
    """An answer whose failure has its text only: tracebacks hold paths of a machine."""
    if isinstance(answer, Failure):
        return replace(answer, traceback=f"{answer.name}: {answer.text}")
    if isinstance(answer, Outcome) and answer.failure is not None:
        return replace(answer, failure=without_traceback(answer.failure))
    return answer


def described(value: Any) -> str:
    """A question in one line for people: arrays by their types, long ones shortened; equal in every process."""
    text = " ".join(_described(value).split())
    return text if len(text) <= LONGEST_QUESTION else text[: LONGEST_QUESTION - 3] + "..."


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_described, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_described(part)}' for key, part in value.items())}}}"
    if isinstance(value, (type(None), bool, int, float, complex, str, np.generic, np.dtype)):
        return str(value)
    return getattr(value, "__qualname__", type(value).__name__)


# Keys ---------------------------------------------------------------------------------------------


class Digest:
    """SHA-256 of values and of the programs among them, equal in every process.

    A function counts with its source and with what that names: other functions, tables, modules of this repository.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: set[int] = set()

    def text(self) -> str:
        """The digest so far."""
        return self._hash.hexdigest()[: 2 * DIGEST_BYTES]

    def add(self, value: Any) -> None:
        """Add a value.

        Raises: TypeError for a value that has no form that is equal in every process.
        """
        if isinstance(value, (np.ndarray, np.generic)):
            self._bytes(f"array {value.dtype} {value.shape}", np.asarray(value).tobytes())
        elif isinstance(value, (tuple, list)):
            self._bytes(f"{type(value).__name__} {len(value)}")
            for part in value:
                self.add(part)
        elif isinstance(value, dict):
            self.add(list(value.items()))
        elif isinstance(value, (set, frozenset)):
            self.add(sorted(value, key=repr))
        elif is_dataclass(value) and not isinstance(value, type):
            by_name = [(field.name, getattr(value, field.name)) for field in fields(value)]
            self.add((type(value).__name__, by_name))
        elif isinstance(
            value, (type(None), bool, int, float, complex, str, bytes, np.dtype, slice)
        ):
            self._bytes(f"{type(value).__name__} {value!r}")
        elif isinstance(value, re.Pattern):
            self.add((value.pattern, value.flags))
        elif isinstance(value, functools.partial):
            self.add((value.func, value.args, value.keywords))
        elif isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type) or callable(value):
            self._bytes(f"{value.__module__}.{value.__qualname__}")
            self._module(sys.modules[value.__module__])
        else:
            raise TypeError(f"the oracle's answer to {type(value).__name__} can't be recorded")

    def _bytes(self, head: str, tail: bytes = b"") -> None:
        self._hash.update(head.encode() + b"\0" + tail)

    def _is_new(self, value: Any) -> bool:
        is_new = id(value) not in self._seen
        self._seen.add(id(value))
        return is_new

    def _module(self, module: ModuleType) -> None:
        """Source of a module of programs; modules from elsewhere count by their name."""
        self._bytes(module.__name__)
        if is_program(module) and self._is_new(module):
            self._hash.update(Path(str(module.__file__)).read_bytes())

    def _function(self, function: FunctionType) -> None:
        self._bytes(f"{function.__module__}.{function.__qualname__}")
        if not is_program(sys.modules[function.__module__]) or not self._is_new(function):
            return
        self._bytes(source_of(function))
        for name in sorted(names_in(function.__code__) & function.__globals__.keys()):
            used = function.__globals__[name]
            if isinstance(used, (ModuleType, FunctionType)) or self._is_new(used):
                self.add(used)


@functools.cache
def source_of(function: FunctionType) -> str:
    """Source of a function, which takes a millisecond to find."""
    return inspect.getsource(function)


def names_in(code: CodeType) -> set[str]:
    """Names that a function and the functions within it look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def is_program(module: ModuleType) -> bool:
    """Whether a module belongs to this repository's tests or benchmarks."""
    file = getattr(module, "__file__", None)
    return file is not None and any(
        Path(file).resolve().is_relative_to(ROOT / folder) for folder in ("tests", "benchmarks")
    )
