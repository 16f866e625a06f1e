"""The programs of the corpus as StableHLO, so that those that are lowered to the same text can be compared to the last bit."""

import re

import numpy as np

from corpus.sizes import PROGRAMS


def _jitted(library):
    """For each program, by name: the jitted function of its leaves, and its arguments."""
    found = {}
    for program, args in PROGRAMS:
        name = program.__name__
        while name in found:
            name += "'"
        static = [i for i, x in enumerate(args) if isinstance(x, (str, bool))]
        function = lambda *xs, program=program: library.tree.leaves(program(library, *xs))
        found[name] = library.jit(function, static_argnums=static), args
    return found


def texts(library):
    """The StableHLO of each program without what only names things; of those that can't be traced, nothing."""
    found = {}
    for name, (function, args) in _jitted(library).items():
        try:
            found[name] = without_names(function.lower(*args).as_text())
        except Exception:  # programs of errors, and of values that tracing doesn't know
            continue
    return found


def without_names(text):
    """A module's text with its functions numbered, and without the names of results and of the module."""
    text = re.sub(r"module @\S+ attributes \{.*\} \{", "module {", text)
    text = re.sub(r" \{jax\.[^}]*\}", "", text)
    text = re.sub(r"-> \((tensor<\S*>)\) \{$", r"-> \1 {", text, flags=re.MULTILINE)
    numbers = {}
    number = lambda match: numbers.setdefault(match[0], f"@{len(numbers)}")
    return re.sub(r'@(?:"[^"]*"|[\w.]+)', number, text)


def results(library, names):
    """The leaves of the results of the programs called `names`, compiled as a whole."""
    functions = _jitted(library)
    return {
        name: [np.asarray(x) for x in function(*args)]
        for name, (function, args) in functions.items()
        if name in names
    }
