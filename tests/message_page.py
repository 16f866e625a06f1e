"""Pages of error messages: code blocks that raise, each followed by the text of its error.

    page = Page("runtime.md")

    @pytest.mark.parametrize(("code", "text"), page.examples, ids=page.names)
    def test_the_message_is_as_shown(code, text):
        page.check(code, text, names)

`REWRITE_MESSAGES=1 pytest` on a page's test writes the texts anew instead.
"""

import linecache
import os
import re
from pathlib import Path
from typing import Any

from pellucid._machine.base.errors import PellucidError

_EXAMPLE = re.compile(r"```python\n(?P<code>.*?)\n```\n\n```text\n(?P<text>.*?)\n```", re.DOTALL)
_LONGEST_FIRST_LINE = 100
_MAX_LINES = 6


class Page:
    """One page in `tests/messages`."""

    def __init__(self, name: str) -> None:
        self.path = Path(__file__).parent / "messages" / name
        self.examples: list[tuple[str, str]] = _EXAMPLE.findall(self.path.read_text())
        self.names = [code.splitlines()[-1] for code, _ in self.examples]

    def check(self, code: str, text: str, names: dict[str, Any]) -> None:
        """Run `code`, whose error must have this text, and the form that every message has."""
        actual = _message(code, names)
        if "REWRITE_MESSAGES" in os.environ:
            old, new = (f"```python\n{code}\n```\n\n```text\n{t}\n```" for t in (text, actual))
            self.path.write_text(self.path.read_text().replace(old, new))
            return
        assert actual == text
        lines = actual.split(": ", 1)[1].splitlines()
        assert len(lines[0]) <= _LONGEST_FIRST_LINE
        assert len(lines) <= _MAX_LINES
        assert not re.search(r"\b(aval|jaxpr|tracer)\b", actual)


def _message(code: str, names: dict[str, Any]) -> str:
    """The text of the error that `code` raises."""
    file = "<doctest example>"  # a user's file by its name
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    try:
        exec(compile(code, file, "exec"), dict(names))
    except PellucidError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"nothing was raised by\n{code}")
