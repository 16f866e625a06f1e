"""Our implementations of private names that no public module has; the table in `private_names` refers to them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from pellucid._machine.base import cached, config, dtypes, tree
from pellucid._machine.base.errors import ArgumentValueError, ConfigError, UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.tree import TreeStructureError
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.runtime.distributed import initialize
from pellucid._machine.runtime.platforms import default_platform, platform_of, started_clients
from pellucid._machine.sharding import NamedSharding, PartitionSpec, get_abstract_mesh, mesh_context
from pellucid._machine.sharding.mesh import Mesh, empty_mesh
from pellucid._machine.tracing.current import context
from pellucid._machine.tracing.function import indices, names
from pellucid._machine.xla import pytree, trace_context
from pellucid._machine.xla.compile import jaxlib_version
from pellucid.extend.core import Primitive
from pellucid.extend.core.trace_state import trace_ctx
from pellucid.extend.source_info_util import excluded_paths
from pellucid.numpy import asarray, promotion

F = TypeVar("F")
T = TypeVar("T")
Out = TypeVar("Out")
jaxlib_numbers = tuple(int(n) for n in jaxlib_version.split(".")[:3] if n.isdecimal())
"""The version of jaxlib in numbers."""


# Traces and programs ---------------------------------------------------------------------------------


def trace_state_clean() -> bool:
    """Whether no transformation is running.

    >>> trace_state_clean()
    True
    """
    return context.trace.is_eager


def itself(x: T) -> T:
    """Returns `x`: a tracer represents no other value here.

    >>> itself(1)
    1
    """
    return x


def axis_environment() -> Any:
    """The named axes in scope.

    >>> axis_environment().axis_sizes
    {}
    """
    return trace_ctx.axis_env


def option(name: str) -> Any:
    """The option of the configuration called `name`, with or without `jax_` in front; None if there is none.

    >>> option("raise_persistent_cache_errors").value, option("nothing")
    (False, None)
    """
    try:
        return config.config.option(name)
    except ConfigError:
        return None


class JaxprEqnContext:
    """The reference's context of an equation, of which equations here keep nothing.

    Raises: UnsupportedError for a compute type or metadata, which would be lost.

    >>> with JaxprEqnContext(None, True).manager:
    ...     pass
    """

    def __init__(
        self,
        compute_type: str | None = None,
        threefry_partitionable: bool = True,
        xla_metadata: Any = None,
    ) -> None:
        if compute_type is not None or xla_metadata:
            raise UnsupportedError(
                "an equation keeps no context.",
                got=f"compute_type: {compute_type!r}, xla_metadata: {xla_metadata!r}",
                do="Trace within `compute_on(...)` or `set_xla_metadata(...)`.",
            )
        self.compute_type, self.xla_metadata = compute_type, xla_metadata
        self.threefry_partitionable = threefry_partitionable

    @property
    def manager(self) -> contextlib.AbstractContextManager[None]:
        """A context that changes nothing."""
        return contextlib.nullcontext()


def infer_argnums_and_argnames(
    sig: inspect.Signature,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of arguments; if only one of both is passed, the other follows from the signature.

    >>> infer_argnums_and_argnames(inspect.signature(lambda x, axis: 0), None, "axis")
    ((1,), ('axis',))
    """
    if argnums is None and argnames is None:
        return (), ()
    places = [p for p in sig.parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    nums, chosen = indices(argnums, "argnums"), names(argnames, "argnames")
    if argnames is None:
        named = (places[n] for n in nums if -len(places) <= n < len(places))
        chosen = tuple(p.name for p in named if p.kind is p.POSITIONAL_OR_KEYWORD)
    elif argnums is None:
        nums = tuple(i for i, p in enumerate(places) if p.name in chosen)
    return nums, chosen


# Constants with types of their own, of which pellucid has none ------------------------------------------


class TypedNdArray:
    """Class of NumPy constants with a weak type; nothing is an instance."""


select_and_scatter_p = Primitive("select_and_scatter")
"""A primitive that no program of pellucid has; tables of rules name it."""


# Element types and NumPy's promotion ------------------------------------------------------------------


class SupportsDType(Protocol):
    """A value with an element type."""

    @property
    def dtype(self) -> np.dtype: ...


class SupportsShape(Protocol):
    """A value with a shape."""

    @property
    def shape(self) -> tuple[int, ...]: ...


class SupportsSize(Protocol):
    """A value with a number of elements."""

    @property
    def size(self) -> int: ...


class SupportsNdim(Protocol):
    """A value with a number of dimensions."""

    @property
    def ndim(self) -> int: ...


class DuckTypedArray(SupportsDType, SupportsShape, Protocol):
    """A value with a shape and an element type."""


def dtype_of(x: Any, *, canonicalize: bool = True) -> Any:
    """The element type of an array, a number, or another value that has one.

    >>> dtype_of(1.0)
    dtype('float32')
    """
    dtype = dtypes.dtype_of(x)
    return dtypes.canonicalize(dtype) if canonicalize else dtype


def check_arraylike(fun_name: str, *args: Any, **_: Any) -> None:
    """Raise a TypeError, in the name of `fun_name`, for arguments that aren't arrays or numbers.

    >>> check_arraylike("f", 1.0)
    """
    promotion.check_arrays(fun_name, *args)


def ensure_arraylike(fun_name: str, /, *args: Any) -> Any:
    """The arguments as arrays, one or a tuple.

    >>> ensure_arraylike("f", 1)
    Array(1, dtype=int32, weak_type=True)
    """
    check_arraylike(fun_name, *args)
    arrays = tuple(map(asarray, args))
    return arrays[0] if len(arrays) == 1 else arrays


def ensure_arraylike_tuple(fun_name: str, tup: Sequence[Any]) -> tuple[Any, ...]:
    """The items of `tup` as arrays.

    >>> ensure_arraylike_tuple("f", [1.0])
    (Array(1., dtype=float32, weak_type=True),)
    """
    check_arraylike(fun_name, *tup)
    return tuple(map(asarray, tup))


promote_args = promotion.promote_arguments
promote_args_numeric = promotion.promote_arguments_numeric
promote_args_inexact = promotion.promote_arguments_inexact
promote_shapes = promotion.promote_shapes


def promote_dtypes(*args: Any) -> list[Any]:
    """The arguments with the dtype that they promote to.

    >>> [x.dtype.name for x in promote_dtypes(np.int8(1), np.float32(2))]
    ['float32', 'float32']
    """
    return promotion.promote_dtypes("promote_dtypes", *args)


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """Promotes `args` to one floating or complex dtype.

    >>> [x.dtype.name for x in promote_dtypes_inexact(np.int8(1))]
    ['float32']
    """
    return promotion.promote_dtypes_inexact("promote_dtypes_inexact", *args)


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """Promotes `args` to one numeric dtype: bools become integers.

    >>> [x.dtype.name for x in promote_dtypes_numeric(np.bool_(1))]
    ['int32']
    """
    return promotion.promote_dtypes_numeric("promote_dtypes_numeric", *args)


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """Promotes `args` to one complex dtype.

    >>> [x.dtype.name for x in promote_dtypes_complex(np.float32(1), 2)]
    ['complex64', 'complex64']
    """
    dtype, weak_type = dtypes.result_type(*args, return_weak_type_flag=True)
    dtype = dtypes.to_complex_dtype(dtype)
    avals = [promotion.aval_of("promote_dtypes_complex", x, i) for i, x in enumerate(args)]
    return [promotion.convert(x, a, dtype, weak_type) for x, a in strict_zip(args, avals)]


# Meshes and placements --------------------------------------------------------------------------------


class UnspecifiedValue:
    """Class of the sentinel for an unspecified sharding; `jit` takes None for it."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()


def get_concrete_mesh() -> Mesh:
    """The Mesh that is current in this thread, also while a function is traced; empty if none is.

    >>> get_concrete_mesh().empty
    True
    """
    return mesh_context.concrete.value or empty_mesh


def canonicalize_sharding(
    sharding: NamedSharding | PartitionSpec | None,
    api_name: str,
    check_mesh_consistency: bool = True,
) -> NamedSharding | None:
    """`sharding` as a NamedSharding, a spec over the current mesh; None for None.

    Raises: ArgumentValueError for a spec without a current mesh, and for a sharding over another mesh unless that isn't
    to be checked.

    >>> canonicalize_sharding(None, "f") is None
    True
    """
    if sharding is None:
        return None
    mesh = get_abstract_mesh()
    if isinstance(sharding, PartitionSpec):
        if mesh.empty:
            raise ArgumentValueError(
                f"{api_name}: a PartitionSpec needs a current mesh.",
                got=f"{sharding}",
                do="Call it within `with jax.set_mesh(mesh):`, or pass a NamedSharding.",
            )
        return NamedSharding(mesh, sharding)
    if check_mesh_consistency and not mesh.empty and sharding.mesh.abstract_mesh != mesh:
        raise ArgumentValueError(
            f"{api_name}: the sharding is over another mesh than the current one.",
            got=[f"{sharding.mesh}", f"current: {mesh}"],
        )
    return sharding


def running_backends() -> dict[str, Any]:
    """The clients that are running, by their platforms."""
    return {platform_of(client): client for client in started_clients()}


class _State:
    """State of the job; without a job, `client` is None, and the other values are those of a single process."""

    @property
    def client(self) -> Any:
        """The client of the coordination service."""
        return self._of_job("client", None)

    @property
    def process_id(self) -> int:
        """The index of this process."""
        return self._of_plan("process_id", 0)

    @property
    def num_processes(self) -> int:
        """The number of processes."""
        return self._of_plan("num_processes", 1)

    def _of_job(self, name: str, default: Any) -> Any:
        if not initialize.is_initialized():
            return default
        return getattr(initialize.job("jax._src.distributed"), name)

    def _of_plan(self, name: str, default: Any) -> Any:
        plan = self._of_job("plan", None)
        return default if plan is None else getattr(plan, name)


global_state = _State()


# Trees --------------------------------------------------------------------------------------------------


class NodeFunctions(NamedTuple):
    """Flattening of one class of nodes: `to_iter(node)` returns (children, static data), `from_iter` takes static
    data and children.
    """

    to_iter: Callable[[Any], tuple[Iterable[Any], Any]]
    from_iter: Callable[[Any, Iterable[Any]], Any]


_LEAF = pytree.flatten(0)[1]


class _Registry:
    """The classes whose instances are nodes of trees.

    >>> registry[tuple].to_iter((1, 2))[0], registry[dict].from_iter(["a"], [3]), list in registry, int in registry
    ((1, 2), {'a': 3}, True, False)
    """

    def __contains__(self, node_type: type) -> bool:
        return pytree.is_registered(node_type)

    def __getitem__(self, node_type: type) -> NodeFunctions:
        if node_type not in self:
            raise KeyError(node_type)

        def from_iter(aux: Any, children: Iterable[Any]) -> Any:
            leaves = list(children)
            node = pytree.treedef_of_node(node_type, aux, [_LEAF] * len(leaves))
            return node.unflatten(leaves)

        return NodeFunctions(flatten_one_level, from_iter)

    def get(self, node_type: type, default: Any = None) -> Any:
        try:
            return self[node_type]
        except KeyError:
            return default


registry = _Registry()


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of a node, and its auxiliary data.

    Raises: ArgumentValueError for a leaf.

    >>> flatten_one_level({"a": 1, "b": 2})
    ((1, 2), ('a', 'b'))
    """
    node = pytree.flatten_one_level(tree)
    if node is None:
        raise ArgumentValueError(
            "flatten_one_level needs a node of a tree, got a leaf.",
            got=f"got {type(tree).__name__}",
        )
    return node[0], node[1]


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], TreeStructureError]]:
    """For each place at which a tree isn't a prefix of another, a function from an argument's name to the error.

    >>> [error] = prefix_errors((0, [1, 2]), (5, [6, 7, 8]))
    >>> print(error("in_axes"))
    in_axes[1]: got list of 3, expected list of 2
    """
    return [
        lambda name, difference=each: TreeStructureError(difference.text(name))
        for each in tree.prefix_errors(prefix_tree, full_tree, is_leaf)
    ]


