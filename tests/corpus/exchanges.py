"""What sharded programs exchange between devices, read off their optimized programs.

`PROGRAMS` are the corpora of sharded programs, the gradients of what they compile, and batches of some.
"""

import functools
import math
import re
from collections import Counter

from corpus import explicit_programs, manual_programs, sharded_programs
from corpus.recording import Recording

_EXCHANGE = re.compile(
    r" = (\(.*?\)|\S+) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"([a-z]+)(\d*)\[([\d,]*)\]")


def exchanges(text):
    """How many exchanges of each kind an HLO text has, and the bytes of their results."""
    kinds, total = Counter(), 0
    for match in _EXCHANGE.finditer(text):
        kinds[match.group(2)] += 1
        for _, bits, dims in _ARRAY.findall(match.group(1)):
            total += math.prod(map(int, filter(None, dims.split(",")))) * int(bits or 8) // 8
    return kinds, total


def exchanged(library, program, lowered):
    """{"kinds": count of each, "bytes": total} of what `program(library)` compiles, or {"refused": name of the error}.

    `lowered(library, jitted, args)` gives what is compiled of a function that the program jits.
    """
    kinds, total = Counter(), 0

    def note(jitted, args):
        nonlocal kinds, total
        found = exchanges(lowered(library, jitted, args).compile().as_text())
        kinds, total = kinds + found[0], total + found[1]

    try:
        program(Recording(library, note))
    except Exception as error:  # some programs are refused by both libraries
        return {"refused": type(error).__name__}
    return {"kinds": dict(kinds), "bytes": total}


def of_corpora(library, names):
    """What each of these programs exchanges, by name."""
    return {name: exchanged(library, *PROGRAMS[name]) for name in names}


def exceeding(ours, theirs):
    """Names of programs that exchange more bytes in `ours`, or that only `ours` refuses."""
    return {
        name
        for name, their in theirs.items()
        if "bytes" in their and ours[name].get("bytes", math.inf) > their["bytes"]
    }


# Forms ------------------------------------------------------------------------------------------------


def value(jax, jitted, args):
    return jitted.lower(*args)


def gradient(jax, jitted, args):
    """The derivative of the squares of all results by all arguments, of those that are floating."""
    leaves, tree = jax.tree.flatten(args)
    places = [i for i, x in enumerate(leaves) if x.dtype.kind == "f"]

    def total(floating, leaves):
        for i, x in zip(places, floating, strict=True):
            leaves = [*leaves[:i], x, *leaves[i + 1 :]]
        results = jax.tree.leaves(jitted(*tree.unflatten(leaves)))
        return sum(jax.numpy.square(y).sum() for y in results if y.dtype.kind == "f")

    return jax.jit(jax.grad(total)).lower([leaves[i] for i in places], leaves)


def batch(jax, jitted, args):
    """Three at once; each lies where the one does."""

    def batched(x):
        sharding = getattr(x, "sharding", None)
        if sharding is not None:
            spec = jax.sharding.PartitionSpec(None, *sharding.spec)
            sharding = jax.sharding.NamedSharding(sharding.mesh, spec)
        return jax.ShapeDtypeStruct((3, *x.shape), x.dtype, sharding=sharding)

    return jax.jit(jax.vmap(jitted)).lower(*jax.tree.map(batched, args))


def _programs():
    found = {}
    for function, args in sharded_programs.PROGRAMS:
        program = functools.partial(_with_arguments, function, args)
        for form in (value, gradient, batch):
            found[f"sharded: {function.__name__}, {form.__name__}"] = program, form
    for function in explicit_programs.PROGRAMS:
        for form in (value, gradient):
            found[f"explicit: {function.__name__}, {form.__name__}"] = function, form
    for name in manual_programs.PROGRAMS:
        if name not in (*manual_programs.NESTED, *manual_programs.UNKNOWN):
            for form in (manual_programs.value, manual_programs.gradient):
                program = functools.partial(form, name=name)
                found[f"manual: {name}, {form.__name__}"] = program, value
    return found


def _with_arguments(function, args, jax):
    return function(jax, *args)


PROGRAMS = _programs()
"""By name: a function of the array library, and what of it is compiled."""
