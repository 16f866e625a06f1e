"""Which Python loop a program has once for each of its iterations."""

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.introspect.unrolled import unrolled_loop


def layer(x):
    return jnp.sin(x) * 2.0


def loop_of(function):
    loop = unrolled_loop(pl.make_jaxpr(function)(1.0).jaxpr.equations)
    first = function.__code__.co_firstlineno
    return None if loop is None else (loop.line - first, loop.iterations)


def test_the_loop_is_the_one_whose_body_is_traced_again_and_again():
    def nested(x):
        for _ in range(3):
            for _ in range(10):
                x = layer(x)
        return x

    def within_a_comprehension(x):
        return sum([layer(x + i) for i in range(20)])

    def by_while(x):
        n = 0
        while n < 50:
            x = x + 1.0
            n += 1
        return x

    assert loop_of(nested) == (2, 30)
    assert loop_of(within_a_comprehension) == (1, 20)
    assert loop_of(by_while) == (2, 50)


def test_few_iterations_and_repeated_calls_without_a_loop_are_none():
    def few(x):
        for _ in range(15):
            x = x * 2.0
        return x

    def repeated(x):
        return pl.tree.map(lambda each: each * 2.0, [x] * 30)

    def defined_in_a_loop():
        for _ in range(1):

            def inner(x):
                return pl.tree.map(lambda each: each * 2.0, [x] * 30)

        return inner

    for _ in range(2):  # traces twice, and is no part of the program
        assert loop_of(repeated) is None
    assert loop_of(few) is None
    assert loop_of(repeated) is None
    assert loop_of(defined_in_a_loop()) is None
