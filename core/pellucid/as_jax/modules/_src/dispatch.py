"""Effects that are under way, as `jax._src.dispatch`."""

from pellucid.runtime.tokens import effects_barrier as wait_for_tokens

__all__ = ["wait_for_tokens"]
