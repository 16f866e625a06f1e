"""Numbers beside operands of a given dtype, as rules and functions write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir.avals import shaped_array
from pellucid.tracing.context import bottom


def scalar(value: Any, dtype: Any) -> Any:
    """The number `value` with the dtype of an operand: a NumPy scalar, which programs show as a literal.

    With 64 bits off, NumPy's numbers count as 32 bits wide. Beside an operand of 64 bits, it is an array.

    >>> scalar(2, np.float32)
    np.float32(2.0)
    """
    host = np.asarray(value, dtype)[()]
    if dtypes.canonicalize(host.dtype) == host.dtype:
        return host
    return bottom().number(host, shaped_array((), host.dtype))
