"""Ways to change what a function reads between two uses, and what array libraries make of them.

`READERS` are functions and a change of what they read; `USES` are what is done with a function; `PROGRAMS` are all else.
"""

import builtins
import contextlib
import contextvars
import dataclasses
import enum
import functools
import importlib
import itertools
import operator
import os
import pathlib
import random
import sys
import tempfile
import threading
import types
import typing
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

TRACES = []


def t(value):
    """`value`; notes that Python has run."""
    TRACES.append(1)
    return value


def plain(value):
    """A result as data that can be compared."""
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if value is None or isinstance(value, (str, bool, int, float)):
        return repr(value)
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag])
    return f"{value.dtype} {array.astype(np.float64).round(4).tolist()}"


def counted(use):
    """The result of `use`, or the name of its error's built-in class, and how often Python ran a function of ours."""
    before = len(TRACES)
    result = plain(use())
    return result, len(TRACES) - before


def read(library, reader, use):
    """What `use` makes of a function of `reader`: before the change; after it by the same callable, from the same
    function, from the function defined again."""
    with contextlib.ExitStack() as stack:
        made = READERS[reader](library, stack)
        define, change = made
        x = library.numpy.arange(1.0, 4.0, dtype="float32")
        make = USES[use]
        f = define()
        first = make(library, f)
        steps = [counted(lambda: first(x))]
        change()
        steps.append(counted(lambda: first(x)))
        steps.append(counted(lambda: make(library, f)(x)))
        steps.append(counted(lambda: make(library, define())(x)))
        return steps


def reads(library, questions):
    """`read` of several."""
    return [read(library, *question) for question in questions]


# What a function reads ----------------------------------------------------------------------------

READERS: dict[str, Any] = {}


def reader(make):
    READERS[make.__name__] = make
    return make


FACTOR = 2.0
NESTED = {"a": [2.0]}


@reader
def closure(jax, stack):
    k = 2.0

    def change():
        nonlocal k
        k = 3.0

    return lambda: lambda x: x * t(k), change


@reader
def closure_of_closure(jax, stack):
    k = 2.0

    def inner():
        return k

    def change():
        nonlocal k
        k = 3.0

    return lambda: lambda x: x * t(inner()), change


@reader
def cell_contents(jax, stack):
    def define():
        k = 2.0
        return lambda x: x * t(k)

    functions = [define()]

    def again():
        f = define()
        f.__closure__[0].cell_contents = functions[0].__closure__[0].cell_contents
        functions.append(f)
        return functions[-1]

    def change():
        for f in functions:
            f.__closure__[0].cell_contents = 3.0

    return again, change


@reader
def global_number(jax, stack):
    global FACTOR
    FACTOR = 2.0

    def change():
        global FACTOR
        FACTOR = 3.0

    return lambda: lambda x: x * t(FACTOR), change


@reader
def global_deleted(jax, stack):
    module = globals()
    module["round"] = lambda x: 2.0
    stack.callback(module.pop, "round", None)
    return lambda: lambda x: x * t(round(3.0)), lambda: module.pop("round")


@reader
def builtin_replaced(jax, stack):
    def change():
        stack.enter_context(mock.patch.object(builtins, "abs", mock.Mock(return_value=3.0)))

    return lambda: lambda x: x * t(abs(-2.0)), change


@reader
def own_globals(jax, stack):
    names = {"t": t, "k": 2.0}
    code = (lambda x: x * t(k)).__code__  # noqa: F821
    return lambda: types.FunctionType(code, names), lambda: names.update(k=3.0)


@reader
def executed_text(jax, stack):
    names = {"t": t, "k": 2.0}

    def define():
        exec("def f(x): return x * t(k)", names)
        return names["f"]

    return define, lambda: names.update(k=3.0)


@reader
def evaluated_text(jax, stack):
    names = {"k": "2.0"}
    return lambda: lambda x: x * t(eval(names["k"])), lambda: names.update(k="1.0 + 2.0")


@reader
def nested_global(jax, stack):
    NESTED["a"][0] = 2.0
    return lambda: lambda x: x * t(NESTED["a"][0]), lambda: NESTED["a"].__setitem__(0, 3.0)


@reader
def default_list(jax, stack):
    box = [2.0]

    def define():
        def f(x, box=box):
            return x * t(box[0])

        return f

    return define, lambda: box.__setitem__(0, 3.0)


@reader
def defaults_replaced(jax, stack):
    functions, now = [], [2.0]

    def define():
        def f(x, k=now[0]):
            return x * t(k)

        functions.append(f)
        return f

    def change():
        now[0] = 3.0
        for f in functions:
            f.__defaults__ = (3.0,)

    return define, change


