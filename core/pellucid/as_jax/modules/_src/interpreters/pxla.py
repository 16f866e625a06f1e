"""Programs over devices as `jax._src.interpreters.pxla`."""

from pellucid.interpreters.pxla import global_result_handlers

__all__ = ["global_result_handlers"]
