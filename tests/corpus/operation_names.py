"""Programs of all transformations and bodies, and the names that their operations have in StableHLO."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

X = np.ones((4, 4), np.float32)


def names(jax: Any, programs: list[str]) -> list[list[str]]:
    """The names of the operations of each program, constants left out, with those of calls in front, sorted."""
    answers = []
    for program in programs:
        lowered = jax.jit(PROGRAMS[program](jax, jax.lax, jax.numpy)).lower(X)
        functions = _functions(lowered.as_text(debug_info=True))
        answers.append(sorted(set(_composed(functions, "main", ""))))
    return answers


def _functions(text: str) -> dict[str, list[tuple[str, str]]]:
    """For each function, (name, function called or "") of its operations."""
    locations = dict(re.findall(r'^(#loc\d*) = loc\("([^"]*)"', text, re.MULTILINE))
    functions: dict[str, list[tuple[str, str]]] = {}
    operations: list[tuple[str, str]] = []
    for line in text.split("\n"):
        head = re.search(r"func\.func .*@([\w.]+)\(", line)
        if head is not None:
            operations = functions.setdefault(head[1], [])
        match = re.search(
            r"= (?:stablehlo\.(?!constant)|(?:func\.)?call @).* loc\((#loc\d*)\)$", line
        )
        if match is not None:
            callee = re.search(r"call @([\w.]+)\(", line)
            operations.append((locations.get(match[1], ""), callee[1] if callee else ""))
    return functions


def _composed(functions: Any, function: str, prefix: str) -> list[str]:
    paths = []
    for name, callee in functions[function]:
        path = prefix + name
        paths += _composed(functions, callee, f"{path}/") if callee else [path]
    return paths


# The programs: each is made of (jax, jax.lax, jax.numpy) ------------------------------------------------


def _inner(jax: Any, jnp: Any) -> Callable[[Any], Any]:
    @jax.jit
    def inner(x: Any) -> Any:
        with jax.named_scope("block"):
            return jnp.sin(x) * 2.0

    return inner


def _scoped(jax: Any, jnp: Any) -> Callable[[Any], Any]:
    def scoped(x: Any) -> Any:
        with jax.named_scope("outer"):
            y = jnp.sin(x)
            with jax.named_scope("deep"):
                return (y * x).sum()

    return scoped


def grad_of_scopes(jax: Any, lax: Any, jnp: Any) -> Any:
    return jax.grad(_scoped(jax, jnp))


def grad_of_jit(jax: Any, lax: Any, jnp: Any) -> Any:
    inner = _inner(jax, jnp)
    return jax.grad(lambda x: inner(x).sum())


def vmap_of_grad(jax: Any, lax: Any, jnp: Any) -> Any:
    inner = _inner(jax, jnp)
    return jax.vmap(jax.grad(lambda x: inner(x).sum()))


def grad_of_vmap(jax: Any, lax: Any, jnp: Any) -> Any:
    inner = _inner(jax, jnp)
    return jax.grad(lambda x: jax.vmap(inner)(x).sum())


def grad_of_grad(jax: Any, lax: Any, jnp: Any) -> Any:
    slope = jax.grad(lambda x: lax.sin(lax.sin(x)))
    return lambda x: jax.grad(slope)(x[0, 0])


def grad_within_a_scope(jax: Any, lax: Any, jnp: Any) -> Any:
    inner = _inner(jax, jnp)

    def around(x: Any) -> Any:
        with jax.named_scope("around"):
            return jax.grad(lambda x: inner(x).sum())(x), jax.vmap(inner)(x)

    return around


def nested_jit(jax: Any, lax: Any, jnp: Any) -> Any:
    inner = _inner(jax, jnp)

    @jax.jit
    def outer(x: Any) -> Any:
        return inner(x) * 2

    return jax.grad(lambda x: outer(outer(x)).sum())


def inlined_jit(jax: Any, lax: Any, jnp: Any) -> Any:
    inlined = jax.jit(lambda x: jnp.sin(x), inline=True)

    def caller(x: Any) -> Any:
        with jax.named_scope("around"):
            return inlined(x)

    return caller


def linearize(jax: Any, lax: Any, jnp: Any) -> Any:
    inner = _inner(jax, jnp)
    return lambda x: jax.linearize(lambda x: inner(x).sum(), x)[1](x)


def linear_transpose(jax: Any, lax: Any, jnp: Any) -> Any:
    return lambda x: jax.linear_transpose(lambda y: lax.mul(y, x), x)(x)


def jvp(jax: Any, lax: Any, jnp: Any) -> Any:
    return lambda x: jax.jvp(_scoped(jax, jnp), (x,), (x,))


def jacfwd(jax: Any, lax: Any, jnp: Any) -> Any:
    return lambda x: jax.jacfwd(lambda v: lax.sin(v))(x[0])


def jacrev(jax: Any, lax: Any, jnp: Any) -> Any:
    return lambda x: jax.jacrev(lambda v: lax.sin(v))(x[0])


def _loop(jax: Any, lax: Any, jnp: Any) -> Any:
    def body(carry: Any, y: Any) -> Any:
        with jax.named_scope("step"):
            return carry * jnp.sin(y), carry + y

    return lambda x: lax.scan(body, x[0].sum(), x[:, 0])[0]


def scan(jax: Any, lax: Any, jnp: Any) -> Any:
    return _loop(jax, lax, jnp)


def grad_of_scan(jax: Any, lax: Any, jnp: Any) -> Any:
    return jax.grad(_loop(jax, lax, jnp))


def grad_of_fori_loop(jax: Any, lax: Any, jnp: Any) -> Any:
    return jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(x), x).sum())


def while_loop(jax: Any, lax: Any, jnp: Any) -> Any:
    def loop(x: Any) -> Any:
        with jax.named_scope("around"):
            return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[
                1
            ]

    return lambda x: (loop(x), jax.vmap(loop)(x), jax.jvp(loop, (x,), (x,)))


def grad_of_cond(jax: Any, lax: Any, jnp: Any) -> Any:
    def no(x: Any) -> Any:
        with jax.named_scope("no"):
            return jnp.cos(x)

    return jax.grad(lambda x: lax.cond(x[0, 0] > 0, jnp.sin, no, x).sum())


def switch(jax: Any, lax: Any, jnp: Any) -> Any:
    return lambda x: lax.switch(jnp.int32(x[0, 0]), [jnp.sin, jnp.cos, jnp.tan], x)


def grad_of_remat(jax: Any, lax: Any, jnp: Any) -> Any:
    return jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())(x))


def grad_of_rematerialized_scan(jax: Any, lax: Any, jnp: Any) -> Any:
    body = jax.checkpoint(lambda carry, y: (jnp.sin(carry * y), None))
    return jax.grad(lambda x: lax.scan(body, x[0].sum(), x[:, 0])[0])


def custom_vjp(jax: Any, lax: Any, jnp: Any) -> Any:
    sine = jax.custom_vjp(lambda x: jnp.sin(x))
    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
    return lambda x: (sine(x), jax.grad(lambda x: sine(x).sum())(x))


def custom_jvp(jax: Any, lax: Any, jnp: Any) -> Any:
    sine = jax.custom_jvp(lambda x: jnp.sin(x))
    sine.defjvp(lambda primals, tangents: (jnp.sin(*primals), tangents[0] * jnp.cos(*primals)))
    return lambda x: (sine(x), jax.grad(lambda x: sine(x).sum())(x))


def composite(jax: Any, lax: Any, jnp: Any) -> Any:
    return lax.composite(lambda x: jnp.sin(x) * 2.0, name="my.op")


PROGRAMS = {
    program.__name__: program
    for program in (
        grad_of_scopes, grad_of_jit, vmap_of_grad, grad_of_vmap, grad_of_grad, grad_within_a_scope, nested_jit,
        inlined_jit, linearize, linear_transpose, jvp, jacfwd, jacrev, scan, grad_of_scan, grad_of_fori_loop,
        while_loop, grad_of_cond, switch, grad_of_remat, grad_of_rematerialized_scan, custom_vjp, custom_jvp,
        composite,
    )
}  # fmt: skip