@reader
def kwdefaults_replaced(jax, stack):
    functions, now = [], [2.0]

    def define():
        def f(x, *, k=now[0]):
            return x * t(k)

        functions.append(f)
        return f

    def change():
        now[0] = 3.0
        for f in functions:
            f.__kwdefaults__ = {"k": 3.0}

    return define, change


@reader
def code_replaced(jax, stack):
    functions, now = [], [(lambda x: x * t(2.0)).__code__]

    def define():
        f = lambda x: x
        f.__code__ = now[0]
        functions.append(f)
        return f

    def change():
        now[0] = (lambda x: x * t(3.0)).__code__
        for f in functions:
            f.__code__ = now[0]

    return define, change


@reader
def helper_code_replaced(jax, stack):
    def helper():
        return 2.0

    def change():
        helper.__code__ = (lambda: 3.0).__code__

    return lambda: lambda x: x * t(helper()), change


@reader
def constants_of_code(jax, stack):
    """The same instructions with other constants."""
    k = [2.0]
    code = (lambda x: x * t(2.0)).__code__

    def define():
        constants = tuple(k[0] if c == 2.0 else c for c in code.co_consts)
        return types.FunctionType(code.replace(co_consts=constants), globals())

    return define, lambda: k.__setitem__(0, 3.0)


@reader
def signs_of_constants(jax, stack):
    k = [0.0]
    code = (lambda x: t(x.__class__ and 1.0) / (x * 0.0)).__code__

    def define():
        constants = tuple(k[0] if c == 0.0 else c for c in code.co_consts)
        f = types.FunctionType(code.replace(co_consts=constants), globals())
        return lambda x: jax.numpy.clip(f(x), -3.0, 3.0)

    return define, lambda: k.__setitem__(0, -0.0)


@reader
def exception_table(jax, stack):
    """Functions that differ in where their exceptions go."""
    texts = [
        "def f(x):\n  try:\n    return x * t(int('no'))\n  except ValueError:\n    return x * t(2.0)",
        "def f(x):\n  try:\n    return x * t(int('no'))\n  except ValueError:\n    return x * t(3.0)",
    ]

    def define():
        names = {"t": t, "int": int}
        exec(texts[0], names)
        return names["f"]

    return define, lambda: texts.pop(0)


@reader
def attribute_of_function(jax, stack):
    def helper():
        pass

    helper.k = 2.0
    return lambda: lambda x: x * t(helper.k), lambda: setattr(helper, "k", 3.0)


def with_attribute(make):
    """Functions that `make` makes, whose attribute `k` is 2, and the change that makes it 3 for all."""
    now, functions = [2.0], []

    def define():
        f = make()
        f.k = now[0]
        functions.append(f)
        return f

    def change():
        now[0] = 3.0
        for f in functions:
            f.k = 3.0

    return define, change


@reader
def attribute_of_itself(jax, stack):
    def make():
        def f(x):
            return x * t(f.k)

        return f

    return with_attribute(make)


@reader
def attribute_of_partial(jax, stack):
    p = functools.partial(lambda: 0)
    p.k = 2.0
    return lambda: lambda x: x * t(p.k), lambda: setattr(p, "k", 3.0)


@reader
def keywords_of_partial(jax, stack):
    p = functools.partial(lambda k: t(k), k=2.0)
    return lambda: lambda x: x * p(), lambda: p.keywords.update(k=3.0)


@reader
def partial_of_list(jax, stack):
    box = [2.0]
    f = lambda box, x: x * t(box[0])
    return lambda: functools.partial(f, box), lambda: box.__setitem__(0, 3.0)


@reader
def partial_with_other_arguments(jax, stack):
    k = [2.0]
    f = lambda k, x: x * t(k)
    return lambda: functools.partial(f, k[0]), lambda: k.__setitem__(0, 3.0)


@reader
def state_of_partial(jax, stack):
    f, partials, k = (lambda k, x: x * t(k)), [], [2.0]

    def define():
        partials.append(functools.partial(f, k[0]))
        return partials[-1]

    def change():
        k[0] = 3.0
        for p in partials:
            p.__setstate__((f, (3.0,), {}, {}))

    return define, change


@reader
def attribute_of_object(jax, stack):
    o = types.SimpleNamespace(k=2.0)
    return lambda: lambda x: x * t(o.k), lambda: setattr(o, "k", 3.0)


@reader
def attribute_of_class(jax, stack):
    class A:
        k = 2.0

    return lambda: lambda x: x * t(A.k), lambda: setattr(A, "k", 3.0)


@reader
def attribute_of_base_class(jax, stack):
    class A:
        k = 2.0

    class B(A):
        pass

    b = B()
    return lambda: lambda x: x * t(b.k), lambda: setattr(A, "k", 3.0)


