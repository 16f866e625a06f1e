"""TypeScript from records, on small schema modules written for each test."""

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools import generate_types

HEADER = """
from dataclasses import dataclass
from typing import Literal
record = dataclass(frozen=True, slots=True, kw_only=True)
"""

Define = Callable[[str, str], types.ModuleType]


@pytest.fixture
def define(tmp_path: Path) -> Iterator[Define]:
    """Makes a schema module of a given name from source."""
    names: list[str] = []

    def define(name: str, source: str) -> types.ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(HEADER + source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield define
    for name in names:
        del sys.modules[name]


def generated(**modules: types.ModuleType) -> dict[str, str]:
    """Generated text by file name, without the first two lines."""
    return {
        path.stem: text.split("\n\n", 1)[1]
        for path, text in generate_types.generate(modules).items()
    }


def test_a_record_becomes_an_interface(define: Define) -> None:
    module = define(
        "schema_a",
        '''
@record
class CompileRecord:
    """One XLA compilation."""

    name: str
    seconds: float
    """Wall time,
    without the wait for the lock."""
    peak_bytes: int | None
    cache: Literal["miss", "memory", "disk"]
    parts: list[str]
    sizes: dict[str, list[int | None]]
    kind: Literal["compile"] = "compile"
''',
    )
    assert (
        generated(a=module)["a"]
        == """\
/** One XLA compilation. */
export interface CompileRecord {
  readonly name: string;
  /**
   * Wall time,
   * without the wait for the lock.
   */
  readonly seconds: number;
  readonly peak_bytes: number | null;
  readonly cache: "miss" | "memory" | "disk";
  readonly parts: readonly string[];
  readonly sizes: Readonly<Record<string, readonly (number | null)[]>>;
  readonly kind: "compile";
}
"""
    )


def test_a_named_union_keeps_its_name(define: Define) -> None:
    module = define(
        "schema_a",
        '''
SCHEMA_VERSION = 3
"""Rises when a field goes."""

@record
class Left:
    kind: Literal["left"] = "left"

@record
class Right:
    kind: Literal["right"] = "right"

Side = Left | Right

@record
class Pair:
    sides: list[Side]
''',
    )
    text = generated(a=module)["a"]
    assert "/** Rises when a field goes. */\nexport const SCHEMA_VERSION = 3;" in text
    assert "export type Side = Left | Right;" in text
    assert "  readonly sides: readonly Side[];" in text


def test_a_record_of_another_module_is_imported(define: Define) -> None:
    one = define("schema_a", "@record\nclass Source:\n    line: int\n")
    two = define(
        "schema_b", "from schema_a import Source\n@record\nclass Stop:\n    at: Source | None\n"
    )
    text = generated(a=one, b=two)["b"]
    assert text.startswith('import type { Source } from "./a";\n')
    assert "  readonly at: Source | null;" in text
    assert "interface Source" not in text


def test_inherited_fields_come_first_with_their_docs(define: Define) -> None:
    module = define(
        "schema_a",
        '''
@record
class Base:
    name: str
    """Who."""

@record
class Derived(Base):
    size: int
''',
    )
    lines = generated(a=module)["a"].split("export interface Derived {\n")[1].splitlines()
    assert lines[:3] == ["  /** Who. */", "  readonly name: string;", "  readonly size: number;"]


@pytest.mark.parametrize("annotation", ["set[str]", "object", "dict[int, str]", "tuple[int, int]"])
def test_a_type_without_counterpart_is_refused(define: Define, annotation: str) -> None:
    module = define("schema_a", f"@record\nclass Bad:\n    field: {annotation}\n")
    with pytest.raises(generate_types.SchemaError, match=r"schema_a\.Bad\.field"):
        generated(a=module)


def test_a_dataclass_from_elsewhere_is_refused(define: Define) -> None:
    elsewhere = define("elsewhere", "@record\nclass Foreign:\n    line: int\n")
    module = define(
        "schema_a", "from elsewhere import Foreign\n@record\nclass Bad:\n    field: Foreign\n"
    )
    assert elsewhere.Foreign is module.Foreign
    with pytest.raises(generate_types.SchemaError, match="Foreign is no record"):
        generated(a=module)


def test_a_long_union_has_one_member_on_a_line(define: Define) -> None:
    names = [f"RecordWithALongName{index}" for index in range(6)]
    source = "".join(f"@record\nclass {name}:\n    line: int\n" for name in names)
    module = define("schema_a", f"{source}Any = {' | '.join(names)}\n")
    assert f"export type Any =\n  | {names[0]}\n" in generated(a=module)["a"]
    assert generated(a=module)["a"].endswith(f"  | {names[-1]};\n")


def test_missing_changed_and_orphaned_files_are_reported(define: Define, tmp_path: Path) -> None:
    expected = generate_types.generate(
        {name: define(f"schema_{name}", "") for name in ("same", "changed", "missing")}
    )
    folder = tmp_path / generate_types.GENERATED
    folder.mkdir(parents=True)
    for path, text in expected.items():
        (tmp_path / path).write_text(text)
    (folder / "changed.ts").write_text("export {};\n")
    (folder / "missing.ts").unlink()
    (folder / "orphan.ts").write_text("export {};\n")
    problems = generate_types.differences(tmp_path, expected)
    assert [problem.split("/")[-1] for problem in problems] == [
        "changed.ts differs from its Python module.",
        "missing.ts is missing.",
        "orphan.ts belongs to no schema module.",
    ]


def test_modules_that_do_not_exist_yet_are_left_out() -> None:
    actual = generate_types.existing_modules(
        {"a": "json", "b": "no_such_package.schema", "c": "json.no_such_module"}
    )
    assert list(actual) == ["a"]
