"""`debug.breakpoint`: stops a running program at a prompt with the variables of the user's functions."""

from __future__ import annotations

import cmd
import contextlib
import importlib
import linecache
import os
import pprint
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import IO, Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Keywords,
    cell_name,
    is_user_file,
    listing,
)
from pellucid._machine.ir import Equation, shaped_array
from pellucid._machine.primitives.conversion import stop_gradient
from pellucid._machine.primitives.creation import full_like
from pellucid._machine.primitives.logical import select_n
from pellucid._machine.tracing import Tracer
from pellucid._machine.xla.arrays import ARRAY_TYPES
from pellucid._machine.xla.pytree import flatten

from .debug import debug_callback
from .host import FlatCallback
from .pure import pure_callback

LINES_AROUND = 5
"""Number of lines that are shown before and after the current line of a frame."""

_one_at_a_time = threading.RLock()
"""Held while a prompt is open, because programs on several devices may reach it concurrently."""
_muted = 0


class StoppedFrame(NamedTuple):
    """A Python frame at the line where it was traced, with the values of the run that stopped."""

    function: str
    file: str
    line: int
    local: dict[str, Any]
    """Its local variables; arrays have this run's values."""
    shared: dict[str, Any]
    """The global variables of its module."""

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        return f"{cell_name(self.file) or self.file}:{self.line}, in {self.function}\n    {text}"

    def listing(self) -> str:
        """The surrounding lines, with the current one marked."""
        file = cell_name(self.file) or os.path.basename(self.file)
        rows = listing(self.file, self.line, LINES_AROUND)
        return "\n".join([f"{file}:{self.line}, in {self.function}", *rows])

    def evaluate(self, expression: str) -> Any:
        """The value of a Python expression in the frame."""
        return eval(expression, self.shared | self.local)  # noqa: S307 - the user asks for it


