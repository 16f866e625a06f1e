"""Sources of equations as `jax.extend.source_info_util`: exclusions are listed there where those of tracebacks are."""

from pellucid.as_jax.modules._src.traceback_util import register_exclusion

__all__ = ["register_exclusion"]
