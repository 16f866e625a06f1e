"""A program is exported for batches of any size: the symbolic batch axis goes through every rule and every lowering."""

import re

import numpy as np
import pytest

import pellucid as pl
from pellucid import export
from pellucid._machine.base import config
from pellucid._machine.base.errors import CompilationError
from tests.laws.compare import TOLERANCES, assert_close
from tests.laws.sample import Sample, batched_samples

SIZE = 3
REFUSED = {
    "a batch of convolutions by different kernels has as many groups": (
        r"lax\.conv.*", CompilationError, "`feature_group_count` must be known|`batch_group_count` must be known|be decided"),
    "native code that libraries may change": (r"lax\.linalg\.(ormqr|tridiagonal_solve|qr\(.*pivoting=True|svd\(.*\.QR).*", export.ExportError, "native code"),
    "shapes of elements of another width can't be refined": (
        r"lax\.bitcast_convert_type.*", CompilationError, "change their width"),
}  # fmt: skip
"""By reason: the calls that may be refused, and the error."""
ROWS = {s.call: s for s in reversed(batched_samples()) if any(not o.python for o in s.operands)}
SAMPLES = [pytest.param(s, marks=pytest.mark.rotates(str(s)), id=str(s)) for s in ROWS.values()]
"""Of the rows that differ only in the types of operands, the first."""


def refusal(sample: Sample) -> tuple[type[Exception] | tuple[()], str]:
    """The error that the row may raise, and its message; no error for most rows."""
    for call, error, message in REFUSED.values():
        if re.fullmatch(call, sample.call):
            return error, message
    return (), ""


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_batch_of_any_size(sample: Sample) -> None:
    with config.enable_x64(sample.needs_x64):
        axes = [None if o.python else 0 for o in sample.operands]
        batched = pl.jit(pl.vmap(sample.function, in_axes=axes))
        operands = [
            x if axis is None else np.stack([np.asarray(x)] * SIZE)
            for x, axis in zip(sample.arguments, axes, strict=True)
        ]
        specs = export.symbolic_args_specs(
            operands, [None if a is None else "b, ..." for a in axes]
        )
        try:
            exported = export.export(batched)(*specs)
            results = exported.call(*operands)
        except (CompilationError, export.ExportError) as error:
            expected, message = refusal(sample)
            if isinstance(error, expected) and re.search(message, str(error)):
                return
            raise
        for x, y in zip(results, batched(*operands), strict=True):
            assert x.dtype == y.dtype
            if pl.dtypes.issubdtype(x.dtype, pl.dtypes.prng_key):
                x, y = pl.random.key_data(x), pl.random.key_data(y)
            # Formulas for what StableHLO lacks are in the file, those of a compiler in the other program.
            assert_close(x, y, 10 * TOLERANCES.get(x.dtype.name, 0.01))
