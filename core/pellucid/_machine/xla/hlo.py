"""Optimized programs as HLO text, and facts that core reads from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from jaxlib import _hlo, _jax

from .compile import LoadedExecutable
from .hlo_text import Instruction, instructions_of

encode_inspection = _jax.encode_inspect_sharding_callback
"""Configuration by which the operation `InspectSharding` finds a Python function of an HLO sharding, which is kept
alive elsewhere.
"""


def text(module: Any, *, metadata: bool) -> str:
    """Text of an HLO module, which can be parsed again."""
    options = _hlo.HloPrintOptions.short_parsable()
    options.print_metadata = metadata
    return module.to_string(options)


def program_text(module: Any) -> str:
    """Text of an HLO module without metadata and backend configuration, for readers."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = False
    options.print_backend_config = False
    return module.to_string(options)


def full_text(module: Any) -> str:
    """Text of an HLO module with metadata, for parsing; large constants are omitted."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = True
    options.print_large_constants = False
    options.print_operand_shape = False
    return module.to_string(options)


def module_from_text(text: str) -> Any:
    """Parses the text of an HLO module, as written by XLA between passes."""
    return _hlo.hlo_module_from_text(text)


def module_from_proto(proto: bytes) -> Any:
    """The HLO module of a serialized HloModuleProto."""
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto)


COLLECTIVES = frozenset({
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
})  # fmt: skip
"""Opcodes of instructions by which devices exchange data."""


def instructions(loaded: LoadedExecutable, opcodes: Collection[str]) -> Iterator[Instruction]:
    """The instructions of a program that have one of `opcodes`."""
    for module in loaded.hlo_modules():
        yield from instructions_of(module.to_string(), opcodes)


def exchanges_data(loaded: LoadedExecutable) -> bool:
    """Whether a program has collectives."""
    return next(instructions(loaded, COLLECTIVES), None) is not None


def permuted_equations(loaded: LoadedExecutable) -> set[int]:
    """Numbers of the equations that became permutations among devices."""
    equations = [each.equation for each in instructions(loaded, {"collective-permute"})]
    return {each for each in equations if each is not None}
