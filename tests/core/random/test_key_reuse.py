"""`debug_key_reuse` raises where the reference does, eagerly and under jit, but for what this page states."""

from __future__ import annotations

import pytest
from corpus import key_reuse as corpus
from message_checks import check_message
from rotation import rotating

import pellucid as pl
from pellucid import lax, random
from pellucid._machine.base.errors import KeyReuseError

USED_TWICE = {
    "[normal(k) for k in [*keys, *keys]]",
    "([normal(k) for k in keys], jax.vmap(normal)(keys))",
    "(normal(keys[x[0]]), normal(keys[0]))",
    "(jax.vmap(normal)(keys[x]), jax.vmap(normal)(keys[x]))",
    "(normal(keys.reshape(2, 2)[0, 0]), normal(keys[0]))",
    "(jax.vmap(normal)(keys[None][0]), jax.vmap(normal)(keys))",
    "(normal(jnp.expand_dims(key, 0)[0]), normal(key))",
    "jax.vmap(normal)(jnp.concatenate([keys, keys]))",
    "(jax.vmap(normal)(jnp.roll(keys, 1)), normal(keys[0]))",
    "(jax.vmap(normal)(keys.at[0].set(key)), normal(key))",
    "(normal(jax.jit(lambda k: k)(key)), normal(key))",
    "jax.jit(lambda a, b: (normal(a), normal(b)))(key, key)",
    "lax.scan(lambda k, y: (lambda a, b: (a, normal(a)))(*random.split(k)), key, x)",
    "(jax.vmap(normal)(lax.dynamic_update_slice(keys, key[None], (0,))), normal(key))",
}
"""Programs that use a key twice, which the reference misses: eagerly, but for the scan, whose carry it doesn't follow."""

USED_ONCE = {
    "(normal(lax.dynamic_index_in_dim(keys, 0, keepdims=False)), normal(lax.dynamic_index_in_dim(keys, 1, keepdims=False)))",
    "(jnp.stack([key, keys[0]]), normal(key))",
    "(normal(key), jnp.stack([key, keys[0]]))",
    "(jnp.concatenate([keys[:1], keys[1:]]), normal(keys[0]))",
    "(normal(jnp.where(x[0] > 0, key, keys[0])), normal(keys[1]))",
    "normal(lax.select(x[0] > 0, key, key))",
    "(keys.at[0].set(key), normal(key))",
    "(jax.vmap(normal)(keys.at[0].set(key)), normal(keys[0]))",
    "(normal(keys[0]), jax.vmap(normal)(keys.at[0].set(key)))",
    "(normal(key), keys.at[0].set(key))",
    "normal(lax.cond(x[0] > 0, lambda a, b: a, lambda a, b: b, key, keys[0]))",
    "lax.scan(lambda c, y: (c, normal(key)), 0, x[:1])",
    "jax.grad(jax.checkpoint(lambda y: jnp.sin(y * normal(key))))(2.0)",
    "(normal(lax.dynamic_slice(keys, (1,), (1,))[0]), normal(keys[0]))",
}
"""Programs that use each key once, where the reference counts moving a key as a use, or a run of a loop as several."""

USED_ONCE_EAGERLY = {
    "(normal(keys[0]), normal(keys[x[1]]))",
    "(normal(jnp.where(x[0] > 0, key, keys[0])), normal(key))",
    "(normal(key), normal(jnp.where(x[0] > 0, key, keys[0])))",
}
"""Programs of which only values say whether they use a key twice: eagerly values are known."""


@pytest.mark.parametrize(("text", "traced"), rotating(corpus.ROWS, lambda row: row[1]))
def test_raises_where_the_reference_does(oracle, text, traced) -> None:
    [expected] = oracle.call_each(corpus.answers, [(text, traced)])
    if text in USED_TWICE:
        expected = "KeyReuseError"
    elif text in USED_ONCE or (text in USED_ONCE_EAGERLY and not traced):
        expected = "ok"
    assert corpus.answers(pl, [(text, traced)]) == [expected]


def test_messages_name_both_uses() -> None:
    with pl.debug_key_reuse(True):
        key, keys = random.split(random.key(0)), random.split(random.key(1), 3)
        random.normal(key[0])
        check_message(
            lambda: random.bits(key[0]), KeyReuseError, "`random_bits` uses", "first used by `normal`", "random.clone"
        )  # fmt: skip
        check_message(
            lambda: lax.concatenate([keys, keys[::-1]], 0), KeyReuseError, "joins", "operands 0 and 1"
        )  # fmt: skip
        check_message(
            lambda: lax.map(lambda k: random.bits(k) + random.bits(k), keys),
            KeyReuseError,
            "random_bits",
        )


def test_a_program_compiled_before_is_checked() -> None:
    key = random.key(0)
    drawn = pl.jit(lambda: random.bits(key))
    drawn(), drawn()
    with pl.debug_key_reuse(True):
        drawn()
        check_message(drawn, KeyReuseError, "second time")
    drawn()