@reader
def class_of_object(jax, stack):
    class A:
        k = 2.0

    class B:
        k = 3.0

    a = A()
    return lambda: lambda x: x * t(a.k), lambda: setattr(a, "__class__", B)


@reader
def slots(jax, stack):
    class A:
        __slots__ = ("k",)

    a = A()
    a.k = 2.0
    return lambda: lambda x: x * t(a.k), lambda: setattr(a, "k", 3.0)


@reader
def property_replaced(jax, stack):
    class A:
        k = property(lambda self: 2.0)

    a = A()
    return lambda: lambda x: x * t(a.k), lambda: setattr(A, "k", property(lambda self: 3.0))


@reader
def property_of_hidden_state(jax, stack):
    class A:
        _k = 2.0
        k = property(lambda self: self._k)

    a = A()
    return lambda: lambda x: x * t(a.k), lambda: setattr(a, "_k", 3.0)


@reader
def descriptor(jax, stack):
    class D:
        k = 2.0

        def __get__(self, instance, owner):
            return self.k

    class A:
        d = D()

    a = A()
    return lambda: lambda x: x * t(a.d), lambda: setattr(D, "k", 3.0)


@reader
def getattr_hook(jax, stack):
    values = {"k": 2.0}

    class A:
        def __getattr__(self, name):
            return values[name]

    a = A()
    return lambda: lambda x: x * t(a.k), lambda: values.update(k=3.0)


@reader
def cached_property_forgotten(jax, stack):
    class A:
        base = 2.0

        @functools.cached_property
        def k(self):
            return self.base

    a = A()

    def change():
        a.base = 3.0
        a.__dict__.pop("k", None)

    return lambda: lambda x: x * t(a.k), change


@reader
def frozen_data_class(jax, stack):
    @dataclasses.dataclass(frozen=True)
    class A:
        name: str
        k: float = dataclasses.field(compare=False)

    box = [A("a", 2.0)]
    return lambda: lambda x: x * t(box[0].k), lambda: box.__setitem__(0, A("a", 3.0))


@reader
def frozen_data_class_forced(jax, stack):
    @dataclasses.dataclass(frozen=True)
    class A:
        k: float

    a = A(2.0)
    return lambda: lambda x: x * t(a.k), lambda: object.__setattr__(a, "k", 3.0)


@reader
def callable_data_class(jax, stack):
    @dataclasses.dataclass(frozen=True)
    class A:
        name: str
        k: float = dataclasses.field(compare=False)

        def __call__(self, x):
            return x * t(self.k)

    k = [2.0]
    return lambda: A("a", k[0]), lambda: k.__setitem__(0, 3.0)


@reader
def callable_of_equal_hash(jax, stack):
    class A:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return isinstance(other, A)

        def __hash__(self):
            return 1

        def __call__(self, x):
            return x * t(self.k)

    k = [2.0]
    return lambda: A(k[0]), lambda: k.__setitem__(0, 3.0)


@reader
def callable_object(jax, stack):
    class A:
        k = 2.0

        def __call__(self, x):
            return x * t(self.k)

    return with_attribute(A)


@reader
def call_patched(jax, stack):
    class A:
        def __call__(self, x):
            return x * t(2.0)

    return A, lambda: setattr(A, "__call__", lambda self, x: x * t(3.0))


@reader
def bound_method(jax, stack):
    class A:
        k = 2.0

        def method(self, x):
            return x * t(self.k)

    a = A()
    return lambda: a.method, lambda: setattr(a, "k", 3.0)


@reader
def method_patched(jax, stack):
    class A:
        def method(self, x):
            return x * t(2.0)

    a = A()
    return lambda: a.method, lambda: setattr(A, "method", lambda self, x: x * t(3.0))


@reader
def method_of_an_equal_object(jax, stack):
    @dataclasses.dataclass(frozen=True)
    class A:
        name: str
        k: float = dataclasses.field(compare=False)

        def method(self, x):
            return x * t(self.k)

    k = [2.0]
    return lambda: A("a", k[0]).method, lambda: k.__setitem__(0, 3.0)


@reader
def class_method(jax, stack):
    class A:
        k = 2.0

        @classmethod
        def method(cls, x):
            return x * t(cls.k)

    return lambda: A.method, lambda: setattr(A, "k", 3.0)


@reader
def static_method(jax, stack):
    class A:
        @staticmethod
        def method(x):
            return x * t(2.0)

    def change():
        A.method = staticmethod(lambda x: x * t(3.0))

    return lambda: lambda x: A.method(x), change


