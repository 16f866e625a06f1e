"""Programs with references, printing and callbacks; each takes the array library as its first argument."""

import contextlib
import io

import numpy as np

X = np.arange(4, dtype=np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4)


# References: results -------------------------------------------------------------------------------------


def in_and_out(jax, x):
    ref = jax.new_ref(x)
    ref[0] = 1.0
    ref[1:3] += jax.numpy.ones(2)
    jax.ref.addupdate(ref, 3, 2.0)
    old = jax.ref.swap(ref, 1, 9.0)
    return ref[...], ref[2], old


def from_outside(jax, x):
    ref = jax.new_ref(x)

    @jax.jit
    def step(y):
        ref[0] += y
        return ref[...].sum()

    return step(1.0), step(2.0), ref[...]


def as_argument(jax, x):
    ref = jax.new_ref(x)

    @jax.jit
    def step(state, y):
        state["a"][1] = y
        return state["a"][0] + state["b"]

    return step({"a": ref, "b": 3.0}, 5.0), jax.ref.freeze(ref)


def scanned(jax, x):
    total = jax.new_ref(np.float32(0))
    seen = jax.new_ref(np.zeros(4, np.float32))

    def step(i, v):
        total[...] += v
        seen[i] = total[...]
        return i + 1, v * total[...]

    return jax.lax.scan(step, 0, x), total[...], seen[...]


def scanned_twice(jax, x):
    ref = jax.new_ref(np.float32(1))

    def inner(c, v):
        ref[...] *= v
        return c + ref[...], None

    def outer(c, v):
        c, _ = jax.lax.scan(inner, c, v + x)
        return c, ref[...]

    return jax.lax.scan(outer, 0.0, x[:2]), ref[...]


def counted(jax, x):
    ref = jax.new_ref(x)

    def body(i, c):
        ref[i] = ref[i] * 2 + c
        return c + 1

    return jax.lax.fori_loop(0, 3, body, 1.0), ref[...]


def while_looped(jax, n):
    ref = jax.new_ref(np.int32(0))

    def body(i):
        ref[...] += 2
        return i + 1

    return jax.jit(lambda n: (jax.lax.while_loop(lambda i: i < n, body, 0), ref[...]))(n)


def branched(jax, x):
    ref, other = jax.new_ref(x), jax.new_ref(x)

    def left(v):
        ref[0] = v
        return v

    def right(v):
        other[1] = v
        return -v

    choose = jax.jit(lambda p, v: jax.lax.cond(p, left, right, v))
    return choose(True, 5.0), choose(False, 7.0), ref[...], other[...]


def nested_calls(jax, x):
    ref = jax.new_ref(x)

    @jax.jit
    def inner(r, v):
        r[0] += v

    @jax.jit
    def outer(v):
        inner(ref, v)
        inner(ref, v)
        return ref[0]

    return outer(1.0), ref[...]


def internal(jax, x):
    ref = jax.new_ref(jax.numpy.zeros(3))
    ref[0] = x
    ref[1] = x * x
    ref[2] += ref[1] * ref[0]
    return ref[...]


def gradient(jax, x):
    f = lambda v: (internal(jax, v) ** 2).sum()
    return jax.grad(f)(x), jax.jit(jax.grad(f))(x), jax.jvp(f, (x,), (2.0,))


def looped_gradient(jax, x):
    def f(v):
        ref = jax.new_ref(1.0)

        def step(c, u):
            ref[...] = ref[...] * u + v
            return c + ref[...], ref[...]

        c, ys = jax.lax.scan(step, 0.0, v * x)
        return c + ys.sum() + ref[...]

    return f(0.5), jax.grad(f)(0.5), jax.jit(jax.grad(f))(0.5), jax.jvp(f, (0.5,), (1.0,))


def indexed_loop_gradient(jax, x):
    def f(v):
        ref = jax.new_ref(v)

        def body(i, c):
            ref[i + 1] += ref[i] * c
            return c * 2

        jax.lax.fori_loop(0, 3, body, 1.5)
        return (ref[...] ** 2).sum()

    return f(x), jax.grad(f)(x)