# Tracebacks: pellucid's tools show the code of libraries as the user's, so exclusions are listed and hide nothing.


def include_frame(f: Any) -> bool:
    """Whether the frame `f` is in none of the listed paths."""
    return not any(f.f_code.co_filename.startswith(path) for path in excluded_paths)


def api_boundary(fun: F, **_: Any) -> F:
    """Returns `fun`: tracebacks are filtered where errors are shown.

    >>> api_boundary(abs)(-1)
    1
    """
    return fun


# Tests ---------------------------------------------------------------------------------------------------


def is_device_tpu(version: int | None = None, variant: str = "") -> bool:
    """Whether tests run on TPUs.

    Raises: UnsupportedError where a version or variant is asked for on one.

    >>> is_device_tpu()
    False
    """
    if default_platform() != "tpu":
        return False
    if version is not None or variant:
        raise UnsupportedError("is_device_tpu: versions of TPUs aren't told apart.")
    return True


def is_device_cuda() -> bool:
    """Whether tests run on NVIDIA's GPUs.

    >>> is_device_cuda()
    False
    """
    return default_platform() == "cuda"


def is_device_rocm() -> bool:
    """Whether tests run on AMD's GPUs.

    >>> is_device_rocm()
    False
    """
    return default_platform() == "rocm"