@reader
def inner_method(jax, stack):
    class A:
        def k(self):
            return 2.0

    a = A()
    return lambda: lambda x: x * t(a.k()), lambda: setattr(a, "k", lambda: 3.0)


@reader
def operator_patched(jax, stack):
    class A:
        def __rmul__(self, x):
            return x * t(2.0)

        __array_priority__ = 1000

    a = A()
    return lambda: lambda x: a.__rmul__(x), lambda: setattr(A, "__rmul__", lambda s, x: x * t(3.0))


@reader
def conversion_to_array(jax, stack):
    class A:
        k = 2.0

        def __jax_array__(self):
            return jax.numpy.float32(t(self.k))

    a = A()
    return lambda: lambda x: jax.numpy.multiply(x, jax.numpy.asarray(a)), lambda: setattr(
        a, "k", 3.0
    )


@reader
def attribute_of_module(jax, stack):
    module = types.ModuleType("helper")
    module.k = 2.0
    return lambda: lambda x: x * t(module.k), lambda: setattr(module, "k", 3.0)


@reader
def function_of_module(jax, stack):
    module = types.ModuleType("helper")
    exec("k = 2.0\ndef scale(x): return x * k", vars(module))
    return lambda: lambda x: module.scale(t(x)), lambda: setattr(module, "scale", lambda x: x * 3.0)


@reader
def module_replaced(jax, stack):
    def define():
        def f(x):
            import stale_helper_module

            return x * t(stale_helper_module.k)

        return f

    def put(k):
        module = sys.modules["stale_helper_module"] = types.ModuleType("stale_helper_module")
        module.k = k

    put(2.0)
    stack.callback(sys.modules.pop, "stale_helper_module")
    return define, lambda: put(3.0)


@reader
def named_attribute_of_module(jax, stack):
    module = types.ModuleType("helper")
    module.k = 2.0
    name = "k"
    return lambda: lambda x: x * t(getattr(module, name)), lambda: setattr(module, "k", 3.0)


@reader
def attribute_by_getter(jax, stack):
    o = types.SimpleNamespace(a=types.SimpleNamespace(k=2.0))
    get = operator.attrgetter("a.k")
    return lambda: lambda x: x * t(get(o)), lambda: setattr(o.a, "k", 3.0)


@reader
def library_function_patched(jax, stack):
    def change():
        mine = lambda x: 3.0
        stack.enter_context(mock.patch.object(jax.numpy, "sum", mine))

    return lambda: lambda x: x * (t(jax.numpy.sum)(jax.numpy.ones(2, "float32"))), change


@reader
def library_function_by_name(jax, stack):
    def change():
        stack.enter_context(mock.patch.object(jax.numpy, "exp", jax.numpy.negative))

    return lambda: lambda x: getattr(jax.numpy, t("exp"))(x), change


@reader
def library_layer_patched(jax, stack):
    nn = importlib.import_module(jax.__name__ + ".nn")

    def change():
        stack.enter_context(mock.patch.object(nn, "relu", lambda x: x * 3.0))

    return lambda: lambda x: t(nn).relu(x), change


@reader
def numpy_patched(jax, stack):
    def change():
        stack.enter_context(mock.patch.object(np, "prod", mock.Mock(return_value=5)))

    return lambda: lambda x: x * t(int(np.prod((1, 2)))), change


@reader
def dictionary(jax, stack):
    d = {"k": 2.0}
    return lambda: lambda x: x * t(d["k"]), lambda: d.update(k=3.0)


@reader
def order_of_dictionary(jax, stack):
    d = {"a": 2.0, "b": 3.0}

    def change():
        d["a"] = d.pop("a")

    return lambda: lambda x: x * t(next(iter(d.values()))), change


@reader
def ordered_dictionary_moved(jax, stack):
    d = OrderedDict(a=2.0, b=3.0)
    return lambda: lambda x: x * t(next(iter(d.values()))), lambda: d.move_to_end("a")


@reader
def default_dictionary(jax, stack):
    d = defaultdict(lambda: 2.0)
    return lambda: lambda x: x * t(d["k"]), lambda: d.update(k=3.0)


@reader
def mapping_proxy(jax, stack):
    d = {"k": 2.0}
    proxy = types.MappingProxyType(d)
    return lambda: lambda x: x * t(proxy["k"]), lambda: d.update(k=3.0)


@reader
def length_of_list(jax, stack):
    values = [1, 1]
    return lambda: lambda x: x * t(len(values)), lambda: values.append(1)


@reader
def set_grown(jax, stack):
    values = {1, 2}
    return lambda: lambda x: x * t(len(values)), lambda: values.add(3)


