"""Modules of hand-written kernels, `jax.experimental.pallas` and those below it: pellucid's names, and others that refuse use.

Libraries import kernels where they define them, and choose them for some devices only: what calls none runs.
"""

from __future__ import annotations

import importlib
import importlib.machinery
from types import ModuleType
from typing import Any

from pellucid.as_jax.kernel_names import NAMES
from pellucid.kernels.missing import refusing

_PACKAGE = "jax.experimental"
_PACKAGES = {name.rpartition(".")[0] for name in NAMES}
_OURS = frozenset(
    [
        "pallas", "pallas.mosaic_gpu", "pallas.tpu", "pallas.triton",
        *[f"pallas.ops.gpu.{name}" for name in ("attention", "attention_mgpu", "decode_attention", "hopper_matmul_mgpu", "layer_norm", "paged_attention", "ragged_dot_mgpu", "rms_norm", "softmax")],
        *[f"pallas.ops.tpu.{name}" for name in ("all_gather", "flash_attention", "matmul", "megablox", "megablox.gmm", "megablox.ops")],
        "pallas.ops.tpu.paged_attention",
        *[f"pallas.ops.tpu.paged_attention.{name}" for name in ("paged_attention_kernel", "quantization_utils", "util")],
        *[f"pallas.ops.tpu.random.{name}" for name in ("philox", "prng_utils", "threefry")],
        "pallas.ops.tpu.ragged_paged_attention",
        "pallas.ops.tpu.ragged_paged_attention.kernel",
        "pallas.ops.tpu.splash_attention",
        *[f"pallas.ops.tpu.splash_attention.splash_attention_{name}" for name in ("kernel", "mask", "mask_info")],
    ]
)  # fmt: skip
"""Modules that pellucid implements, some in part."""


class _Loader:
    """Makes a module of kernels."""

    def create_module(self, spec: Any) -> ModuleType:
        return ModuleType(
            spec.name, "Names of kernels; those that pellucid has no meaning for refuse use."
        )

    def exec_module(self, module: ModuleType) -> None:
        below = module.__name__.removeprefix(f"{_PACKAGE}.")
        ours = _ours(below)
        for name in NAMES[below]:
            vars(module)[name] = ours[name] if name in ours else refusing(module.__name__, name)

    def get_code(self, name: str) -> None:
        """None: `python -m` finds nothing to run."""


def _ours(below: str) -> dict[str, Any]:
    """The public names of pellucid's own module at this place."""
    if below not in _OURS:
        return {}
    module = importlib.import_module(f"pellucid.experimental.{below}")
    return {name: getattr(module, name) for name in module.__all__}


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module of kernels; None for other names."""
    below = name.removeprefix(f"{_PACKAGE}.")
    if below not in NAMES or below == name:
        return None
    loader: Any = _Loader()
    return importlib.machinery.ModuleSpec(name, loader, is_package=below in _PACKAGES)
