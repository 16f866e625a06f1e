"""A process of its own that answers, for rows, what the reference library gives.

Reads a pickled list of questions from standard input and writes the pickled list of answers.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, NamedTuple

CHUNK = 60


class Question(NamedTuple):
    """A row's expression and its operands; for derivatives, tangents and cotangents of floating results."""

    call: str
    names: tuple[str, ...]
    operands: list[Any]
    x64: bool
    wrt: tuple[int, ...]
    tangents: list[Any]
    cotangents: list[Any]


class Answer(NamedTuple):
    """Values and weak types of the results, tangents of floating results, cotangents, the program's text."""

    error: str | None = None
    values: tuple[Any, ...] = ()
    weak_types: tuple[bool, ...] = ()
    tangents: tuple[Any, ...] = ()
    cotangents: tuple[Any, ...] = ()
    text: str = ""


def main() -> None:
    questions = pickle.load(sys.stdin.buffer)
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # what libraries print must not mix with the answers
    pickle.dump(answers(questions), output)


def answers(questions: list[Question]) -> list[Answer]:
    import jax

    found: dict[int, Answer] = {}
    for x64 in (False, True):
        with jax.enable_x64(x64):
            indices = [i for i, q in enumerate(questions) if q.x64 is x64]
            for start in range(0, len(indices), CHUNK):
                chunk = indices[start : start + CHUNK]
                found |= dict(zip(chunk, together([questions[i] for i in chunk]), strict=True))
    return [found[i] for i in range(len(questions))]


def together(questions: list[Question]) -> list[Answer]:
    """Answers computed by one compiled program for values and one for derivatives; singly where that fails."""
    import jax

    try:
        functions = [function_of(q) for q in questions]
        values = jax.jit(lambda groups: [f(*xs) for f, xs in zip(functions, groups, strict=True)])(
            [q.operands for q in questions]
        )
        pairs = jax.jit(
            lambda groups: [
                derivatives(q, f, xs) for q, f, xs in zip(questions, functions, groups, strict=True)
            ]
        )([q.operands for q in questions])
        texts = [str(jax.make_jaxpr(f)(*q.operands)) for f, q in zip(functions, questions, strict=True)]
    except Exception as error:
        if len(questions) == 1:
            return [Answer(f"{type(error).__name__}: {error}")]
        return [answer for question in questions for answer in together([question])]
    return [
        Answer(
            values=tuple(map(plain, vs)),
            weak_types=tuple(v.weak_type for v in vs),
            tangents=tuple(map(plain, ts)),
            cotangents=tuple(map(plain, cs)),
            text=text,
        )
        for vs, (ts, cs), text in zip(values, pairs, texts, strict=True)
    ]


def function_of(question: Question) -> Any:
    """The row's expression as a function that gives a list."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    names = {"lax": jax.lax, "jax": jax, "jnp": jnp, "np": np}
    evaluate = eval(f"lambda {', '.join(question.names)}: {question.call}", names)

    def function(*operands: Any) -> list[Any]:
        results = evaluate(*operands)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return function


def derivatives(question: Question, function: Any, operands: list[Any]) -> tuple[list[Any], list[Any]]:
    """Tangents of the floating results along the tangents given; cotangents of the operands."""
    import jax
    import jax.numpy as jnp

    if not question.wrt:
        return [], []

    def of_some(*some: Any) -> list[Any]:
        every = list(operands)
        for i, x in zip(question.wrt, some, strict=True):
            every[i] = x
        return [r for r in function(*every) if jnp.issubdtype(r.dtype, jnp.inexact)]

    some = tuple(operands[i] for i in question.wrt)
    _, tangents = jax.jvp(of_some, some, tuple(question.tangents))
    _, back = jax.vjp(of_some, *some)
    return tangents, list(back(list(question.cotangents)))


def plain(x: Any) -> Any:
    import numpy as np

    return np.asarray(x)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # Pickles name the classes of the module, not those of `__main__`.
    from tests.laws import jax_answers

    jax_answers.main()