class BreakpointPrompt(cmd.Cmd):
    """The prompt's commands, abbreviated as in pdb. Anything else is evaluated as an expression."""

    prompt = "(pellucid) "

    def __init__(
        self,
        frames: Sequence[StoppedFrame],
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.depth = 0
        self.intro = frames[0].listing()

    def do_continue(self, _: str) -> bool:
        """c: continue the program."""
        return True

    def do_quit(self, _: str) -> bool:
        """q, exit, end of input: end the process, as `sys.exit` does."""
        raise SystemExit(0)

    def do_up(self, _: str) -> None:
        """u: go to the caller."""
        self._go(self.depth + 1)

    def do_down(self, _: str) -> None:
        """d: go to the called function."""
        self._go(self.depth - 1)

    def do_list(self, _: str) -> None:
        """l: show the surrounding lines."""
        self._print(self.frames[self.depth].listing())

    def do_where(self, _: str) -> None:
        """w, bt: show the stack, innermost frame last."""
        self._print("\n".join(map(str, reversed(self.frames))))

    def do_args(self, _: str) -> None:
        """a: show the local variables."""
        for name, value in self.frames[self.depth].local.items():
            self._print(f"{name} = {value!r}")

    def do_p(self, expression: str) -> None:
        """p EXPRESSION: print its value."""
        self._print(repr(self.frames[self.depth].evaluate(expression)))

    def do_pp(self, expression: str) -> None:
        """pp EXPRESSION: print its value on several lines."""
        self._print(pprint.pformat(self.frames[self.depth].evaluate(expression)))

    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit  # noqa: N815 - the name that cmd looks for
    do_u, do_d, do_l, do_a = do_up, do_down, do_list, do_args
    do_w = do_bt = do_where

    def default(self, line: str) -> None:
        """Evaluate an expression."""
        self.do_p(line)

    def emptyline(self) -> bool:
        """Does nothing, whereas cmd would repeat the last command."""
        return False

    def onecmd(self, line: str) -> bool:
        """Runs a command; errors in an expression are printed."""
        try:
            return bool(super().onecmd(line))
        except Exception as error:  # whatever the user's expression raises
            self._print(f"*** {type(error).__name__}: {error}")
        return False

    def _go(self, depth: int) -> None:
        if not 0 <= depth < len(self.frames):
            self._print("*** there is no frame beyond this one")
            return
        self.depth = depth
        self.do_list("")

    def _print(self, text: str) -> None:
        print(text, file=self.stdout)


def _terminal(
    stdin: IO[str] | None = None, stdout: IO[str] | None = None
) -> tuple[IO[str] | None, IO[str] | None]:
    return stdin, stdout


BACK_ENDS: dict[str, Callable[..., tuple[Any, Any]]] = {"cli": _terminal}
"""Maps names of back ends to functions from the user's options to the prompt's (stdin, stdout); packages add others."""


def prompt_streams(name: str) -> Callable[..., tuple[Any, Any]]:
    """The back end `name`: a built-in one, or one from the entry point of an installed package."""
    if name in BACK_ENDS:
        return BACK_ENDS[name]
    metadata = importlib.import_module("importlib.metadata")  # takes 30 ms to import
    others = {
        each.name: each for each in metadata.entry_points(group="pellucid.breakpoint_back_ends")
    }
    if name not in others:
        raise ArgumentValueError(
            "there is no such `backend` of prompts.",
            got=f"got {name!r}",
            do=f"Take one of {', '.join({**BACK_ENDS, **others})}.",
        )
    try:
        return others[name].load()
    except ModuleNotFoundError as error:
        raise ArgumentValueError(
            f"the back end {name!r} of prompts needs the package {error.name}.",
            do='Install it: pip install "pellucid[kernel]".',
        ) from None


class BreakpointCallback:
    """The host callback of a breakpoint: takes the arrays among its frames' local variables, and returns False.

    `token` are arrays that the program computes before it.
    """

    def __init__(
        self,
        frames: Sequence[StoppedFrame],
        back_end: Callable[..., tuple[Any, Any]],
        options: Keywords,
    ) -> None:
        self.back_end = back_end
        self.options = options
        self.arrays: list[Any] = []
        """Arrays and traced values among the variables, in order."""
        self._frames = [frame._replace(local=self._flatten(frame.local)) for frame in frames]

    def __call__(self, arrays: Sequence[Any], token: Any = ()) -> np.bool_:
        if _muted:
            return np.False_
        values = iter(arrays)
        stopped = [
            frame._replace(local=_restore_variables(frame.local, values)) for frame in self._frames
        ]
        with _one_at_a_time:
            BreakpointPrompt(stopped, *self.back_end(**self.options)).cmdloop()
        return np.False_

    def _flatten(self, variables: dict[str, Any]) -> dict[str, Any]:
        """(structure, leaves with placeholders for arrays) of each variable; those with leaked tracers are left out."""
        flattened = {}
        for name, value in variables.items():
            try:
                leaves, tree = flatten(value)
            except Exception:  # unsortable keys, or a user's class whose flattening fails
                leaves, tree = [value], None
            if any(isinstance(x, Tracer) and not getattr(x._trace, "alive", True) for x in leaves):
                continue
            self.arrays += [x for x in leaves if _is_array(x)]
            flattened[name] = tree, [_ARRAY if _is_array(x) else x for x in leaves]
        return flattened


_ARRAY = object()
"""Placeholder of an array."""


def _is_array(x: Any) -> bool:
    return isinstance(x, (Tracer, *ARRAY_TYPES))


def _restore_variables(flattened: dict[str, Any], arrays: Iterator[Any]) -> dict[str, Any]:
    """The variables, with the next `arrays` in place of the placeholders."""
    variables = {}
    for name, (tree, rest) in flattened.items():
        leaves = [next(arrays) if x is _ARRAY else x for x in rest]
        variables[name] = leaves[0] if tree is None else tree.unflatten(leaves)
    return variables


def is_breakpoint(equation: Equation) -> bool:
    """Whether an equation calls a breakpoint's host callback."""
    callback = getattr(equation.params, "callback", None)
    return isinstance(callback, FlatCallback) and isinstance(callback.function, BreakpointCallback)


@contextlib.contextmanager
def mute_breakpoints() -> Iterator[None]:
    """A context in which `BreakpointCallback`s return without a prompt, in all threads, because a debugger stops there
    itself.
    """
    global _muted
    _muted += 1
    try:
        yield
    finally:
        _muted -= 1


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> Any:
    r"""Stop the program here when it runs, and open a prompt with the variables that are in sight of this line.

    It works under all transformations: `vmap` stops for each element, `grad` in the forward pass, a loop in each step.
    At the prompt: `p`, `pp` and plain expressions, `u` and `d` along the stack, `l`, `w`, `a`, `c` to go on, and `q` or
    `exit` to end the process, as the end of the input does. Only the user's frames are shown, with
    `filter_frames=False` all; `num_frames` is the most. Breakpoints that are `ordered` come in program order. `backend`
    is "cli", the default, whose streams are `stdin=` and `stdout=`, or "web": a page on this machine's `port=`, whose
    address with its token is printed. With `token`, an array or a tree of arrays, the result is `token`, which is there
    only when the prompt is closed, so that what uses it comes after. `pl.debugger.prompt` steps through a whole call.

    Raises: ArgumentValueError for another `backend`, and for `ordered` with a `token`; ArgumentTypeError for `num_frames`
    that isn't a number from 1 on; when the program runs, SystemExit for `q`.

    >>> import io
    >>> from pellucid import effects_barrier, jit
    >>> def double(x):
    ...     y = 2 * x
    ...     breakpoint(stdin=io.StringIO("p y\nc\n"), stdout=seen)
    ...     return y
    >>> seen = io.StringIO()
    >>> result = jit(double)(4)
    >>> effects_barrier()
    >>> "Array(8, dtype=int32" in seen.getvalue()
    True
    """
    if num_frames is not None and (type(num_frames) is not int or num_frames < 1):
        raise ArgumentTypeError(
            "debug.breakpoint: `num_frames` must be a number of frames, from 1 on.",
            got=f"got {num_frames!r}",
        )
    if ordered and token is not None:
        raise ArgumentValueError(
            "debug.breakpoint can't take a `token` if it is `ordered`.",
            do="Leave one of them out: a token orders by the values that depend on it.",
        )
    frames = _frames(sys._getframe(1), filter_frames, num_frames)
    stop = BreakpointCallback(frames, prompt_streams(backend or "cli"), kwargs)
    if token is None:
        debug_callback(stop, stop.arrays, ordered=ordered)
        return None
    leaves, tree = flatten(token)
    operands = [[*map(stop_gradient, values)] for values in (stop.arrays, leaves)]
    is_open = pure_callback(stop, _IS_OPEN, *operands, vmap_method="sequential")
    # The compiler would remove an optimization barrier, and with it the call.
    return tree.unflatten([select_n(is_open, x, full_like(x, 0)) for x in leaves])


_IS_OPEN = shaped_array((), np.dtype(bool))
"""The type of the value that a prompt returns when it is closed: False. A token depends on it."""


def _frames(frame: FrameType | None, only_users: bool, most: int | None) -> list[StoppedFrame]:
    """The frames from `frame` outwards; the variables of a module are shared between its frames."""
    frames: list[StoppedFrame] = []
    while frame is not None and len(frames) != most:
        code = frame.f_code
        if not only_users or is_user_file(code.co_filename):
            local = {} if frame.f_locals is frame.f_globals else frame.f_locals
            frames.append(
                StoppedFrame(
                    code.co_qualname, code.co_filename, frame.f_lineno, local, frame.f_globals
                )
            )
        frame = frame.f_back
    return frames