@reader
def queue_rotated(jax, stack):
    values = deque([2.0, 3.0])
    return lambda: lambda x: x * t(values[0]), lambda: values.rotate(1)


@reader
def bytes_changed(jax, stack):
    values = bytearray(b"\x02")
    return lambda: lambda x: x * t(values[0]), lambda: values.__setitem__(0, 3)


@reader
def memory_view(jax, stack):
    values = bytearray(b"\x02")
    view = memoryview(values)
    return lambda: lambda x: x * t(view[0]), lambda: values.__setitem__(0, 3)


@reader
def numpy_array_in_place(jax, stack):
    a = np.full(3, 2.0, np.float32)
    return lambda: lambda x: x * t(a), lambda: a.fill(3.0)


@reader
def numpy_number_of_array(jax, stack):
    a = np.full(3, 2.0, np.float32)
    return lambda: lambda x: x * t(float(a[0])), lambda: a.fill(3.0)


@reader
def numpy_object_array(jax, stack):
    a = np.array([2.0, "k"], object)
    return lambda: lambda x: x * t(a[0]), lambda: a.__setitem__(0, 3.0)


@reader
def field_of_structured_array(jax, stack):
    a = np.array([(2.0, 1)], np.dtype([("k", "f4"), ("n", "i4")]))
    return lambda: lambda x: x * t(float(a["k"][0])), lambda: a["k"].fill(3.0)


@reader
def mask_of_array(jax, stack):
    a = np.ma.masked_array([2.0, 3.0], mask=[False, True])
    return lambda: lambda x: x * t(float(a.sum())), lambda: setattr(a, "mask", [True, False])


@reader
def named_tuple_replaced(jax, stack):
    P = namedtuple("P", "k")  # noqa: PYI024
    box = [P(2.0)]
    return lambda: lambda x: x * t(box[0].k), lambda: box.__setitem__(0, P(3.0))


@reader
def fields_of_named_tuple(jax, stack):
    A, B = namedtuple("P", "a b"), namedtuple("P", "b a")  # noqa: PYI024
    box = [A(2.0, 3.0)]
    return lambda: lambda x: x * t(box[0].a), lambda: box.__setitem__(0, B(2.0, 3.0))


@reader
def typed_tuple_class(jax, stack):
    def make(k):
        class P(typing.NamedTuple):
            a: float = k

        return P

    box = [make(2.0)]
    return lambda: lambda x: x * t(box[0]().a), lambda: box.__setitem__(0, make(3.0))


@reader
def enumeration(jax, stack):
    make = lambda k: enum.Enum("E", {"A": k})
    box = [make(2.0)]
    return lambda: lambda x: x * t(box[0].A.value), lambda: box.__setitem__(0, make(3.0))


@reader
def enumeration_attribute(jax, stack):
    E = enum.Enum("E", {"A": 2.0})
    E.A.scale = 2.0
    return lambda: lambda x: x * t(E.A.scale), lambda: setattr(E.A, "scale", 3.0)


@reader
def environment(jax, stack):
    stack.enter_context(mock.patch.dict(os.environ, {"STALE_FACTOR": "2.0"}))
    change = lambda: os.environ.update(STALE_FACTOR="3.0")
    return lambda: lambda x: x * t(float(os.environ["STALE_FACTOR"])), change


@reader
def file_text(jax, stack):
    path = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "k"
    path.write_text("2.0")
    return lambda: lambda x: x * t(float(path.read_text())), lambda: path.write_text("3.0")


@reader
def iterator(jax, stack):
    values = itertools.count(2)
    return lambda: lambda x: x * t(next(values)), lambda: None


@reader
def generator(jax, stack):
    values = (float(k) for k in itertools.count(2))
    return lambda: lambda x: x * t(next(values)), lambda: None


@reader
def popped(jax, stack):
    values = [float(k) for k in range(40, 1, -1)]
    return lambda: lambda x: x * t(values.pop()), lambda: None


@reader
def counter(jax, stack):
    n = 1.0

    def define():
        def f(x):
            nonlocal n
            n += 1
            return x * t(n)

        return f

    return define, lambda: None


@reader
def random_state(jax, stack):
    generator = random.Random(0)
    return lambda: lambda x: x * t(generator.randrange(1 << 20)), lambda: None


@reader
def numpy_random_state(jax, stack):
    generator = np.random.default_rng(0)
    return lambda: lambda x: x * t(int(generator.integers(1 << 20))), lambda: None


@reader
def context_variable(jax, stack):
    variable = contextvars.ContextVar("k", default=2.0)
    return lambda: lambda x: x * t(variable.get()), lambda: variable.set(3.0)


@reader
def thread_local(jax, stack):
    local = threading.local()
    local.k = 2.0
    return lambda: lambda x: x * t(local.k), lambda: setattr(local, "k", 3.0)


