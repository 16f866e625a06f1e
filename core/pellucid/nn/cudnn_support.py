"""What cuDNN's attention takes: dtypes, sizes of heads and lengths; and of which GPUs and versions of cuDNN.

What depends on shapes is checked when a call is traced, what depends on the GPU when it's lowered for one. Sources: the checks of NVIDIA's
cudnn-frontend and of PyTorch's and JAX's calls of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pellucid._machine.base import CompilationError, UnsupportedError
from pellucid._machine.ir import ShapedArray
from pellucid._machine.xla import GpuFacts

DTYPES = ("bfloat16", "float16")
NARROW_DTYPES = ("float8_e4m3fn", "float8_e5m2")
MAX_HEAD_SIZE = 256
USUAL_HEAD_SIZE = 128
"""The largest head size that every GPU since A100 takes."""
OTHERWISE = 'Use implementation="xla".'
_HOPPER = (9, 0)


def texts(query: ShapedArray, key: ShapedArray, value: ShapedArray) -> list[str]:
    """The operands as messages show them."""
    return [f"{n}: {a.text()}" for n, a in (("query", query), ("key", key), ("value", value))]


def check_operands(query: ShapedArray, key: ShapedArray, value: ShapedArray, dtypes=DTYPES) -> None:
    """Raise UnsupportedError for what cuDNN has no kernel for, on whichever GPU."""
    got = texts(query, key, value)
    if len({query.dtype, key.dtype, value.dtype}) > 1 or query.dtype.name not in dtypes:
        raise UnsupportedError(
            f"cuDNN's attention takes query, key and value all of {', or all of '.join(dtypes)}.",
            got=got,
            do=f"Convert them: `x.astype('{dtypes[0]}')`. {OTHERWISE}",
        )
    if any(
        size % 8 or not 0 < size <= MAX_HEAD_SIZE for size in (query.shape[-1], value.shape[-1])
    ):
        raise UnsupportedError(
            f"cuDNN's attention takes head sizes that 8 divides, up to {MAX_HEAD_SIZE}.",
            got=got,
            do=f"Pad the head size with zeros, and give `scale`. {OTHERWISE}",
        )
    if 0 in (*query.shape, *key.shape):
        raise UnsupportedError("cuDNN's attention takes no arrays without elements.", got=got, do=OTHERWISE)  # fmt: skip


def check_lengths(query: ShapedArray, key: ShapedArray, what: str) -> None:
    """Raise UnsupportedError for odd numbers of queries or keys where cuDNN needs even ones."""
    t, s = query.shape[1], key.shape[1]
    if t % 2 or s % 2:
        raise UnsupportedError(
            f"cuDNN's attention {what} takes even numbers of queries and keys.",
            got=f"{t} queries, {s} keys",
            do='Pad them, and give `query_seq_lengths` and `key_value_seq_lengths`; or use implementation="xla".',
        )


class Form(NamedTuple):
    """What a call of attention asks for, as far as GPUs and versions of cuDNN differ in it."""

    head_size: int
    value_size: int
    has_window: bool = False
    is_packed: bool = False
    is_paged: bool = False
    is_narrow: bool = False


class _Need(NamedTuple):
    what: str
    compute_capability: tuple[int, int]
    cudnn_version: tuple[int, int, int]
    hopper_only: bool = False


def _needs(form: Form) -> Iterator[_Need]:
    yield _Need("cuDNN's attention", (8, 0), (9, 0, 0))
    if form.value_size != form.head_size:
        yield _Need("values of another head size", _HOPPER, (9, 10, 0))
    elif form.head_size > USUAL_HEAD_SIZE:
        yield _Need(f"a head size above {USUAL_HEAD_SIZE}", _HOPPER, (9, 5, 1), hopper_only=True)
    if form.has_window:
        yield _Need("a window", (8, 0), (9, 2, 0))
    if form.is_packed:
        yield _Need("packed sequences", _HOPPER, (9, 0, 0))
    if form.is_paged:
        yield _Need("pages", (8, 0), (9, 5, 0))
    if form.is_narrow:
        yield _Need("numbers of 8 bits", _HOPPER, (9, 1, 0))


def check_gpu(form: Form, gpu: GpuFacts | None) -> None:
    """Raise CompilationError for a form that this GPU, or its cuDNN, doesn't have; what isn't known is let pass."""
    if gpu is None:
        return
    for need in _needs(form):
        has_architecture = gpu.compute_capability >= need.compute_capability and not (
            need.hopper_only and gpu.compute_capability[0] != _HOPPER[0]
        )
        has_version = gpu.cudnn_version is None or gpu.cudnn_version >= need.cudnn_version
        if not (has_architecture and has_version):
            least, cudnn = (".".join(map(str, x)) for x in (need.compute_capability, need.cudnn_version))  # fmt: skip
            only = "compute capability 9 alone" if need.hopper_only else f"compute capability {least} or newer"  # fmt: skip
            version = gpu.cudnn_version and ".".join(map(str, gpu.cudnn_version))
            raise CompilationError(
                f"{need.what} needs GPUs of {only}, and cuDNN {cudnn}.",
                got=f"compute capability {'.'.join(map(str, gpu.compute_capability))}, cuDNN {version or 'of an unknown version'}",
                do=OTHERWISE,
            )
