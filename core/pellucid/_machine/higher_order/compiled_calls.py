"""Calls of compiled functions through C++: the Python side of `Compiled`, and wrappers of C++ callables."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    DeviceError,
    Function,
    JAXTypeError,
    strict_zip,
    structure_differences,
)
from pellucid._machine.compilation.launches import Launch
from pellucid._machine.compilation.listeners import run
from pellucid._machine.runtime.array import note_donation
from pellucid._machine.runtime.calls import clear_entries, make_call
from pellucid._machine.runtime.executable import Executable
from pellucid._machine.sharding.stated import placement_text
from pellucid._machine.tracing import FunctionCall, FunctionSpec, Tracer
from pellucid._machine.xla import ARRAY_TYPES, UNHASHABLE, ArrayImpl, flatten


def call_of_executable(jitted: Any, program: Any, executable: Executable) -> Any:
    """The C++ callable of an executable, which only accepts arguments of the types it was compiled for."""
    spec = jitted.spec
    side = _CompiledCall(jitted, program, executable)
    call = make_call(spec.name, None, side.cache_miss, (), (), ())
    side.callable = weakref.ref(call)
    # Static arguments aren't passed to a `Compiled`, so positions only count the others.
    nums = [n - sum(s < n for s in spec.static_nums) for n in spec.donated_nums]
    if nums or spec.donated_names:
        call = wrap_call(call, spec, nums)
    return call


def wrap_call(call: Any, spec: FunctionSpec, donated_nums: Sequence[int]) -> Any:
    """Wraps `call` to mark donated arguments, and to name an unhashable static argument in the error.

    C++ does neither: a later use of a donated array would fail in XLA with an obscure message.
    """
    name = spec.name

    def note(x: Any) -> None:
        for leaf in flatten(x)[0]:
            if type(leaf) in ARRAY_TYPES and leaf.is_deleted():
                note_donation(leaf, name)

    def call_with_errors(*args: Any, **kwargs: Any) -> Any:
        try:
            # Unpacking even an empty dict takes time.
            results = call(*args, **kwargs) if kwargs else call(*args)
        except ValueError as error:
            if str(error).startswith(UNHASHABLE):
                spec.call(args, kwargs)  # raises
            raise
        for n in donated_nums:
            if n < len(args):
                x = args[n]
                if type(x) is not ArrayImpl:
                    note(x)
                elif x.is_deleted():
                    note_donation(x, name)
        if kwargs:
            for key in spec.donated_names:
                note(kwargs.get(key))
        return results

    return call_with_errors


def no_callable() -> None:
    """A weak reference to no callable."""


@dataclass(eq=False)
class _CompiledCall:
    """Python side of the calls of an executable: checks the arguments, runs it, and lets C++ run it from then on."""

    jitted: Any
    program: Any
    executable: Executable
    callable: Function = no_callable
    """Weak reference to the C++ callable, which refers to this object."""

    def cache_miss(self, *args: Any, **kwargs: Any) -> Any:
        """Called by C++ for argument types that it hasn't seen: returns (results, FastPath or None)."""
        try:
            return self._results(self.jitted.spec.call_of_dynamic(args, kwargs))
        except BaseException:
            # After an exception, C++ would call Python for all later calls of this kind.
            clear_entries(self.callable())
            raise

    def _results(self, call: FunctionCall):
        self._check(call)
        program, values = self.program, self.program.values
        name, executable = self.jitted.spec.name, self.executable
        launch = Launch(
            name, values, call.leaves, executable, lambda: clear_entries(self.callable()),
            is_of_user=self.jitted.options.share,
        )  # fmt: skip
        results, tree = run(launch), program.out_tree
        needs_python = launch.needs_python or values.takes_references
        return tree.unflatten(results), None if needs_python else executable.fast_path(
            tree, call.leaves
        )

    def _check(self, call: FunctionCall) -> None:
        """Raises if arguments have another structure, type or placement than the program's, or are tracers."""
        spec, expected = self.jitted.spec, self.program.call
        if call.tree != expected.tree:
            raise self._other_structure(expected.tree, call)
        traced = [i for i, x in enumerate(call.leaves) if isinstance(x, Tracer)]
        if traced:
            names = spec.debug_info(expected).argument_names
            raise JAXTypeError(
                f"`{spec.name}` is compiled, and a compiled program can't be transformed or traced.",
                got=[f"{names[i]}: {call.leaves[i]}" for i in traced[:3]],
                do=f"Differentiate, batch or trace `{spec.name}` itself; it may be jitted.",
            )
        wrong = [
            (i, a, b)
            for i, (a, b) in enumerate(strict_zip(expected.avals, call.avals))
            if a is not b and (a.shape, a.dtype) != (b.shape, b.dtype)
        ]
        if wrong:
            names = spec.debug_info(expected).argument_names
            raise ArgumentTypeError(
                f"`{spec.name}` was compiled for arguments of other types.",
                got=[
                    f"{names[i]}: compiled for {a.text()}, got {b.text()}" for i, a, b in wrong[:5]
                ],
                do="Lower and compile it again for these arguments, or call the jitted function itself.",
            )
        self._check_placements(call)

    def _other_structure(self, expected, call: FunctionCall) -> ArgumentTypeError:
        """The error for a call whose arguments have another structure than `expected`, a PyTreeDef."""
        spec = self.jitted.spec
        static = ", ".join(spec.names_of(self.program.call.static))
        n_positional = call.tree.children()[0].num_leaves
        leaves = (call.leaves[:n_positional], call.leaves[n_positional:])
        differences = [
            difference.text(name)
            for name, of, got, part in strict_zip(
                ("args", "kwargs"), expected.children(), call.tree.children(), leaves
            )
            for difference in structure_differences(of, got, leaves=part)
        ]
        do = "Call it with the arguments' containers and keys it was lowered with"
        return ArgumentTypeError(
            f"`{spec.name}` was compiled for arguments of another structure.",
            got=differences[:3],
            do=f"{do}, and without its static arguments ({static})." if static else f"{do}.",
        )

    def _check_placements(self, call: FunctionCall) -> None:
        """Raises DeviceError for arrays that the user has placed elsewhere than the program expects them."""
        wrong = [
            (i, x._sharding, sharding)
            for i, (x, sharding) in enumerate(
                strict_zip(
                    self.program.values.operands(call.leaves), self.executable.argument_shardings
                )
            )
            if type(x) in ARRAY_TYPES
            and x._committed
            and not x._sharding.is_equivalent_to(sharding, x.ndim)
        ]
        if wrong:
            names = self.program.argument_names()
            raise DeviceError(
                f"`{self.jitted.spec.name}` was compiled for arguments that are placed otherwise.",
                got=[
                    f"{names[i]}: compiled for {placement_text(expected)}, got {placement_text(placement)}"
                    for i, placement, expected in wrong[:3]
                ],
                do="Put them there with `device_put`, or call the jitted function itself.",
            )