@reader
def weak_reference(jax, stack):
    class A:
        k = 2.0

    objects = [A()]
    reference = weakref.ref(objects[0])
    change = lambda: objects.clear()
    return lambda: lambda x: x * t(2.0 if reference() is not None else 3.0), change


@reader
def recursion_limit(jax, stack):
    before = sys.getrecursionlimit()
    stack.callback(sys.setrecursionlimit, before)
    change = lambda: sys.setrecursionlimit(before + 1)
    return lambda: lambda x: x * t(sys.getrecursionlimit() - before + 2), change


@reader
def wrapped_function(jax, stack):
    box = [lambda x: x * t(2.0)]

    def define():
        @functools.wraps(box[0])
        def f(*args):
            return box[0](*args)

        return f

    return define, lambda: box.__setitem__(0, lambda x: x * t(3.0))


@reader
def memoized_helper(jax, stack):
    k = [2.0]

    @functools.lru_cache  # noqa: TID251
    def helper():
        return k[0]

    def change():
        k[0] = 3.0
        helper.cache_clear()

    return lambda: lambda x: x * t(helper()), change


@reader
def jitted_helper(jax, stack):
    k = [2.0]
    make = lambda: jax.jit(lambda x: x * t(k[0]))
    helper = [make()]

    def change():
        k[0] = 3.0
        helper[0] = make()

    return lambda: lambda x: helper[0](x), change


@reader
def jitted_helper_kept(jax, stack):
    k = [2.0]
    helper = jax.jit(lambda x: x * t(k[0]))
    return lambda: lambda x: helper(x), lambda: k.__setitem__(0, 3.0)


@reader
def branch_of_helper(jax, stack):
    k = [2.0]
    branch = lambda x: x * t(k[0])
    return lambda: lambda x: jax.lax.cond(True, branch, branch, x), lambda: k.__setitem__(0, 3.0)


@reader
def body_of_scan(jax, stack):
    k = [2.0]

    def define():
        def body(c, y):
            return c * t(k[0]), y

        return lambda x: jax.lax.scan(body, x, None, length=1)[0]

    return define, lambda: k.__setitem__(0, 3.0)


@reader
def array_of_closure(jax, stack):
    box = [jax.numpy.full(3, 2.0, "float32")]
    change = lambda: box.__setitem__(0, jax.numpy.full(3, 3.0, "float32"))
    return lambda: lambda x: x * t(box[0]), change


@reader
def number_of_closure(jax, stack):
    box = [jax.numpy.float32(2.0)]
    return lambda: lambda x: x * t(box[0]), lambda: box.__setitem__(0, jax.numpy.float32(3.0))


@reader
def dtype_of_closure(jax, stack):
    box = [np.dtype("float32")]
    change = lambda: box.__setitem__(0, np.dtype(ml_dtypes.bfloat16))
    return lambda: lambda x: (x * 1.001).astype(t(box[0])).astype("float32"), change


@reader
def length_of_text(jax, stack):
    box = ["ab"]
    return lambda: lambda x: x * t(len(box[0])), lambda: box.__setitem__(0, "abc")


@reader
def callback_of_closure(jax, stack):
    k = [2.0]

    def define():
        now = t(k[0])
        host = lambda x: np.asarray(x) * np.float32(now)

        def f(x):
            shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
            return jax.pure_callback(host, shape, x, vmap_method="sequential")

        f.no_derivative = True
        return f

    return define, lambda: k.__setitem__(0, 3.0)


@reader
def scale_of_registered_tree(jax, stack):
    k = [2.0]

    class Layer:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return x * self.w * t(k[0])

    jax.tree_util.register_pytree_node(Layer, lambda a: ((a.w,), None), lambda _, c: Layer(*c))

    def define():
        layer = Layer(np.float32(1))
        return lambda x: jax.jit(lambda layer, x: layer(x))(layer, x)

    return define, lambda: k.__setitem__(0, 3.0)


@reader
def aux_data_of_tree(jax, stack):
    class Layer:
        def __init__(self, w, k):
            self.w, self.k = w, k

    jax.tree_util.register_pytree_node(Layer, lambda a: ((a.w,), a.k), lambda k, c: Layer(c[0], k))
    k = [2.0]

    def define():
        def f(x):
            return jax.jit(lambda layer, x: x * layer.w * t(layer.k))(Layer(np.float32(1), k[0]), x)

        return f

    return define, lambda: k.__setitem__(0, 3.0)


# What is done with it ----------------------------------------------------------------------------

USES: dict[str, Any] = {}


def use(make):
    USES[make.__name__] = make
    return make