def branched_gradient(jax, x):
    def f(v):
        ref = jax.new_ref(v)

        def square(u):
            ref[...] = u * u
            return u

        def nothing(u):
            return 3 * u

        y = jax.lax.cond(v > 0, square, nothing, v)
        return y * ref[...]

    return [(f(v), jax.grad(f)(v), jax.jit(jax.grad(f))(v)) for v in (2.0, -2.0)]


def gradient_of_a_jitted_part(jax, x):
    def f(v):
        ref = jax.new_ref(v)

        @jax.jit
        def part(r, u):
            r[...] = r[...] * u
            return u + 1

        y = part(ref, v)
        return ref[...] * y

    return f(3.0), jax.grad(f)(3.0)


def stopped(jax, x):
    log = jax.new_ref(np.float32(0))

    def f(v):
        log[...] = jax.lax.stop_gradient(v) * 5
        return v * v

    return jax.grad(f)(3.0), log[...]


def batched(jax, x):
    return jax.vmap(lambda v: internal(jax, v))(x)


def batched_reference(jax, m):
    ref = jax.new_ref(m)

    def write(r, v, i):
        r[i] = v
        return r[1]

    return jax.vmap(write)(ref, X[:3], np.array([0, 1, 3])), ref[...]


def batched_along_1(jax, m):
    ref = jax.new_ref(m)

    def write(r, v):
        r[1] += v
        return r[...]

    return jax.vmap(write, in_axes=(1, 0), out_axes=1)(ref, X), ref[...]


def batched_index_arrays(jax, m):
    ref = jax.new_ref(m)
    indices = np.array([[0, 1], [3, 2], [1, 1]])

    def read(r, i):
        r.addupdate(np.ones(2, np.float32), i)
        return r[i]

    return jax.vmap(read)(ref, indices), ref[...]


def read_in_batch(jax, m):
    ref = jax.new_ref(m)
    read = lambda i, j: (ref[i], ref[:, j], ref[i, j], ref[1:, j])
    return jax.vmap(read)(np.array([0, 2]), np.array([1, 3]))


def batched_loop(jax, x):
    def f(v):
        ref = jax.new_ref(0.0)

        def body(i, c):
            ref[...] += i * v
            return c

        jax.lax.fori_loop(0, 4, body, 0)
        return ref[...]

    return jax.vmap(f)(x), jax.vmap(jax.grad(f))(x)


def index_arrays(jax, m):
    ref = jax.new_ref(m)
    i, j = np.array([0, 2]), np.array([1, 3])
    ref[i, j] = np.float32([50, 60])
    ref[i] += np.float32(1)
    ref.addupdate(np.ones((2, 4), np.float32), np.array([1, 1]))
    ref[::2, 1::2] = np.zeros((2, 2), np.float32)
    ref[1:, i] = np.full((2, 2), 7, np.float32)
    return ref[i, j], ref[:, j], ref[i], ref[0, ..., j], ref[::2, ::3], ref[...]


def moving_windows(jax, m):
    def f(m, i, j):
        m = jax.numpy.asarray(m)
        ref = jax.new_ref(m)
        parts = (
            ref[jax.ds(i, 2)],
            ref[i, jax.ds(j, 3)],
            ref[jax.ds(1, 2, 1), jax.ds(j, 2)],
            ref[jax.ds(i, 2), np.array([0, 1, 1])],
        )
        ref[jax.ds(0, 2), 1] = np.full(2, 50, np.float32)
        ref.addupdate(np.ones((2, 4), np.float32), jax.ds(i, 2))
        ref[jax.ds(i, 2), np.array([0, 3])] = np.full((2, 2), 9, np.float32)
        return *parts, ref[...], m[jax.ds(i, 2)], m[0, jax.ds(j, 2)], m[jax.ds(2)]

    return f(m, 1, 0), jax.jit(f)(m, 1, 1), jax.jit(lambda i: jax.new_ref(m)[jax.ds(i, 2)])(9)


def made_in_a_loop(jax, x):
    def step(c, v):
        ref = jax.new_ref(v)
        ref[...] += c
        return ref[...], jax.ref.freeze(ref)

    return jax.lax.scan(step, 0.0, x)


def remat(jax, x):
    f = jax.checkpoint(lambda v: internal(jax, jax.numpy.sin(v)).sum())
    return f(2.0), jax.jit(f)(2.0)


