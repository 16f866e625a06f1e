"""Checks that no random key is used twice: `pl.debug_key_reuse`, or the option `jax_debug_key_reuse`.

The module holds no name; it exists as `jax.experimental.key_reuse` does.
"""