@use
def jit(jax, f):
    return jax.jit(f)


@use
def jit_with_options(jax, f):
    return jax.jit(f, keep_unused=True)


@use
def jit_static(jax, f):
    g = jax.jit(lambda f, x: f(x), static_argnums=0)
    return lambda x: g(f, x)


@use
def lowered(jax, f):
    return lambda x: jax.jit(f).lower(x).compile()(x)


@use
def traced_lowered(jax, f):
    return lambda x: jax.jit(f).trace(x).lower().compile()(x)


@use
def nested_jit(jax, f):
    inner = jax.jit(f)
    return jax.jit(lambda x: inner(x) + inner(x))


@use
def grad_of_jit(jax, f):
    g = jax.jit(f)
    return jax.grad(lambda x: g(x).sum())


@use
def jit_of_grad(jax, f):
    return jax.jit(jax.grad(lambda x: f(x).sum()))


@use
def value_and_grad(jax, f):
    return jax.value_and_grad(lambda x: f(x).sum())


@use
def vmap_of_jit(jax, f):
    return jax.vmap(jax.jit(f))


@use
def jit_of_vmap(jax, f):
    return jax.jit(jax.vmap(f))


@use
def jvp(jax, f):
    return lambda x: jax.jvp(jax.jit(f), (x,), (x,))


@use
def linearize(jax, f):
    return lambda x: jax.linearize(jax.jit(f), x)[1](x)


@use
def vjp(jax, f):
    return lambda x: jax.vjp(jax.jit(f), x)[1](x)


@use
def jacfwd(jax, f):
    return jax.jacfwd(jax.jit(f))


@use
def hessian(jax, f):
    return jax.hessian(lambda x: (f(x) * f(x)).sum())


@use
def linear_transpose(jax, f):
    return lambda x: jax.linear_transpose(jax.jit(f), x)(x)


@use
def eager(jax, f):
    return f


@use
def checkpoint(jax, f):
    g = jax.checkpoint(f)
    return jax.grad(lambda x: g(x).sum())


@use
def checkpoint_with_policy(jax, f):
    g = jax.checkpoint(f, policy=jax.checkpoint_policies.everything_saveable)
    return jax.jit(jax.grad(lambda x: g(x).sum()))


@use
def scan(jax, f):
    def run(x):
        return jax.lax.scan(lambda c, y: (f(c), y), x, None, length=2)[0]

    return run


@use
def scan_of_body(jax, f):
    body = _Body(f)
    return lambda x: jax.lax.scan(body.step, x, None, length=2)[0]


class _Body:
    def __init__(self, f):
        self.step = lambda c, y: (f(c), y)


@use
def map_of(jax, f):
    return lambda x: jax.lax.map(f, x)


@use
def fori_loop(jax, f):
    body = lambda i, c: f(c)
    return lambda x: jax.lax.fori_loop(0, 2, body, x)


@use
def while_loop(jax, f):
    condition, body = (lambda c: c.sum() < 20), (lambda c: abs(f(c)) + 1)
    return lambda x: jax.lax.while_loop(condition, body, x)


@use
def cond(jax, f):
    return lambda x: jax.lax.cond(x[0] > 0, f, lambda x: x, x)


@use
def switch(jax, f):
    return lambda x: jax.lax.switch(x[0].astype("int32"), [lambda x: x, f], x)


@use
def associative_scan(jax, f):
    return lambda x: jax.lax.associative_scan(lambda a, b: a + f(b), x)


@use
def custom_root(jax, f):
    def run(x):
        solve = lambda g, x0: x0 - g(x0)
        tangent = lambda g, y: y / g(jax.numpy.float32(1.0))
        return jax.lax.custom_root(lambda z: z - f(x).sum(), jax.numpy.float32(0), solve, tangent)

    return run


@use
def custom_linear_solve(jax, f):
    def run(x):
        solve = lambda matvec, b: b / matvec(jax.numpy.ones_like(b))
        return jax.lax.custom_linear_solve(f, x, solve, symmetric=True)

    return run


@use
def reduce(jax, f):
    def run(x):
        return jax.lax.reduce(x, np.float32(0), lambda a, b: a + f(b) * 0.5, (0,))

    return run


@use
def reduce_window(jax, f):
    def run(x):
        return jax.lax.reduce_window(x, np.float32(0), lambda a, b: a + f(b), (2,), (1,), "VALID")

    return run


@use
def at_apply(jax, f):
    return lambda x: x.at[np.array([0, 2])].apply(f)


@use
def vectorize(jax, f):
    return jax.numpy.vectorize(f)


@use
def piecewise(jax, f):
    return lambda x: jax.numpy.piecewise(x, [x > 1], [f, 0.0])


