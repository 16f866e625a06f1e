"""Custom calls that an exported program may contain, and the checks that users switch off."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any, NamedTuple

from pellucid._machine.xla.mlir import ADVANCE, ir

from .errors import ExportError


class _Check(NamedTuple):
    kind: str
    target: str | None = None


class DisabledSafetyCheck:
    """A check of exported programs that is disabled: `DisabledSafetyCheck.platform()`, or `.custom_call(name)`.

    >>> DisabledSafetyCheck.custom_call("my_kernel")
    DisabledSafetyCheck.custom_call('my_kernel')
    """

    def __init__(self, _impl: Any) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Let the program run on platforms that it was not exported for."""
        return cls(_Check("platform"))

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allow the program to call `target_name`, whose stability isn't guaranteed."""
        return cls(_Check("custom_call", target_name))

    def is_custom_call(self) -> str | None:
        """The custom call that is allowed; None for another check."""
        return self._impl.target

    def __repr__(self) -> str:
        kind, target = self._impl
        return f"DisabledSafetyCheck.{kind}({'' if target is None else repr(target)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


_LAPACK_REAL = ("orgqr", "syevd", "sytrd")
_LAPACK_COMPLEX = ("ungqr", "heevd", "hetrd")
_LAPACK = ("potrf", "geqrf", "geev", "gesdd", "getrf", "gehrd", "gees", "trsm", "gtsv")
_GPU_SOLVERS = ("getrf", "geqrf", "orgqr", "potrf", "syevd", "gesvd", "gesvdj", "sytrd")
STABLE_CUSTOM_CALLS = frozenset({
    *(f"lapack_{t}{name}_ffi" for t, name in itertools.product("sdcz", _LAPACK)),
    *(f"lapack_{t}{name}_ffi" for t, name in itertools.product("sd", _LAPACK_REAL)),
    *(f"lapack_{t}{name}_ffi" for t, name in itertools.product("cz", _LAPACK_COMPLEX)),
    *(f"{library}_{name}_ffi" for library, name in itertools.product(("cusolver", "hipsolver"), _GPU_SOLVERS)),
    "hipsolver_gesdd_ffi", "cusparse_gtsv2_ffi",
    *(f"{maker}_{name}" for maker, name in
      itertools.product(("cu", "hip"), ("lu_pivots_to_permutation", "threefry2x32_ffi"))),
    "Eigh", "Qr", "ProductOfElementaryHouseholderReflectors", "LuDecomposition", "ApproxTopK",
    "AllocateBuffer", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape",
    "annotate_device_placement", "shape_assertion", "tpu_custom_call", "mosaic_gpu_v2", "tf.call_tf_function",
    *(f"stablehlo.dynamic_{name}" for name in
      ("approx_top_k", "reduce_window", "rng_bit_generator", "top_k")),
})  # fmt: skip
"""Custom calls that libraries promise to keep stable: exported programs may contain them."""


def custom_calls(module: ir.Module) -> list[str]:
    """The native code that a module calls, each target once."""
    targets: dict[str, None] = {}

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            targets[ir.StringAttr(operation.attributes["call_target_name"]).value] = None
        return ADVANCE

    module.operation.walk(visit)
    return list(targets)


def check_custom_calls(
    name: str, module: ir.Module, disabled: Collection[DisabledSafetyCheck]
) -> None:
    """Raise ExportError where a module calls what is neither stable nor allowed by a disabled check."""
    allowed = STABLE_CUSTOM_CALLS | {check.is_custom_call() for check in disabled}
    unstable = [target for target in custom_calls(module) if target not in allowed]
    if unstable:
        raise ExportError(
            f"`{name}` can't be exported: it calls native code that may change before it runs.",
            got=[f"custom call {target!r}" for target in unstable],
            do=f"If you keep it stable yourself: `disabled_checks=[DisabledSafetyCheck.custom_call({unstable[0]!r})]`.",
        )
