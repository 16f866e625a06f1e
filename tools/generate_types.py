"""Writes the TypeScript types of the records that Python sends to the front end.

The records of one Python module become one file of `lab-extension/src/generated`. Both sides are checked
in, so a reviewer sees both sides of a change, and `--check` fails when they differ.

A record is a dataclass. Its fields may be `str`, `int`, `float`, `bool`, `None`, `Literal[...]`,
`list[...]`, `dict[str, ...]`, unions, other records, and names of unions defined in a schema module.
Anything else is an error here, before it can surprise a front end. Docstrings of records, and the string
after a field, travel along.
"""

import argparse
import ast
import dataclasses
import importlib
import importlib.util
import inspect
import itertools
import json
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = Path("lab-extension/src/generated")

MODULES = {
    "introspect": "pellucid.introspect.schema",
    "kernel": "pellucid_kernel.schema",
    "debugger": "pellucid_kernel.debug.schema",
    "viz": "pellucid_viz.schema",
    "profiler": "pellucid_profiler.schema",
}
"""File name of the TypeScript side: Python module. A module that does not exist yet is left out."""

VIEWS = "views"
"""File name of the list of records that are shown by themselves: those of a class `ViewRecord`."""

WIDTH = 100
SCALARS: dict[object, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    None: "null",
    types.NoneType: "null",
}


