"""Which notebook cell a source file stands for."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell


class RunCell(NamedTuple):
    """A cell that ran."""

    name: str
    id: str | None
    execution_count: int


class Cells:
    """The cells of one shell, by the file name that their code is compiled with.

    The name depends on the text alone where a debugger has to find it (ipykernel), so two cells with the same
    text resolve to the one that ran last.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._ids: dict[str, str | None] = {}
        self._outer: dict[str, str] = {}
        """By file of a magic's cell, without the magic, that of the whole cell."""
        self._running = ""
        self.running_id: str | None = None
        """Id of the cell that ran last, where the front end sent one."""

    def note(self, info: ExecutionInfo) -> None:
        """Remember the cell that is about to run."""
        raw = info.raw_cell or ""
        transformed: Any = getattr(info, "transformed_cell", None) or raw
        file = self._shell.compile.get_code_name(raw, transformed, self._shell.execution_count)
        if not info.store_history and info.cell_id is not None and info.cell_id == self.running_id:
            # A magic runs the rest of its cell, for which IPython counts on.
            self._outer[file] = self._running
        else:
            self._outer.pop(file, None)
            self._running = file
        self._ids[file] = self.running_id = info.cell_id

    def of(self, file: str) -> RunCell | None:
        """The cell that `file` stands for; None for a file."""
        # IPython knows the number that its prompt shows; while `note` runs it may not have counted yet.
        code_name = self._shell.compile.format_code_name(self._outer.get(file, file))
        count = None if code_name is None else re.fullmatch(r"In\s*\[(\d+)\]", code_name[1])
        if count is None:
            return None
        return RunCell(f"In[{count[1]}]", self._ids.get(file), int(count[1]))