def _stashing(jax):
    """A function that gives `x`, and writes its cotangent to a reference in the backward pass."""

    @jax.custom_vjp
    def stash(ref, i, x):
        return x

    def backward(residuals, ct):
        ref, i = residuals
        ref[i] = ct
        return None, None, ct

    stash.defvjp(lambda ref, i, x: (x, (ref, i)), backward)
    return stash


def _stashed(jax):
    stash = _stashing(jax)
    return lambda x, ref: stash(ref, 1, jax.numpy.sin(x)) * 3


def stashed_cotangent(jax, x):
    f = _stashed(jax)
    found = []
    for grad in (
        jax.grad(f),
        jax.jit(jax.grad(f)),
        jax.grad(jax.jit(f)),
        jax.grad(jax.checkpoint(f)),
    ):
        ref = jax.new_ref(x)
        found.append((f(0.5, ref), grad(0.5, ref), ref[...]))
    return found


def stashed_in_a_scan(jax, x):
    stash = _stashing(jax)

    def f(v, ref):
        step = lambda c, i: (jax.numpy.sin(stash(ref, i, c)), None)
        return jax.lax.scan(step, v, np.arange(4))[0]

    first, second = jax.new_ref(x), jax.new_ref(x)
    return jax.grad(f)(1.0, first), first[...], jax.jit(jax.grad(f))(1.0, second), second[...]


def stashed_in_a_batch(jax, m):
    ref = jax.new_ref(m)
    return jax.vmap(jax.grad(_stashed(jax)))(X[:3], ref), ref[...]


VALUES = {
    name: (program, args)
    for name, program, *args in [
        ("in_and_out", in_and_out, X), ("from_outside", from_outside, X), ("as_argument", as_argument, X),
        ("scanned", scanned, X), ("scanned_twice", scanned_twice, X), ("counted", counted, X),
        ("while_looped", while_looped, 5), ("branched", branched, X), ("nested_calls", nested_calls, X),
        ("gradient", gradient, np.float32(3)), ("looped_gradient", looped_gradient, X),
        ("indexed_loop_gradient", indexed_loop_gradient, X), ("branched_gradient", branched_gradient, X),
        ("gradient_of_a_jitted_part", gradient_of_a_jitted_part, X), ("stopped", stopped, X),
        ("batched", batched, X), ("batched_reference", batched_reference, M), ("batched_along_1", batched_along_1, M),
        ("batched_index_arrays", batched_index_arrays, M), ("read_in_batch", read_in_batch, M),
        ("batched_loop", batched_loop, X), ("index_arrays", index_arrays, M), ("moving_windows", moving_windows, M), ("made_in_a_loop", made_in_a_loop, X),
        ("remat", remat, X), ("stashed_cotangent", stashed_cotangent, X), ("stashed_in_a_scan", stashed_in_a_scan, X),
        ("stashed_in_a_batch", stashed_in_a_batch, M),
    ]
}  # fmt: skip


# The text of programs -------------------------------------------------------------------------------------


def text_of_accesses(jax, x, m, i):
    ref, other = jax.new_ref(x), jax.new_ref(m, kind="named")
    old = jax.ref.swap(ref, 0, 1.0)
    ref[1:3] = jax.numpy.zeros(2)
    parts = (
        other[0],
        other[:, 1],
        other[:2, i],
        other[i],
        other[-1],
        other[1:3],
        other[jax.ds(i, 2), 1],
    )
    other[...] = m
    ref.addupdate(x)
    ref.addupdate(1.0, i)
    return old, parts, jax.ref.freeze(ref)


def text_of_a_scan(jax, x):
    ref = jax.new_ref(0.0)

    def step(c, v):
        ref.addupdate(v)
        return c, ref[...]

    return jax.lax.scan(step, None, x)[1], ref[...]


def text_of_an_empty_reference(jax):
    return jax.empty_ref(jax.ShapeDtypeStruct((2,), np.float32))[...]


def text_of_prints(jax, x):
    jax.debug.print("{} {y}", x, y=1, ordered=True)
    return jax.vmap(lambda v: jax.debug.print("{}", v))(x)


