"""Which of pellucid's objects the tests name in their code, and where.

Names are resolved as Python would: through imports, through assignments of what is resolved already, and, in programs of
the corpus, through their argument `jax`, which is the library. A string counts only where it is an expression of the corpus,
a call that is evaluated, or an example of a message page.
"""

import ast
import importlib
import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from corpus import placements

import pellucid

TESTS = pathlib.Path(__file__).resolve().parent.parent
_MODULE_CALLS = ("submodule", "import_module")


class Usage:
    """Objects, and attributes of values, by the files that name them."""

    def __init__(self) -> None:
        self.objects: dict[int, set[str]] = {}
        self.attributes: dict[str, set[str]] = {}

    def note(self, file: str, code: str, names: dict[str, Any]) -> None:
        """Add what the `code` of a file names, where `names` are known."""
        tree, names = ast.parse(code), dict(names)
        for node in ast.walk(tree):  # outer statements first, as they run
            _bind(node, names)
        for node in ast.walk(tree):
            member = _resolved(node, names)
            if member is not None:
                self.objects.setdefault(id(member), set()).add(file)
            elif isinstance(node, ast.Attribute):
                self.attributes.setdefault(node.attr, set()).add(file)


def calls_in_strings(code: str) -> list[str]:
    """The strings in a module of the corpus that are calls, which it evaluates."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [text for text in strings if _is_call(text)]


def _is_call(text: str) -> bool:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Call) for node in ast.walk(tree))


def of_tests(*, but: pathlib.Path) -> Usage:
    """Objects and attributes named in all tests but those in the file `but`."""
    usage = Usage()
    for path, code, names in _sources(but):
        usage.note(path.name, code, names)
    return usage


def _sources(but: pathlib.Path) -> Iterator[tuple[pathlib.Path, str, dict[str, Any]]]:
    for path in sorted(TESTS.rglob("*.py")):
        if path != but and path.parent != TESTS / "architecture":
            code = path.read_text(encoding="utf-8")
            yield path, code, {"jax": pellucid}
            if path.parent.name == "corpus":
                for text in calls_in_strings(code):
                    yield path, text.strip(), {"jax": pellucid, "lax": pellucid.lax}
    in_expressions = placements.scope(pellucid)
    for path in sorted((TESTS / "corpus" / "expressions").glob("*.txt")):
        yield path, path.read_text(encoding="utf-8"), in_expressions
    on_pages = {"pl": pellucid, "jnp": pellucid.numpy, "lax": pellucid.lax} | vars(
        pellucid.sharding
    )
    for path in sorted((TESTS / "messages").glob("*.md")):
        for code in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            yield path, code, on_pages


def _bind(node: ast.AST, names: dict[str, Any]) -> None:
    """Add to `names` what a statement binds to something of pellucid."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "pellucid":
                module = importlib.import_module(alias.name)
                names[alias.asname or "pellucid"] = module if alias.asname else pellucid
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pellucid":
        for alias in node.names:
            names[alias.asname or alias.name] = member(
                importlib.import_module(str(node.module)), alias.name
            )
    elif isinstance(node, ast.Assign):
        for target, value in _pairs(node.targets[0], node.value):
            bound = _resolved(value, names)
            if bound is not None and isinstance(target, ast.Name):
                names[target.id] = bound


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _resolved(node: ast.AST, names: dict[str, Any]) -> Any:
    """The object of pellucid that an expression names; None for any other."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, names)
        return member(owner, node.attr) if inspect.ismodule(owner) else None
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.Constant):
        function = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if function in _MODULE_CALLS:
            name = str(node.args[-1].value)
            return member(pellucid, name) if function == "submodule" else None
    return None


def member(owner: Any, name: str) -> Any:
    """The object at the dotted path `name` below the module `owner`; None if there is nothing."""
    for part in name.split("."):
        if inspect.ismodule(owner) and not hasattr(owner, part):
            try:
                owner = importlib.import_module(f"{owner.__name__}.{part}")
            except ModuleNotFoundError:
                return None
        else:
            owner = getattr(owner, part, None)
    return owner
