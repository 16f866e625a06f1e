"""A loaded executable: arguments to shards, run, shards to results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.base.errors import ExecutionError, OutOfMemoryError
from pellucid.ir.effects import Effect
from pellucid.runtime.memory import largest_live_arrays
from pellucid.runtime.tokens import tokens
from pellucid.runtime.transfer import shard_argument
from pellucid.xla import arrays
from pellucid.xla.calls import FastPath
from pellucid.xla.compile import JaxRuntimeError, result_handler


class Executable:
    """A compiled program on its devices.

    Arguments are flat arrays in the order of the program; `kept` tells which of them the compiled program
    still takes; `consts` are arrays it takes in front of them.
    """

    def __init__(
        self,
        name: str,
        loaded: Any,
        *,
        in_avals: Sequence[Any],
        out_avals: Sequence[Any],
        in_shardings: Sequence[Any],
        out_shardings: Sequence[Any],
        kept: Sequence[bool],
        consts: Sequence[Any],
        committed: bool,
        effects: Sequence[Effect] = (),
        has_side_effects: bool = False,
        keep_alive: Any = None,
    ) -> None:
        self.name = name
        self.loaded = loaded
        self.in_avals = tuple(in_avals)
        self.out_avals = tuple(out_avals)
        self.in_shardings = list(in_shardings)
        self.out_shardings = list(out_shardings)
        self.kept = list(kept)
        self.committed = committed
        self.effects = tuple(effects)
        self.has_side_effects = has_side_effects
        self.keep_alive = keep_alive
        self.const_sharding = self.in_shardings[: len(consts)]
        self.consts = [
            shard_argument(c, s) for c, s in zip(consts, self.const_sharding, strict=True)
        ]
        self.argument_shardings = self.in_shardings[len(consts) :]
        self.handlers = [
            result_handler(aval, sharding, committed)
            for aval, sharding in zip(self.out_avals, self.out_shardings, strict=True)
        ]
        kept_shardings = [s for s, k in zip(self.argument_shardings, self.kept, strict=True) if k]
        self._kept_shardings = kept_shardings

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Results of the program on flat `arguments`."""
        kept = [x for x, k in zip(arguments, self.kept, strict=True) if k]
        placed = [shard_argument(x, s) for x, s in zip(kept, self._kept_shardings, strict=True)]
        try:
            if self.effects or self.has_side_effects:
                return self._run_with_tokens([*self.consts, *placed])
            results = self.loaded.execute_sharded([*self.consts, *placed])
            return results.consume_with_handlers(self.handlers)
        except (JaxRuntimeError, ValueError) as error:
            raise runtime_error(self.name, error) from None

    def _run_with_tokens(self, arguments: list[Any]) -> list[Any]:
        device = self.in_devices[0]
        incoming = [tokens.ordered(effect, device) for effect in self.effects]
        results = self.loaded.execute_sharded([*incoming, *arguments], with_tokens=True)
        n = len(self.effects)
        token_handlers = [tokens.handler(device)] * n
        outgoing = results.consume_with_handlers([*token_handlers, *self.handlers])
        for effect, token in zip(self.effects, outgoing, strict=False):
            tokens.set_ordered(effect, device, token)
        tokens.add_runtime_token(device, results.consume_token())
        return outgoing[n:]

    @property
    def in_devices(self) -> list[Any]:
        """The devices that run the program, in order."""
        return list(self.loaded.local_devices())

    def fast_path(self, out_tree: Any) -> FastPath | None:
        """What the C++ call path needs to run this program alone; None if it has effects."""
        if self.effects or self.has_side_effects:
            return None
        return FastPath(
            xla_executable=self.loaded,
            out_pytree_def=out_tree,
            in_shardings=self._kept_shardings,
            out_shardings=self.out_shardings,
            out_avals=self.out_avals,
            out_committed=[self.committed] * len(self.out_avals),
            kept_var_bitvec=self.kept,
            in_device_local_layouts=[None] * len(self._kept_shardings),
            const_args=self.consts,
        )

    def block_until_ready(self, results: Sequence[Any]) -> None:
        """Wait for `results`."""
        arrays.batched_block_until_ready(list(results))


def runtime_error(name: str, error: Exception) -> Exception:
    """What the user sees when XLA's runtime reports `error` while running `name`."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        return OutOfMemoryError(
            f"`{name}` needs more memory than the device has.",
            got=[text.splitlines()[0], *largest_live_arrays()],
            do="Delete or donate arrays that are no longer needed, or use smaller or sharded ones.",
        )
    if isinstance(error, ValueError) and not any(
        code in text for code in ("INTERNAL", "INVALID_ARGUMENT", "UNKNOWN", "FAILED_PRECONDITION", "UNIMPLEMENTED")
    ):
        return error
    return ExecutionError(f"`{name}` failed while it ran.", got=text.splitlines()[:40])