_TOLERANCES = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "complex64": 1e-6, "float64": 1e-15, "complex128": 1e-15}  # fmt: skip


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raise an AssertionError where two trees of arrays differ by more than a tolerance, by default that of their dtypes.

    >>> check_close({"a": np.float32(1)}, {"a": np.float32(1 + 1e-7)})
    """

    def check(x: Any, y: Any) -> None:
        x, y = np.asarray(x), np.asarray(y)
        default = max(_TOLERANCES.get(a.dtype.name, 0.0) for a in (x, y))
        wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
        np.testing.assert_allclose(
            x.astype(wide), y.astype(wide), atol=_tolerance(atol, x, default),
            rtol=_tolerance(rtol, x, default), err_msg=err_msg,
        )  # fmt: skip

    tree.tree_map(check, xs, ys)


def _tolerance(stated: Any, x: np.ndarray, default: float) -> float:
    if isinstance(stated, dict):
        return {np.dtype(dtype): value for dtype, value in stated.items()}.get(x.dtype, default)
    return default if stated is None else stated


# Lists and functions ----------------------------------------------------------------------------------


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`zip` of iterables of one length, as a list; raises ValueError for others.

    >>> safe_zip([1, 2], "ab")
    [(1, 'a'), (2, 'b')]
    """
    return list(strict_zip(*args))