TEXTS = {
    "accesses": (text_of_accesses, X, M, 0),
    "scan": (text_of_a_scan, X),
    "empty reference": (text_of_an_empty_reference,),
    "prints": (text_of_prints, X[:2]),
}


def text_of(jax, name):
    """The text of the program called `name`."""
    program, *args = TEXTS[name]
    return str(jax.make_jaxpr(lambda *given: program(jax, *given))(*args))


# What is printed --------------------------------------------------------------------------------------------


def _show(jax, x):
    jax.debug.print("x = {}, {y:.1f}", x, y=2 * x.sum())


def print_at_once(jax):
    _show(jax, jax.numpy.arange(3.0))


def print_compiled(jax):
    jax.jit(lambda x: _show(jax, x))(X)


def print_in_order(jax):
    @jax.jit
    def f(x):
        for i in range(5):
            jax.debug.print("{i} {x}", i=i, x=x, ordered=True)

    f(1)
    jax.debug.print("between", ordered=True)
    f(2)


def print_in_a_scan(jax):
    def step(c, v):
        jax.debug.print("{} {}", c, v, ordered=True)
        return c + v, None

    jax.jit(lambda x: jax.lax.scan(step, 0.0, x))(X)
    jax.lax.scan(step, 0.0, X, reverse=True, unroll=2)


def print_in_a_while(jax):
    def condition(c):
        jax.debug.print("test {}", c, ordered=True)
        return c < 3

    def body(c):
        jax.debug.print("turn {}", c, ordered=True)
        return c + 1

    jax.jit(lambda n: jax.lax.while_loop(condition, body, n))(0)


def print_in_a_cond(jax):
    def branch(name):
        def run(x):
            jax.debug.print(name + " {}", x, ordered=True)
            return x

        return run

    f = jax.jit(lambda p, x: jax.lax.cond(p, branch("yes"), branch("no"), x))
    f(True, 1)
    f(False, 2)


def print_nested(jax):
    def inner(c, v):
        jax.debug.print("inner {} {}", c, v, ordered=True)
        return c + v, None

    def outer(i, c):
        jax.debug.print("outer {}", i, ordered=True)
        c, _ = jax.lax.scan(inner, c, X[:2])
        return jax.lax.cond(
            c > 1, lambda u: (jax.debug.print("big {}", u, ordered=True), u)[1], lambda u: u, c
        )

    jax.jit(lambda: jax.lax.fori_loop(0, 3, outer, 0.0))()


def print_batched(jax):
    jax.vmap(lambda x: _show(jax, x))(M)
    jax.jit(jax.vmap(lambda x: jax.debug.print("{}", x, ordered=True)))(X)


def print_in_a_batched_while(jax):
    def body(c):
        jax.debug.print("turn {}", c)
        return c + 1

    jax.vmap(lambda n: jax.lax.while_loop(lambda c: c < 2, body, n))(np.array([0, 1]))


def print_differentiated(jax):
    def f(x):
        jax.debug.print("forward {}", x)
        return jax.numpy.sin(x)

    jax.grad(f)(1.0)
    jax.jit(jax.grad(f))(2.0)
    jax.grad(jax.checkpoint(f))(3.0)
    jax.jvp(f, (4.0,), (1.0,))


def print_in_custom_rules(jax):
    @jax.custom_vjp
    def f(x):
        jax.debug.print("f {}", x)
        return x

    def forward(x):
        jax.debug.print("forward {}", x)
        return f(x), None

    def backward(_, ct):
        jax.debug.print("backward {}", ct)
        return (ct,)

    f.defvjp(forward, backward)
    jax.jit(f)(1.0)
    jax.jit(jax.grad(lambda x: 3 * f(x)))(1.0)


def print_trees(jax):
    f = jax.jit(lambda d: jax.debug.print("{d} {s} {n!r}", d=d, s="text", n=None))
    f({"a": X, "b": (1, 2.5)})
    with np.printoptions(precision=2):
        jax.debug.print("{}", np.float32([1 / 3]))
    jax.debug.print("{{}}")


PRINTED = {name: f for name, f in list(globals().items()) if name.startswith("print_")}


def printed(jax, name):
    """What the program called `name` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        PRINTED[name](jax)
        jax.effects_barrier()
    return out.getvalue()
