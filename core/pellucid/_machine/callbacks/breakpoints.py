"""`debug.breakpoint`: a prompt at a place of a running program, with the variables of the functions that led there."""

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
"""Lines that are shown before and behind the one of a frame."""

_one_at_a_time = threading.RLock()
"""Held while a prompt is open: programs of several devices get there side by side."""
_muted = 0


class StoppedFrame(NamedTuple):
    """A Python function that stood at a line when it was traced, with the values of the run that stopped."""

    function: str
    file: str
    line: int
    local: dict[str, Any]
    """Its local variables; arrays have the values of this run."""
    shared: dict[str, Any]
    """Its module's variables."""

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        return f"{cell_name(self.file) or self.file}:{self.line}, in {self.function}\n    {text}"

    def listing(self) -> str:
        """The lines around, the frame's own marked."""
        file = cell_name(self.file) or os.path.basename(self.file)
        rows = listing(self.file, self.line, LINES_AROUND)
        return "\n".join([f"{file}:{self.line}, in {self.function}", *rows])

    def evaluate(self, expression: str) -> Any:
        """The value of a Python expression of the frame's variables."""
        return eval(expression, self.shared | self.local)  # noqa: S307 - the user asks for it


class BreakpointPrompt(cmd.Cmd):
    """Commands at a stop, with pdb's first letters. What is no command is evaluated."""

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
        """c: go on with the program."""
        return True

    def do_quit(self, _: str) -> bool:
        """q, exit, the end of the input: end the process, as `sys.exit` does."""
        raise SystemExit(0)

    def do_up(self, _: str) -> None:
        """u: to the caller."""
        self._go(self.depth + 1)

    def do_down(self, _: str) -> None:
        """d: to the function that was called."""
        self._go(self.depth - 1)

    def do_list(self, _: str) -> None:
        """l: the lines around."""
        self._print(self.frames[self.depth].listing())

    def do_where(self, _: str) -> None:
        """w, bt: the stack, the innermost frame last."""
        self._print("\n".join(map(str, reversed(self.frames))))

    def do_args(self, _: str) -> None:
        """a: the local variables."""
        for name, value in self.frames[self.depth].local.items():
            self._print(f"{name} = {value!r}")

    def do_p(self, expression: str) -> None:
        """p EXPRESSION: its value."""
        self._print(repr(self.frames[self.depth].evaluate(expression)))

    def do_pp(self, expression: str) -> None:
        """pp EXPRESSION: its value, over several lines."""
        self._print(pprint.pformat(self.frames[self.depth].evaluate(expression)))

    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit  # noqa: N815 - the name that cmd looks for
    do_u, do_d, do_l, do_a = do_up, do_down, do_list, do_args
    do_w = do_bt = do_where

    def default(self, line: str) -> None:
        """Expressions."""
        self.do_p(line)

    def emptyline(self) -> bool:
        """Does nothing, where cmd repeats the last command."""
        return False

    def onecmd(self, line: str) -> bool:
        """Runs a command; what goes wrong in an expression is shown."""
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
"""Functions from the user's options to the prompt's streams (stdin, stdout), by name; others come from packages."""


def prompt_streams(name: str) -> Callable[..., tuple[Any, Any]]:
    """The back end `name`, of ours or of an installed package that declares the entry point."""
    if name in BACK_ENDS:
        return BACK_ENDS[name]
    metadata = importlib.import_module("importlib.metadata")  # takes 30 ms to load
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
    """The host's side of a breakpoint: called with the arrays among the local variables of its frames, returns False.

    `token` are the arrays that the program computes before.
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
        self._frames = [frame._replace(local=self._flattened(frame.local)) for frame in frames]

    def __call__(self, arrays: Sequence[Any], token: Any = ()) -> np.bool_:
        if _muted:
            return np.False_
        values = iter(arrays)
        stopped = [frame._replace(local=_restored(frame.local, values)) for frame in self._frames]
        with _one_at_a_time:
            BreakpointPrompt(stopped, *self.back_end(**self.options)).cmdloop()
        return np.False_

    def _flattened(self, variables: dict[str, Any]) -> dict[str, Any]:
        """For each variable its structure and leaves, of which arrays are taken out; those that hold leaks are left out."""
        flattened = {}
        for name, value in variables.items():
            try:
                leaves, tree = flatten(value)
            except Exception:  # keys that can't be sorted, a class of the user that fails
                leaves, tree = [value], None
            if any(isinstance(x, Tracer) and not getattr(x._trace, "alive", True) for x in leaves):
                continue
            self.arrays += [x for x in leaves if _is_array(x)]
            flattened[name] = tree, [_ARRAY if _is_array(x) else x for x in leaves]
        return flattened


_ARRAY = object()
"""Stands for an array that was taken out."""


def _is_array(x: Any) -> bool:
    return isinstance(x, (Tracer, *ARRAY_TYPES))


def _restored(flattened: dict[str, Any], arrays: Iterator[Any]) -> dict[str, Any]:
    """The variables, with the next `arrays` in their places."""
    variables = {}
    for name, (tree, rest) in flattened.items():
        leaves = [next(arrays) if x is _ARRAY else x for x in rest]
        variables[name] = leaves[0] if tree is None else tree.unflatten(leaves)
    return variables


def is_breakpoint(equation: Equation) -> bool:
    """Whether an equation calls the host's side of a breakpoint."""
    callback = getattr(equation.params, "callback", None)
    return isinstance(callback, FlatCallback) and isinstance(callback.function, BreakpointCallback)


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """A context in which `BreakpointCallback`s return without a prompt, in all threads: a debugger stops there itself."""
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
    that is no number from 1 on; when the program runs, SystemExit for `q`.

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
            "debug.breakpoint: `num_frames` is a number of frames, from 1 on.",
            got=f"got {num_frames!r}",
        )
    if ordered and token is not None:
        raise ArgumentValueError(
            "debug.breakpoint: what is `ordered` takes no `token`.",
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
    # The compiler would take an optimization barrier away, and with it the call.
    return tree.unflatten([select_n(is_open, x, full_like(x, 0)) for x in leaves])


_IS_OPEN = shaped_array((), np.dtype(bool))
"""The type of what a prompt gives when it is closed: False, on which a token depends."""


def _frames(frame: FrameType | None, only_users: bool, most: int | None) -> list[StoppedFrame]:
    """The frames from `frame` outwards; a module's variables are shared."""
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
