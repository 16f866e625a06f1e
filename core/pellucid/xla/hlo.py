"""Optimized programs as XLA prints them."""

from __future__ import annotations

from typing import Any

from jaxlib import _hlo, _jax

encode_inspection = _jax.encode_inspect_sharding_callback
"""The configuration by which the operation `InspectSharding` finds a function of an HLO sharding, kept alive elsewhere."""


def program_text(module: Any) -> str:
    """The text of an HLO module without metadata and backend configuration, for readers."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = False
    options.print_backend_config = False
    return module.to_string(options)


def full_text(module: Any) -> str:
    """The text of an HLO module with metadata, for parsing; large constants are left out."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = True
    options.print_large_constants = False
    options.print_operand_shape = False
    return module.to_string(options)