def foreach(f: Callable[..., Any], *args: Iterable[Any]) -> None:
    """Calls `f` with the items of iterables of equal length, in order.

    >>> foreach(print, [1, 2], "ab")
    1 a
    2 b
    """
    for items in strict_zip(*args):
        f(*items)


def concatenate(xs: Iterable[Sequence[Any]]) -> list[Any]:
    """The items of several sequences.

    >>> concatenate([[1], [2, 3]])
    [1, 2, 3]
    """
    return [x for each in xs for x in each]


def ceil_of_ratio(x: int, y: int) -> int:
    """`x / y`, rounded up.

    >>> ceil_of_ratio(7, 2)
    4
    """
    return -(-x // y)


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two tuples from pairs.

    >>> unzip2([(1, "a"), (2, "b")])
    ((1, 2), ('a', 'b'))
    """
    pairs = list(xys)
    return tuple(x for x, _ in pairs), tuple(y for _, y in pairs)


def unzip3(xyzs: Iterable[tuple[Any, Any, Any]]) -> tuple[tuple[Any, ...], ...]:
    """Three tuples from triples.

    >>> unzip3([(1, 2, 3)])
    ((1,), (2,), (3,))
    """
    triples = list(xyzs)
    return tuple(tuple(triple[i] for triple in triples) for i in range(3))


def split_list(args: Sequence[Any], ns: Sequence[int]) -> list[list[Any]]:
    """Lists of the lengths `ns`, and one of the rest.

    >>> split_list([1, 2, 3, 4], [1, 2])
    [[1], [2, 3], [4]]
    """
    rest, lists = list(args), []
    for n in ns:
        lists.append(rest[:n])
        rest = rest[n:]
    return [*lists, rest]


def partition_list(bs: Sequence[bool], l: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(items where `bs` is false, items where it is true).

    >>> partition_list([True, False, True], "abc")
    (['b'], ['a', 'c'])
    """
    pairs = list(strict_zip(bs, l))
    return [x for b, x in pairs if not b], [x for b, x in pairs if b]


def merge_lists(bs: Sequence[bool], l0: Sequence[Any], l1: Sequence[Any]) -> list[Any]:
    """The inverse of `partition_list`.

    >>> merge_lists([True, False, True], ["b"], ["a", "c"])
    ['a', 'b', 'c']
    """
    if (len(bs) - sum(bs), sum(bs)) != (len(l0), len(l1)):
        raise ArgumentValueError(
            "merge_lists: the lists have other lengths than `bs` says.",
            got=f"{len(l0)} and {len(l1)}, expected {len(bs) - sum(bs)} and {sum(bs)}",
        )
    items = iter(l0), iter(l1)
    return [next(items[bool(b)]) for b in bs]


def tuple_insert(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """`t` with `val` at position `idx`.

    >>> tuple_insert((1, 3), 1, 2)
    (1, 2, 3)
    """
    return (*t[:idx], val, *t[idx:])


def tuple_update(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """`t` with `val` in the place `idx`, counted from either end.

    >>> tuple_update((1, 2, 3), -1, 5)
    (1, 2, 5)
    """
    return subvals(t, [(range(len(t))[idx], val)])


def subvals(lst: Sequence[Any], replace: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """The elements of `lst` with others in some places: pairs (place, element).

    >>> subvals([1, 2, 3], [(0, 7), (2, 9)])
    (7, 2, 9)
    """
    elements = list(lst)
    for place, element in replace:
        elements[place] = element
    return tuple(elements)


def tuple_delete(t: tuple[Any, ...], idx: int) -> tuple[Any, ...]:
    """`t` without the item at position `idx`.

    >>> tuple_delete((1, 2, 3), 1)
    (1, 3)
    """
    return (*t[:idx], *t[idx + 1 :])


canonicalize_axis = canonical_axis


def cache(max_size: int | None = 4096, **_: Any) -> Callable[[F], F]:
    """A decorator that remembers results by the arguments and by the options that tracing depends on.

    >>> @cache()
    ... def square(x):
    ...     return x * x
    >>> square(3)
    9
    """

    def decorate(function: Any) -> Any:
        @cached(max_size or _ANY_NUMBER)
        def call_cached(options: Any, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return call_cached(trace_context(), *args, **kwargs)

        return call

    return decorate


_ANY_NUMBER = 1 << 20


def memoize(f: F) -> F:
    """`f` with its results remembered by its arguments, and by the options that tracing depends on.

    >>> memoize(lambda x: x * x)(3)
    9
    """
    return cache(max_size=None)(f)


def weakref_lru_cache(
    f: Any = None, *, maxsize: int | None = 2048, trace_context_in_key: bool = True, **_: Any
) -> Any:
    """`f` with its results remembered as long as its first argument lives; a decorator, where `f` is left out.

    >>> count = weakref_lru_cache(lambda function, n: n + 1)
    >>> count(len, 3), count(len, 3), count.cache_info().hits
    (4, 4, 1)
    """
    if f is None:
        return functools.partial(
            weakref_lru_cache, maxsize=maxsize, trace_context_in_key=trace_context_in_key
        )

    @cached(maxsize or _ANY_NUMBER, weakly=True)
    def call_cached(first: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        return f(first, *args, **kwargs)

    @functools.wraps(f)
    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        options = trace_context() if trace_context_in_key else None
        return call_cached(first, options, *args, **kwargs)

    call.cache_clear = call_cached.cache_clear  # type: ignore[attr-defined]
    call.cache_info = call_cached.cache_info  # type: ignore[attr-defined]
    return call


def curry(f: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """`f` that takes its first arguments in one call and the others in a second one.

    >>> curry(max)(1, 5)(3)
    5
    """
    return functools.wraps(f)(functools.partial(functools.partial, f))


def set_module(module: str) -> Callable[[T], T]:
    """A decorator that states the module of a function or class.

    >>> set_module("jax.numpy")(lambda x: x).__module__
    'jax.numpy'
    """

    def decorate(defined: T) -> T:
        defined.__module__ = module
        return defined

    return decorate


def wraps(
    wrapped: Any, namestr: str | None = None, docstr: str | None = None, **kwargs: Any
) -> Callable[[F], F]:
    """Decorator that gives a function the name and docstring of `wrapped`, in the forms `namestr` and `docstr`.

    >>> wraps(abs, "grad_of_{fun}")(lambda x: x).__name__
    'grad_of_abs'
    """

    def decorate(function: Any) -> Any:
        name = getattr(wrapped, "__name__", type(wrapped).__name__)
        doc = getattr(wrapped, "__doc__", None) or ""
        fields = {"fun": name, "doc": doc, **kwargs}
        function.__name__ = function.__qualname__ = (namestr or "{fun}").format(**fields)
        function.__module__ = getattr(wrapped, "__module__", function.__module__)
        function.__doc__ = (docstr or "{doc}").format(**fields)
        function.__wrapped__ = wrapped
        return function

    return decorate


class HashablePartial:
    """A function with its first arguments and keywords, equal where these and the function are.

    >>> HashablePartial(pow, 2) == HashablePartial(pow, 2), HashablePartial(pow, 2)(3)
    (True, 8)
    """

    def __init__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashablePartial) and (self.f, self.args, self.kwargs) == (
            other.f, other.args, other.kwargs,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.f, self.args, tuple(sorted(self.kwargs.items()))))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*self.args, *args, **self.kwargs, **kwargs)


class HashableWrapper:
    """`x`, equal to others by value if that has a hash, else by identity.

    >>> HashableWrapper(1) == HashableWrapper(1), HashableWrapper([1]) == HashableWrapper([1])
    (True, False)
    """

    def __init__(self, x: Any) -> None:
        self.x = x
        try:
            self.key: Any = ("value", hash(x))
        except TypeError:
            self.key = ("object", id(x))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HashableWrapper) or self.key[0] != other.key[0]:
            return False
        return self.x == other.x if self.key[0] == "value" else self.x is other.x


@dataclass(frozen=True)
class HashableFunction:
    """A function that equals others with the same `closure` and code.

    >>> def scaled(n):
    ...     return HashableFunction(lambda x: n * x, closure=(n,))
    >>> scaled(2) == scaled(2), scaled(2) == scaled(3)
    (True, False)
    """

    f: Callable[..., Any]
    closure: Hashable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashableFunction) and (self.f.__code__, self.closure) == (
            other.f.__code__, other.closure,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.f.__code__, self.closure))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)
