"""Sources of values: the user's stack frames, and the stack of name scopes.

A source is a captured traceback (0.1 to 0.5 us); files, lines, columns and names are computed only on demand.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from pellucid._machine.xla.traceback import Traceback, location_of

from .caching import cached
from .narrowing import is_list_or_tuple
from .typing import Names

capture: Callable[[], Any] = Traceback.get_traceback
"""Captures the current Python stack, as an opaque object."""

_PACKAGE_FOLDER = str(Path(__file__).absolute().parents[2]) + os.sep
_HIDDEN_FOLDERS = (_PACKAGE_FOLDER, sysconfig.get_paths()["stdlib"] + os.sep)
_HIDDEN_PACKAGES = frozenset(
    ("IPython", "ipykernel", "pellucid_kernel", "pellucid_viz", "pellucid_profiler", "traitlets", "tornado", "_pytest",
     "pluggy")
)  # fmt: skip

_ENGINES = frozenset(
    (
        "_distutils_hack",
        "jaxlib",
        "ml_dtypes",
        "numpy",
        "opt_einsum",
        "scipy",
        "typing_extensions.py",
    )
)
"""Installed code that runs between the user's line and this package, or is called by this package."""


class SourceFrame(NamedTuple):
    """One of the user's stack frames: 1-based lines, 0-based columns; -1 if unknown."""

    file: str
    function: str
    line: int
    end_line: int
    column: int
    end_column: int

    @property
    def text(self) -> str:
        """The source line, stripped; empty if the file can't be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


def is_internal_file(file: str) -> bool:
    """Whether `file` belongs to pellucid's core."""
    return file.startswith(_PACKAGE_FOLDER)


@cached(4096)
def is_user_file(file: str) -> bool:
    """Whether frames of `file` belong to the user rather than to pellucid or the standard library."""
    if file.startswith("<") and not file.startswith(("<ipython", "<stdin", "<string", "<doctest")):
        return False
    if file.startswith(_HIDDEN_FOLDERS) and "site-packages" not in file:
        return False
    parts = file.split(os.sep)
    if "site-packages" in parts and parts[parts.index("site-packages") + 1] in _ENGINES:
        return False
    return _HIDDEN_PACKAGES.isdisjoint(parts)


def user_frames(source: Any) -> list[SourceFrame]:
    """The user's frames of a captured source, innermost first."""
    return [frame_of(*place) for place in user_places(source)]


def user_places(source: Any) -> list[tuple[CodeType, int]]:
    """Code and instruction offset of the user's frames in a captured source, innermost first."""
    if source is None:
        return []
    codes, offsets = source.raw_frames()
    return [
        (code, offset)
        for code, offset in zip(codes, offsets, strict=True)
        if is_user_file(code.co_filename)
    ]


def frame_of(code: CodeType, offset: int) -> SourceFrame:
    """The frame at the instruction `offset` of `code`."""
    line, column, end_line, end_column = location_of(code, offset)
    return SourceFrame(code.co_filename, code.co_qualname, line, end_line, column, end_column)


def user_frame(source: Any) -> SourceFrame | None:
    """The user's innermost frame, or None."""
    return next(iter(user_frames(source)), None)


_LIBRARY_CODE = os.path.join(os.path.dirname(__file__), "library_code.py")


def called_by_user() -> str | None:
    """The name of the public function of this package that the user's current line called; None if there is none."""
    frame, called = sys._getframe(1), None  # pyright: ignore[reportPrivateUsage]  # public by use
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        # A public function is called through a frame of `library_code`.
        if frame.f_code.co_filename != _LIBRARY_CODE:
            called = frame
        frame = frame.f_back
    if called is None or called.f_code.co_name not in called.f_globals.get("__all__", ()):
        return None
    return called.f_code.co_name


def call_site_of(value: Any) -> tuple[str, str, str] | None:
    """(function, parameter, line) if the user's current line called this package with `value`, by itself or in a
    sequence.
    """
    frame, answer = sys._getframe(1), None  # pyright: ignore[reportPrivateUsage]  # public by use
    while frame is not None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package != "numpy" and is_user_file(frame.f_code.co_filename):
            break
        code, variables = frame.f_code, frame.f_locals
        n_parameters = code.co_argcount + code.co_kwonlyargcount
        for name in code.co_varnames[: n_parameters if package == "pellucid" else 0]:
            argument = variables.get(name)
            several = argument if is_list_or_tuple(argument) else ()
            if argument is value or any(x is value for x in several):
                answer = code.co_name, name, frame.f_globals
        frame = frame.f_back
    if frame is None or answer is None:
        return None
    function, parameter, module = answer
    if function not in module.get("__all__", module) or function.startswith("_"):
        return None
    return function, parameter, _line_in_words(frame.f_code.co_filename, frame.f_lineno)


