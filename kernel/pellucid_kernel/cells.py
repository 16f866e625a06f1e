"""Maps source files of compiled cells to the notebook cells they come from."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell


class RunCell(NamedTuple):
    """A notebook cell that has run."""

    name: str
    id: str | None
    execution_count: int


class Cells:
    """The cells of a shell, looked up by the file name under which their code was compiled.

    ipykernel makes this name from the cell's text, so that debuggers can find it. Two cells with the same text
    therefore have the same file, which refers to the one that ran last.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._ids: dict[str, str | None] = {}
        self._outer: dict[str, str] = {}
        """For a cell that starts with a cell magic: maps the file of the magic's body to the file of the whole cell."""
        self._running = ""
        self.running_id: str | None = None
        """Id of the cell that ran last, if the front end sent one."""

    def note(self, info: ExecutionInfo) -> None:
        """Records the cell that is about to run."""
        raw = info.raw_cell or ""
        transformed: Any = getattr(info, "transformed_cell", None) or raw
        file = self._shell.compile.get_code_name(raw, transformed, self._shell.execution_count)
        if not info.store_history and info.cell_id is not None and info.cell_id == self.running_id:
            # A cell magic runs its body as another cell; IPython assigns that cell its own file name.
            self._outer[file] = self._running
        else:
            self._outer.pop(file, None)
            self._running = file
        self._ids[file] = self.running_id = info.cell_id

    def of(self, file: str) -> RunCell | None:
        """The cell compiled as `file`; None for an ordinary file."""
        # IPython knows the cell's number from its prompt; while `note` runs, it may not have counted the cell yet.
        code_name = self._shell.compile.format_code_name(self._outer.get(file, file))
        count = None if code_name is None else re.fullmatch(r"In\s*\[(\d+)\]", code_name[1])
        if count is None:
            return None
        return RunCell(f"In[{count[1]}]", self._ids.get(file), int(count[1]))