@use
def apply_along_axis(jax, f):
    return lambda x: jax.numpy.apply_along_axis(f, 0, x)


@use
def apply_over_axes(jax, f):
    return lambda x: jax.numpy.apply_over_axes(lambda x, axis: f(x).sum(axis), x, (0,))


@use
def fromfunction(jax, f):
    return lambda x: jax.numpy.fromfunction(f, (3,), dtype="float32")


@use
def ufunc(jax, f):
    add = jax.numpy.frompyfunc(lambda a, b: a + f(b), 2, 1)
    return lambda x: add.reduce(x)


@use
def custom_jvp(jax, f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (f(*primals), f(*tangents)))
    return lambda x: jax.jvp(g, (x,), (x,))


@use
def custom_vjp(jax, f):
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), None), lambda _, ct: (f(ct),))
    return jax.value_and_grad(lambda x: g(x).sum())


@use
def custom_gradient(jax, f):
    g = jax.custom_gradient(lambda x: (f(x), f))
    return jax.grad(lambda x: g(x).sum())


@use
def custom_vmap(jax, f):
    g = importlib.import_module(jax.__name__ + ".custom_batching").custom_vmap(f)
    g.def_vmap(lambda size, batched, x: (f(x) + 1, True))
    return jax.vmap(g)


@use
def custom_vmap_unmapped(jax, f):
    g = importlib.import_module(jax.__name__ + ".custom_batching").custom_vmap(f)
    g.def_vmap(lambda size, batched, x: (f(x) + 1, True))
    return g


@use
def custom_jvp_without_derivative(jax, f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (f(*primals), f(*tangents)))
    return g


@use
def custom_vjp_without_derivative(jax, f):
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), None), lambda _, ct: (f(ct),))
    return g


@use
def composite(jax, f):
    return jax.lax.composite(f, "my.composite")


@use
def custom_partitioning(jax, f):
    module = importlib.import_module(jax.__name__ + ".experimental.custom_partitioning")
    g = module.custom_partitioning(f)
    g.def_partition(
        partition=lambda mesh, arguments, result: (mesh, f, result, (result,)),
        infer_sharding_from_operands=lambda mesh, arguments, result: arguments[0].sharding,
        sharding_rule="i -> i",
    )
    return g


@use
def checkpoint_eager(jax, f):
    return jax.checkpoint(f)


@use
def eval_shape(jax, f):
    return lambda x: (jax.eval_shape(f, x), x)[1]


@use
def jvp_eager(jax, f):
    return lambda x: jax.jvp(f, (x,), (x,))


@use
def vmap_eager(jax, f):
    return jax.vmap(f)


@use
def closure_convert(jax, f):
    def run(x):
        g, consts = jax.closure_convert(f, x)
        return g(x, *consts)

    return run


@use
def make_jaxpr(jax, f):
    extend = importlib.import_module(jax.__name__ + ".extend.core")
    return lambda x: extend.jaxpr_as_fun(jax.make_jaxpr(f)(x))(x)


@use
def exported(jax, f):
    export = importlib.import_module(jax.__name__ + ".export")
    return lambda x: export.export(jax.jit(f))(x).call(x)


@use
def checkify(jax, f):
    module = importlib.import_module(jax.__name__ + ".experimental.checkify")
    return lambda x: module.checkify(jax.jit(f))(x)[1]


@use
def shard_map(jax, f):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))


@use
def shard_map_eager(jax, f):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)


@use
def pmap(jax, f):
    g = jax.pmap(f)
    return lambda x: g(x[None])


@use
def pure_callback(jax, f):
    host = lambda x: np.asarray(f(np.asarray(x)))
    g = lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return jax.jit(g)


@use
def pure_callback_eager(jax, f):
    host = lambda x: np.asarray(f(np.asarray(x)))
    return lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@use
def named_call(jax, f):
    return jax.jit(jax.named_call(f, name="named"))


@use
def partial_of_tree(jax, f):
    p = jax.tree_util.Partial(f)
    g = jax.jit(lambda p, x: p(x))
    return lambda x: g(p, x)


@use
def array_fn_of_jit_partial(jax, f):
    return jax.jit(functools.partial(lambda f, x: f(x), f))


USED_READERS = (
    "closure", "code_replaced", "callable_of_equal_hash", "method_of_an_equal_object", "number_of_closure", "counter",
    "jitted_helper",
)  # fmt: skip
QUESTIONS = [(name, "jit") for name in READERS]
QUESTIONS += [
    (name, each)
    for each in USES
    for name in USED_READERS
    if each != "jit"
    and (name, each) != ("counter", "custom_linear_solve")  # which traces once less
]
