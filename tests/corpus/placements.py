"""Expressions about devices, meshes, specs, shardings and arrays on eight devices, and what they give.

Each file of `expressions` holds those of one topic, one in each line; statements may stand in front of the last
expression, behind semicolons. The names they use are those of `scope`.
"""

import ast
import contextlib
import copy
import importlib
import pathlib
import pickle
import threading
import warnings

import numpy as np

_FOLDER = pathlib.Path(__file__).with_name("expressions")
TOPICS = sorted(path.stem for path in _FOLDER.glob("*.txt"))


def rows(topic):
    """The expressions of a topic."""
    return (_FOLDER / f"{topic}.txt").read_text(encoding="utf-8").splitlines()


def answers(jax, topic):
    """What each expression of a topic gives, as plain data; of one that raises the built-in classes of the error."""
    return [answer(jax, text) for text in rows(topic)]


def answer(jax, text):
    *statements, last = ast.parse(text).body
    names = scope(jax)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(ast.Module(statements, []), text, "exec"), names)
            return plain(jax, eval(compile(ast.Expression(last.value), text, "eval"), names))
    except Exception as error:  # the expression's own, whatever it is
        return Raised(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    finally:
        jax.set_mesh(None)
        jax.config.update("jax_default_device", None)


class Raised(tuple):
    """The names of the built-in classes of an error."""

    __slots__ = ()


def under(manager, function):
    """What `function` gives inside a context manager."""
    with manager:
        return function()


def in_thread(function):
    """What `function` gives in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def scope(jax):
    """The names that expressions use."""
    module = lambda name: importlib.import_module(f"{jax.__name__}.{name}")
    sharding, layout = module("sharding"), module("experimental.layout")
    d = jax.devices()
    x, matrix = np.arange(8, dtype=np.float32), np.arange(32, dtype=np.float32).reshape(8, 4)
    mesh = sharding.Mesh(np.reshape(d, (4, 2)), ("x", "y"))
    explicit = mesh.update(axis_types=(sharding.AxisType.Explicit,) * 2)
    over = lambda *axes: sharding.NamedSharding(mesh, sharding.PartitionSpec(*axes))
    return {
        "jax": jax, "jnp": jax.numpy, "lax": jax.lax, "np": np, "tree": jax.tree,
        "copy": copy, "pickle": pickle, "under": under, "in_thread": in_thread,
        "sharding": sharding, "Mesh": sharding.Mesh, "AbstractMesh": sharding.AbstractMesh,
        "AbstractDevice": sharding.AbstractDevice, "AT": sharding.AxisType, "P": sharding.PartitionSpec,
        "N": sharding.NamedSharding, "Single": sharding.SingleDeviceSharding,
        "Layout": layout.Layout, "Format": layout.Format, "Space": jax.memory.Space,
        "mu": module("experimental.mesh_utils"), "mh": module("experimental.multihost_utils"),
        "pjit": module("experimental.pjit"), "put": jax.device_put, "guard": jax.transfer_guard,
        "d": d, "mesh": mesh, "explicit": explicit,
        "amesh": mesh.abstract_mesh, "over_x": over("x"), "x": x, "X": matrix,
        "cut": jax.device_put(x, over("x")), "tiled": jax.device_put(matrix, over("x", "y")),
        "moved": jax.device_put(x, d[1]), "types": lambda function: types(jax, explicit, function),
    }  # fmt: skip


def types(jax, mesh, function):
    """The types of what a function gives of a matrix that is cut along both dimensions over Explicit axes."""
    spec = importlib.import_module(f"{jax.__name__}.sharding").PartitionSpec("x", "y")
    argument = jax.ShapeDtypeStruct((8, 4), "float32", sharding=jax.NamedSharding(mesh, spec))
    with jax.set_mesh(mesh):
        results = jax.tree.leaves(jax.eval_shape(function, argument))
    return [(r.dtype.name, r.shape, str(r.sharding.spec)) for r in results]


def plain(jax, value):
    """`value` as data that both libraries can have: objects are their texts, arrays with all that is known of them."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, jax.Array):
        dims = str(jax.typeof(value)).partition("[")[
            2
        ]  # with mesh axes; dtypes are spelled differently
        place = (repr(value.sharding), value.committed)
        return ("array", str(value.dtype), dims, *place, _elements(value))
    if isinstance(value, (np.ndarray, np.generic)):
        return ("numpy", str(value.dtype), value.shape, plain(jax, value.tolist()))
    if hasattr(value, "keys"):
        return {str(key): plain(jax, value[key]) for key in value}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(jax, item) for item in value), key=str)
    if type(value) in (tuple, list):
        return type(value)(plain(jax, item) for item in value)
    return value.__name__ if isinstance(value, type) else repr(value)


def _elements(array):
    """The elements; None of arrays of addends, which have none yet."""
    with contextlib.suppress(ValueError, NotImplementedError):
        return np.asarray(array).tolist()
    return None
