"""Every late binding of the core: what a lower layer is given by a higher one."""

from __future__ import annotations

from pellucid.compilation.eager import EvalTrace
from pellucid.ir import jaxpr as _jaxpr, printing as _printing
from pellucid.runtime import interchange as _interchange  # noqa: F401  (methods of arrays)
from pellucid.tracing.context import Context

Context.trace = EvalTrace()
_jaxpr.printer = _printing.text