def describe(source: Any) -> str | None:
    """The user's line in the form of error messages: `file.py, line 4: `the code``."""
    frame = user_frame(source)
    if frame is None:
        return None
    return _line_in_words(frame.file, frame.line)


def _line_in_words(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip()
    return f"{cell_name(file) or os.path.basename(file)}, line {line}" + (
        f": `{text}`" if text else ""
    )


def listing(file: str, line: int, around: int) -> list[str]:
    """The lines of a file within `around` of `line`, numbered, with an arrow at `line`."""
    numbers = range(max(line - around, 1), line + around + 1)
    texts = [linecache.getline(file, n) for n in numbers]
    rows = zip(numbers, texts, strict=True)
    return [f"{'->' if n == line else '  '} {n:4d}  {text.rstrip()}" for n, text in rows if text]


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn, with the user's line as the location."""
    frame = user_frame(capture())
    if frame is None:
        warnings.warn(text, category, stacklevel=2)
    else:
        warnings.warn_explicit(text, category, frame.file, frame.line)


class Cell(NamedTuple):
    """A notebook cell.

    >>> Cell(name="In[4]", id=None, execution_count=4).name
    'In[4]'
    """

    name: str
    """The displayed name, `In[4]`."""
    id: str | None
    """Id of the cell in the notebook's file, if the front end sends ids."""
    execution_count: int


_find_cell: Callable[[str], Cell | None] | None = None


def find_cells_with(function: Callable[[str], Cell | None] | None) -> None:
    """Set the function that maps a file name to the notebook cell compiled under it; None outside of notebooks.

    >>> find_cells_with(lambda file: Cell("In[4]", None, 4) if file == "<cell 4>" else None)
    >>> cell_name("<cell 4>"), cell_name("program.py")
    ('In[4]', None)
    >>> find_cells_with(None)
    """
    global _find_cell
    _find_cell = function


def cell_of(file: str) -> Cell | None:
    """The notebook cell compiled under a file name; None for a file."""
    return None if _find_cell is None else _find_cell(file)


def cell_name(file: str) -> str | None:
    """Displayed name of the notebook cell compiled under a file name; None for a file."""
    cell = cell_of(file)
    return None if cell is None else cell.name


class ScopeStack(NamedTuple):
    """A stack of scopes, transformations and metadata, as a linked list; the head is the innermost entry."""

    parent: ScopeStack | None
    name: str
    """Empty for an entry that only has metadata."""
    metadata: tuple[tuple[str, str | None], ...] = ()
    """XLA metadata of operations, by key; None removes the value of an outer entry."""
    is_transformation: bool = False
    """Whether `name` is that of a transformation, which encloses the next inner scope."""
    batch: Any = None
    """For a `vmap`, the positions of its batch in values (`transforms.vmap.Lanes`); None for others."""

    def scopes(self) -> Names:
        """The names of the scopes, outermost first, without transformations."""
        return tuple([e.name for e in self.entries() if e.name and not e.is_transformation])

    def path(self) -> Names:
        """The names, outermost first, with transformations around the next name: `("vmap(jvp(layer))", "attention")`."""
        names: list[str] = []
        for entry in self._entries_above(None):
            if entry.is_transformation:
                names[-1:] = [f"{entry.name}({names[-1] if names else ''})"]
            elif entry.name:
                names.append(entry.name)
        return tuple(names[::-1])

    def all_metadata(self) -> dict[str, str]:
        """The effective metadata."""
        metadata = {k: v for entry in self.entries() for k, v in entry.metadata}
        return {k: v for k, v in metadata.items() if v is not None}

    def entries(self) -> list[ScopeStack]:
        """The entries, outermost first."""
        return self._entries_above(None)[::-1]

    def _entries_above(self, outer: ScopeStack | None) -> list[ScopeStack]:
        """The entries on top of `outer`, innermost first."""
        entries: list[ScopeStack] = []
        stack: ScopeStack | None = self
        while stack is not None and stack is not outer:
            entries.append(stack)
            stack = stack.parent
        return entries

    def on(self, outer: ScopeStack | None) -> ScopeStack:
        """The entries of this stack on top of `outer`."""
        if outer is None:
            return self
        for entry in self.entries():
            outer = entry._replace(parent=outer)
        return outer

    def without(self, outer: ScopeStack) -> ScopeStack | None:
        """This stack without the names of `outer`, on which it was built; the metadata are kept."""
        stack = outer.metadata_only()
        for entry in reversed(self._entries_above(outer)):
            stack = entry._replace(parent=stack)
        return stack

    def metadata_only(self) -> ScopeStack | None:
        """A stack with only the effective metadata; None if there are none."""
        metadata = self.all_metadata()
        return ScopeStack(None, "", tuple(metadata.items())) if metadata else None

    def __str__(self) -> str:
        return "/".join(self.path())
