"""A terminal prompt for debugging sessions, with the commands of pdb."""

from __future__ import annotations

import cmd
import re
from collections.abc import Callable
from typing import IO, Any

from pellucid.introspect.errors import PellucidError
from pellucid.introspect.interception import prompt_streams
from pellucid_kernel.debug.debug_session import DebugSession
from pellucid_kernel.debug.finders import range_text
from pellucid_kernel.debug.stopping_places import check_function

_LETTERS = {
    "a": "args", "b": "break", "c": "continue", "j": "jump", "n": "next", "r": "return", "s": "step", "u": "until", "w": "where",
}  # fmt: skip


class Prompt(cmd.Cmd):
    """Commands of a session, abbreviated as in pdb. Other input is evaluated as an expression."""

    prompt = "(pellucid) "

    def __init__(
        self, session: DebugSession, stdin: IO[str] | None = None, stdout: IO[str] | None = None
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.session = session
        self.intro = str(session)

    def do_next(self, _: str) -> None:
        """n: go to the next line."""
        self._show(self.session.next())

    def do_step(self, _: str) -> None:
        """s: go into what this line calls, a function or a program."""
        self._show(self.session.step())

    def do_return(self, _: str) -> None:
        """r: go on until this function, or this program with all its runs, has ended."""
        self._show(self.session.out())

    def do_back(self, _: str) -> None:
        """back: go back to the line before."""
        self._show(self.session.back())

    def do_continue(self, _: str) -> None:
        """c: go on to the next breakpoint, or to the end."""
        self._show(self.session.run())

    def do_reverse(self, _: str) -> None:
        """reverse: go back to the last breakpoint, or to the start."""
        self._show(self.session.run_back())

    def do_jump(self, argument: str) -> None:
        """j N: go to the start of iteration N of the loop; j I,J: to the program at that position of a kernel's grid."""
        numbers = tuple([int(text) for text in argument.split(",") if text.strip()])
        is_position = "," in argument
        self._show(self.session.jump(numbers if is_position else int(argument)))

    def do_blocks(self, _: str) -> None:
        """blocks: in a kernel, where in the whole arrays the blocks of its references lie."""
        for name, place in self.session.blocks().items():
            self._print(f"{name} = {place}")

    def do_until(self, argument: str) -> None:
        """u [FILE:]LINE: go on to a line."""
        file, line = _place(argument)
        self._show(self.session.run_to(line, file))

    def do_break(self, argument: str) -> None:
        """b [[FILE:]LINE[, CONDITION]]: stop at a line, or list the breakpoints."""
        if argument:
            place, _, condition = argument.partition(",")
            file, line = _place(place)
            self.session.break_at(line, file, condition.strip())
        for each in self.session.breakpoints:
            self._print(f"{each.file}:{each.line}  {each.condition}".rstrip())

    def do_where(self, _: str) -> None:
        """w: the stack, with the lines around."""
        self._show(self.session)

    def do_args(self, _: str) -> None:
        """a: the variables here, with their types and ranges."""
        for name, value in self.session.variables().items():
            self._print(f"{name} = {range_text(value)}")

    def do_p(self, argument: str) -> None:
        """p EXPRESSION: the value of an expression of the variables, `jnp`, `np` and `pl`."""
        self._print(repr(self.session.evaluate(argument)))

    def do_set(self, argument: str) -> None:
        """set NAME = EXPRESSION: give a variable another value from here on; to go back before here takes it back."""
        name, _, expression = argument.partition("=")
        self._show(self.session.set(name.strip(), self.session.evaluate(expression.strip())))

    def do_shards(self, argument: str) -> None:
        """shards EXPRESSION: of an array the part on each device of this process: its index, type and range."""
        value = self.session.evaluate(argument)
        for shard in value.addressable_shards:
            index = ", ".join(
                f"{part.start or 0}:{size if part.stop is None else part.stop}"
                for part, size in zip(shard.index, value.shape, strict=True)
            )
            self._print(f"device {shard.device.id}  [{index}]  {range_text(shard.data)}")

    def do_position(self, argument: str) -> None:
        """position [AXIS=N, …]: show values at one position of a shard_map; without axes those at all."""
        pairs = [part.split("=") for part in argument.split(",") if part.strip()]
        self._show(self.session.at(**{axis.strip(): int(index) for axis, index in pairs}))

    def do_lane(self, argument: str) -> None:
        """lane [N, …]: show values in one lane of each batch, from the outermost on, `*` for all; without any in all lanes."""
        texts = [part.strip() for part in argument.split(",") if part.strip()]
        self._show(self.session.in_lane(*[None if text == "*" else int(text) for text in texts]))

    def do_cores(self, _: str) -> None:
        """cores: in a simulated kernel, where each device, core or thread is, and what it waits for."""
        self._print(self.session.cores_text())

    def do_core(self, argument: str) -> None:
        """core N: show and step another device, core or thread, by its row in `cores`."""
        text = argument.strip()
        if not text.isdecimal():
            self._print("core N: N is a row of this table.")
            self._print(self.session.cores_text())
            return
        self._show(self.session.on_core(int(text)))

    def do_quit(self, _: str) -> bool:
        """q: end."""
        return True

    do_q = do_quit

    do_EOF = do_quit  # noqa: N815 - the name that cmd looks for

    def default(self, line: str) -> None:
        """Runs abbreviated commands, and evaluates expressions."""
        word, _, rest = line.partition(" ")
        if word in _LETTERS:
            getattr(self, f"do_{_LETTERS[word]}")(rest)
        else:
            self.do_p(line)

    def onecmd(self, line: str) -> bool:
        """Runs a command. If it raises, the error is printed and the session stays where it is."""
        try:
            return bool(super().onecmd(line))
        except PellucidError as error:
            self._print(str(error))
        except Exception as error:  # raised by the user's expression or number
            self._print(f"{type(error).__name__}: {error}")
        return False

    def _show(self, session: DebugSession) -> None:
        self._print(str(session))

    def _print(self, text: Any) -> None:
        print(text, file=self.stdout)


def prompt(
    function: Callable[..., Any], *, backend: str = "cli", **options: Any
) -> Callable[..., DebugSession]:
    """Returns a function that debugs a call at a prompt, and returns the session at the end.

    `backend` and its `options` are those of `debug.breakpoint`: "cli" uses the terminal, or `stdin=` and `stdout=`;
    "web" serves a page on `port=` of this machine, and prints its address.

    Raises: ArgumentValueError for an unknown `backend`.
    """
    streams = prompt_streams(backend)

    check_function(function, "prompt")

    def open_prompt(*args: Any, **kwargs: Any) -> DebugSession:
        session = DebugSession(function, args, kwargs)
        Prompt(session, *streams(**options)).cmdloop()
        return session

    return open_prompt


def _place(text: str) -> tuple[str | None, int]:
    """Parses `FILE:LINE` or `LINE` into (file or None, line)."""
    match = re.fullmatch(r"\s*(?:(.*):)?(\d+)\s*", text)
    if match is None:
        raise ValueError(f"a place is LINE or FILE:LINE, got {text!r}")
    return match[1], int(match[2])
