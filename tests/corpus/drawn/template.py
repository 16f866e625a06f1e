"""Texts with choices in them, and how one text is drawn.

`"jnp.sort(x, {0; -1})"` is one of two texts. `{d := float32; int8}` gives a choice a name, and `{d}` repeats it. Choices
may hold choices: the innermost are drawn first.
"""

import random
import re

_INNERMOST = re.compile(r"\{([^{}]*)\}")


def fill(choose: random.Random, text: str) -> str:
    """`text` with one alternative drawn for each choice."""
    names: dict[str, str] = {}

    def chosen(match: re.Match[str]) -> str:
        name, is_named, rest = match[1].partition(" := ")
        if not is_named and match[1] in names:
            return names[match[1]]
        alternatives = (rest if is_named else match[1]).split("; ")
        drawn = choose.choice(alternatives)
        if is_named:
            names[name] = drawn
        return drawn

    while match := _INNERMOST.search(text):
        text = text[: match.start()] + chosen(match) + text[match.end() :]
    return text
