"""The language of symbolic shapes: `(b, 2*k + 1, floordiv(n, 2), _, ...)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import ArgumentValueError, Size

from .dimensions import OPERATIONS

_WORD = re.compile(r"\s*(\d+|[^\W\d]\w*|\.\.\.|[-+*^(),])")


def parsed_sizes(
    text: str, scope: Any, like: Sequence[int | None] | None = None
) -> tuple[Size, ...]:
    """The sizes that `text` lists; `_` and a last `...` are filled in from `like`.

    Raises: ArgumentValueError for what isn't in the language.
    """
    return _Parser(text, scope, like).sizes()


class _Parser:
    """A parser by recursive descent: sizes are sums of products of powers."""

    def __init__(self, text: str, scope: Any, like: Sequence[int | None] | None) -> None:
        self.text, self.scope, self.like = text, scope, like
        self.words: list[str] = []
        self.ends: list[int] = [0]
        place = 0
        while text[place:].strip():
            match = _WORD.match(text, place)
            if match is None:
                raise self.error(f"{text[place:].strip()[0]!r} has no meaning here", place)
            place = match.end()
            self.words.append(match[1])
            self.ends.append(place)
        self.position = 0

    def error(self, problem: str, place: int | None = None) -> ArgumentValueError:
        place = self.ends[self.position] if place is None else place
        return ArgumentValueError(
            f"the symbolic shape {self.text!r} can't be read: {problem}.",
            got=f"read so far: {self.text[:place]!r}",
            do="Use integers, names, + - * ^, and floordiv(x, y), mod(x, y), max(x, y), min(x, y).",
        )

    @property
    def word(self) -> str:
        return self.words[self.position] if self.position < len(self.words) else ""

    def accept(self, *words: str) -> str:
        """The current word, which is consumed, if it is one of `words`; else an empty text."""
        word = self.word
        if word in words and word:
            self.position += 1
            return word
        return ""

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(
                f"{word!r} is missing" + (f" before {self.word!r}" if self.word else "")
            )

    def sizes(self) -> tuple[Size, ...]:
        closing = ")" if self.is_enclosed() and self.accept("(") else ""
        sizes: list[Size] = []
        while self.word not in ("", ")"):
            if self.accept("..."):
                sizes += self.fill_placeholder(len(sizes), None)
                break
            sizes.append(
                self.fill_placeholder(len(sizes), 1)[0]
                if self.accept("_")
                else self.check_next(len(sizes))
            )
            if not self.accept(","):
                break
        if closing:
            self.expect(closing)
        if self.word:
            raise self.error(f"{self.word!r} is not expected")
        if self.like is not None and len(sizes) != len(self.like):
            raise self.error(f"it has {len(sizes)} dimensions, the argument {len(self.like)}")
        return tuple(sizes)

    def is_enclosed(self) -> bool:
        """Whether the first parenthesis is closed by the last word."""
        depth = 0
        for i, word in enumerate(self.words):
            depth += (word == "(") - (word == ")")
            if depth == 0:
                return i > 0 and i == len(self.words) - 1
        return self.word == "("

    def fill_placeholder(self, first: int, count: int | None) -> list[Size]:
        """The sizes of `like` at a placeholder."""
        if self.like is None:
            raise self.error("a placeholder needs a shape that fills it in (`like=`)")
        sizes = list(self.like[first : None if count is None else first + count])
        if None in sizes or (count is not None and len(sizes) != count):
            raise self.error(
                f"the placeholder for dimension {first + len(sizes)} has no size in {tuple(self.like)}"
            )
        return sizes

    def check_next(self, dim: int) -> Size:
        """The next size; raises unless it is that of `like`, if both are integers."""
        size = self.sum()
        size_of_like = self.like[dim] if self.like is not None and dim < len(self.like) else None
        if type(size) is int and type(size_of_like) is int and size != size_of_like:
            raise self.error(f"dimension {dim} is {size}, that of the argument {size_of_like}")
        return size

    def sum(self) -> Size:
        sign = self.accept("-", "+")
        total = self.product()
        total = -total if sign == "-" else total
        while sign := self.accept("-", "+"):
            term = self.product()
            total = total - term if sign == "-" else total + term
        return total

    def product(self) -> Size:
        product = self.power()
        while self.accept("*"):
            product = product * self.power()
        return product

    def power(self) -> Size:
        base = self.atom()
        if self.accept("^"):
            exponent = self.word
            if not exponent.isdecimal():
                raise self.error("an exponent must be an integer")
            self.position += 1
            return base ** int(exponent)
        return base

    def atom(self) -> Size:
        word = self.word
        if word.isdecimal():
            self.position += 1
            return int(word)
        if self.accept("-"):
            return -self.power()
        if self.accept("("):
            size = self.sum()
            self.expect(")")
            return size
        if not word.isidentifier() or word == "_":
            raise self.error("a size is missing" + (f" before {word!r}" if word else ""))
        self.position += 1
        if word not in OPERATIONS or self.word != "(":
            return self.scope.factor(word)
        self.expect("(")
        left = self.sum()
        self.expect(",")
        right = self.sum()
        self.expect(")")
        return OPERATIONS[word](left, right)