class SchemaError(Exception):
    """A schema module holds something that has no TypeScript counterpart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """Definitions of the schema modules: the file in which each record and each named union lives."""

    records: dict[type, str]
    unions: dict[object, tuple[str, str]]
    """Union: (file, name)."""


def collect(modules: dict[str, types.ModuleType]) -> Names:
    """The records and unions that `modules`, keyed by file name, define."""
    records: dict[type, str] = {}
    unions: dict[object, tuple[str, str]] = {}
    for file, module in modules.items():
        for name, value in public(module):
            if is_record(value) and value.__module__ == module.__name__:
                records[value] = file
            elif is_union(value):
                unions.setdefault(value, (file, name))
    return Names(records, unions)


def public(module: types.ModuleType) -> Iterator[tuple[str, typing.Any]]:
    """Names of `module` without a leading underscore, in the order of their definition."""
    return ((name, value) for name, value in vars(module).items() if not name.startswith("_"))


def is_record(value: object) -> typing.TypeGuard[type]:
    """Is `value` a dataclass (and not an instance of one)?"""
    return isinstance(value, type) and dataclasses.is_dataclass(value)


def is_union(value: object) -> bool:
    """Is `value` a union of types, or a literal, as written in an annotation?"""
    return typing.get_origin(value) in {types.UnionType, typing.Union, typing.Literal}


def type_text(annotation: typing.Any, names: Names, where: str) -> str:
    """TypeScript for `annotation`; a union that has a name is called by it."""
    if annotation in SCALARS:
        return SCALARS[annotation]
    if is_record(annotation):
        if annotation not in names.records:
            message = f"{where}: {annotation.__name__} is no record of a schema module."
            raise SchemaError(message)
        return annotation.__name__
    if is_union(annotation):
        if annotation in names.unions:
            return names.unions[annotation][1]
        return " | ".join(member_texts(annotation, names, where))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        item = type_text(arguments[0], names, where)
        compound = " | " in item or item.startswith("readonly ")
        return f"readonly ({item})[]" if compound else f"readonly {item}[]"
    if origin is dict and arguments[0] is str:
        return f"Readonly<Record<string, {type_text(arguments[1], names, where)}>>"
    message = f"{where}: {annotation!r} has no counterpart in a record."
    raise SchemaError(message)


def member_texts(union: typing.Any, names: Names, where: str) -> list[str]:
    """TypeScript for each member of `union`."""
    members = typing.get_args(union)
    if typing.get_origin(union) is typing.Literal:
        return [json.dumps(value) for value in members]
    return [type_text(member, names, where) for member in members]


def doc_comment(doc: str | None, indent: str = "") -> list[str]:
    """`doc` as a comment of TypeScript."""
    if not doc:
        return []
    lines = inspect.cleandoc(doc).splitlines()
    if len(lines) == 1 and len(lines[0]) + len(indent) + 7 <= WIDTH:
        return [f"{indent}/** {lines[0]} */"]
    return [
        f"{indent}/**",
        *(f"{indent} * {line}".rstrip() for line in lines),
        f"{indent} */",
    ]


def field_docs(record: type) -> dict[str, str]:
    """The string that follows each field of `record` in its source, or of a class it inherits from."""
    docs: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if not is_record(base):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        docs |= string_after_assignment(definition.body)
    return docs


def string_after_assignment(body: list[ast.stmt]) -> dict[str, str]:
    """Names assigned in `body` that are followed by a string, with that string."""
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case _:
                continue
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = text
            case _:
                pass
    return docs


def record_text(record: type, names: Names) -> list[str]:
    """The interface for `record`."""
    doc = record.__doc__
    if doc and doc.startswith(f"{record.__name__}("):
        doc = None  # dataclasses writes the signature where there is no docstring
    hints = typing.get_type_hints(record)
    docs = field_docs(record)
    lines = [*doc_comment(doc), f"export interface {record.__name__} {{"]
    for field in dataclasses.fields(record):
        where = f"{record.__module__}.{record.__name__}.{field.name}"
        lines += doc_comment(docs.get(field.name), "  ")
        lines.append(f"  readonly {field.name}: {type_text(hints[field.name], names, where)};")
    return [*lines, "}"]


def union_text(name: str, value: object, names: Names, where: str) -> list[str]:
    """The definition of the union `name`, one member on a line where it is long."""
    members = member_texts(value, names, where)
    line = f"export type {name} = {' | '.join(members)};"
    if len(line) <= WIDTH:
        return [line]
    lines = [f"export type {name} =", *(f"  | {member}" for member in members)]
    return [*lines[:-1], f"{lines[-1]};"]


def imports_of(file: str, module: types.ModuleType, names: Names) -> list[str]:
    """Import statements for what `module` uses of other schema modules."""
    used: dict[str, set[str]] = {}

    def visit(annotation: typing.Any) -> None:
        if is_record(annotation):
            home, name = names.records.get(annotation, file), annotation.__name__
        elif is_union(annotation) and annotation in names.unions:
            home, name = names.unions[annotation]
        else:
            for argument in typing.get_args(annotation):
                visit(argument)
            return
        if home != file:
            used.setdefault(home, set()).add(name)

    for _, value in public(module):
        if is_record(value) and value.__module__ == module.__name__:
            for annotation in typing.get_type_hints(value).values():
                visit(annotation)
        elif is_union(value):
            for argument in typing.get_args(value):
                visit(argument)
    return [
        f'import type {{ {", ".join(sorted(used[home]))} }} from "./{home}";'
        for home in sorted(used)
    ]


def module_text(file: str, module: types.ModuleType, names: Names) -> str:
    """The TypeScript file for `module`."""
    docs = string_after_assignment(ast.parse(inspect.getsource(module)).body)
    blocks = [[f"// Generated from {module.__name__} by tools/generate_types.py. Do not edit."]]
    if imports := imports_of(file, module, names):
        blocks.append(imports)
    for name, value in public(module):
        where = f"{module.__name__}.{name}"
        if is_record(value) and value.__module__ == module.__name__:
            blocks.append(record_text(value, names))
        elif is_union(value) and names.unions[value] == (file, name):
            blocks.append([*doc_comment(docs.get(name)), *union_text(name, value, names, where)])
        elif name.isupper() and isinstance(value, str | int | float):
            line = f"export const {name} = {json.dumps(value)};"
            blocks.append([*doc_comment(docs.get(name)), line])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def views_text(names: Names) -> str:
    """The TypeScript file with the union of all records that are shown by themselves, and their kinds."""
    views = [r for r in names.records if any(b.__name__ == "ViewRecord" for b in r.__mro__[1:])]
    views.sort(key=lambda record: record.__name__)
    kinds = [str(f.default) for r in views for f in dataclasses.fields(r) if f.name == "kind"]
    by_file: dict[str, list[str]] = {}
    for record in views:
        by_file.setdefault(names.records[record], []).append(record.__name__)
    imports = [
        f'import type {{ {", ".join(found)} }} from "./{file}";' for file, found in by_file.items()
    ]
    union = ["export type AnyRecord =", *(f"  | {record.__name__}" for record in views)]
    blocks = [
        ["// Generated from all schema modules by tools/generate_types.py. Do not edit."],
        imports,
        ["/** Every record that can be shown by itself. */", *union[:-1], f"{union[-1]};"],
        [
            "/** The kinds of these records. */",
            'export const VIEW_KINDS: readonly AnyRecord["kind"][] = [',
            *(f"  {json.dumps(kind)}," for kind in sorted(kinds)),
            "];",
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def existing_modules(names: dict[str, str]) -> dict[str, types.ModuleType]:
    """Import those of the modules `names` (by file name) that exist."""
    modules: dict[str, types.ModuleType] = {}
    for file, name in names.items():
        try:
            exists = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError as error:
            if not name.startswith(f"{error.name}."):
                raise
            exists = False
        if exists:
            modules[file] = importlib.import_module(name)
    return modules


def generate(modules: dict[str, types.ModuleType]) -> dict[Path, str]:
    """The text of each generated file, relative to the repository's root."""
    names = collect(modules)
    texts = {file: module_text(file, module, names) for file, module in modules.items()}
    texts[VIEWS] = views_text(names)
    return {GENERATED / f"{file}.ts": text for file, text in texts.items()}


def differences(root: Path, texts: dict[Path, str]) -> list[str]:
    """Files of the generated folder below `root` that differ from `texts`, as messages."""
    problems: list[str] = []
    for path, text in texts.items():
        if not (root / path).exists():
            problems.append(f"{path} is missing.")
        elif (root / path).read_text(encoding="utf-8") != text:
            problems.append(f"{path} differs from its Python module.")
    problems += [
        f"{path.relative_to(root)} belongs to no schema module."
        for path in sorted((root / GENERATED).glob("*.ts"))
        if path.relative_to(root) not in texts
    ]
    return problems


def main() -> int:
    """Write the files, or with `--check` compare them; the exit status is 1 if they differ."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare, write nothing")
    options = arguments.parse_args()
    try:
        texts = generate(existing_modules(MODULES))
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 1
    if options.check:
        problems = differences(ROOT, texts)
        for problem in problems:
            print(problem, file=sys.stderr)
        if problems:
            print("Run `make snapshots` and commit what it writes.", file=sys.stderr)
        return 1 if problems else 0
    for path, text in texts.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
