"""The reference implementation as an oracle: `jax` in a process of its own, asked by tests.

Programs live in modules of `tests/corpus` and take the array library as their first argument,
so the same source runs with `jax` in the worker and with `pellucid` here:

    def program(jax, x):
        return jax.numpy.sin(x)

    oracle.check(program, x, library=pellucid)     # same values, dtypes, weak types, structure
    oracle.run(program, x).leaves[0].array         # what jax gives
    oracle.call(table)                             # plain data that a function made with jax

`jax` and `pellucid` can't share a process, so a corpus module imports neither at its top.
"""

import atexit
import contextlib
import importlib
import importlib.metadata
import io
import os
import pickle
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

INTERPRETER_VARIABLE = "PELLUCID_ORACLE_PYTHON"
"""Names a Python that has `jax`, for test runs whose own Python has not."""

MAX_WORKERS = 3
"""Workers that one test process keeps alive; the one that was idle longest makes room."""


class OracleError(Exception):
    """The oracle itself failed, not the program it was asked about."""


class OracleTimeout(OracleError):
    """The worker didn't answer in time; it was killed, and the next question starts another."""


class OracleCrash(OracleError):
    """The worker died; the next question starts another."""


@dataclass(frozen=True)
class Key:
    """A random key as it travels: the name of its generator and its raw data."""

    implementation: str
    data: np.ndarray


@dataclass(frozen=True)
class Leaf:
    """One leaf of a result.

    `kind` is "array", "key" (whose `array` is the raw data), "numpy", "abstract" (shape and
    dtype only), "python" (a number, string, type or function, whose `text` is shown) or
    "object".
    """

    kind: str
    text: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    weak_type: bool = False
    array: np.ndarray | None = None


@dataclass(frozen=True)
class Failure:
    """An exception: its class, the names of all classes above, its text."""

    name: str
    ancestors: tuple[str, ...]
    text: str
    traceback: str

    @property
    def builtin(self) -> str:
        """The built-in class that an `except` would name."""
        return next(name for name in self.ancestors if isinstance(_BUILTINS.get(name), type))

    def report(self, what: str) -> NoReturn:
        """Raise an AssertionError that shows the traceback."""
        raise AssertionError(f"{what} failed:\n{self.traceback}")


_BUILTINS = vars(importlib.import_module("builtins"))


@dataclass(frozen=True)
class Outcome:
    """What came of one call of a program: leaves and structure of the result, or a failure."""

    leaves: tuple[Leaf, ...] = ()
    structure: str = ""
    jaxpr: str | None = None
    failure: Failure | None = None
    warnings: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def require_result(self) -> "Outcome":
        """This outcome, unless it is a failure, which is raised."""
        if self.failure is not None:
            self.failure.report("the program")
        return self


def evaluate(
    library: Any, program: Callable[..., Any], args: tuple[Any, ...], *, jaxpr: bool = False
) -> Outcome:
    """Outcome of `program(library, *args)`; with `jaxpr`, also the text of its jaxpr.

    Any `Key` among the leaves of `args` becomes a key array of the library.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            args = library.tree.map(lambda leaf: _received(library, leaf), args)
            result = program(library, *args)
            leaves, structure = library.tree.flatten(result)
            text = None
            if jaxpr:
                text = str(library.make_jaxpr(lambda *operands: program(library, *operands))(*args))
            outcome = Outcome(tuple(_sent(library, leaf) for leaf in leaves), str(structure), text)
        except Exception as error:  # the program's own, whatever it is
            outcome = Outcome(failure=_failure(error))
    seen = tuple((warning.category.__name__, str(warning.message)) for warning in caught)
    return Outcome(outcome.leaves, outcome.structure, outcome.jaxpr, outcome.failure, seen)


def _received(library: Any, leaf: Any) -> Any:
    if isinstance(leaf, Key):
        return library.random.wrap_key_data(leaf.data, impl=leaf.implementation)
    return leaf


def _sent(library: Any, leaf: Any) -> Leaf:
    dtype, shape = getattr(leaf, "dtype", None), getattr(leaf, "shape", None)
    if isinstance(leaf, (np.ndarray, np.generic)):
        return Leaf("numpy", "", str(dtype), shape, array=np.asarray(leaf))
    if isinstance(leaf, (bool, int, float, complex, str, bytes, type)) or callable(leaf):
        text = getattr(leaf, "__qualname__", None) or repr(leaf)
        return Leaf("python", text, type(leaf).__name__)
    if dtype is None or shape is None:
        return Leaf("object", type(leaf).__name__)
    weak_type = bool(getattr(leaf, "weak_type", False))
    if not isinstance(leaf, library.Array):
        return Leaf("abstract", "", str(dtype), tuple(shape), weak_type)
    if library.dtypes.issubdtype(dtype, library.dtypes.prng_key):
        data = np.asarray(library.random.key_data(leaf))
        return Leaf("key", str(library.random.key_impl(leaf)), str(dtype), shape, array=data)
    return Leaf("array", "", str(dtype), shape, weak_type, np.asarray(leaf))


def _failure(error: BaseException) -> Failure:
    return Failure(
        type(error).__name__,
        tuple(cls.__name__ for cls in type(error).__mro__),
        str(error),
        "".join(traceback.format_exception(error)),
    )


_TOLERANCES = {
    np.dtype("float16"): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 2e-2,
    np.dtype("float32"): 2e-5,
    np.dtype("complex64"): 2e-5,
    np.dtype("float64"): 1e-11,
    np.dtype("complex128"): 1e-11,
}


def assert_same(
    ours: Outcome,
    theirs: Outcome,
    *,
    tolerance: float | None = None,
    weak_types: bool = True,
    fails: bool = False,
) -> None:
    """Fail unless two outcomes agree: both have a result, or both failed if the program `fails`.

    Failures agree if ours can be caught by the built-in class that theirs belongs to. Results
    agree in structure, dtypes, shapes, weak types and, to `tolerance` (absolute and relative,
    by default that of the dtype), values.
    """
    if fails:
        assert theirs.failure is not None, "the oracle raised no error"
        expected = f"{theirs.failure.name}: {theirs.failure.text}"
        assert ours.failure is not None, f"no error here, but the oracle raised {expected}"
        assert theirs.failure.builtin in ours.failure.ancestors, (
            f"got {ours.failure.name}: {ours.failure.text}\nthe oracle raised {expected}"
        )
        return
    theirs.require_result()
    ours.require_result()
    assert ours.structure == theirs.structure
    for index, (our, their) in enumerate(zip(ours.leaves, theirs.leaves, strict=True)):
        ours_is = (our.kind, our.text, our.dtype, our.shape, weak_types and our.weak_type)
        theirs_is = (
            their.kind,
            their.text,
            their.dtype,
            their.shape,
            weak_types and their.weak_type,
        )
        assert ours_is == theirs_is, f"leaf {index}: got {ours_is}, the oracle has {theirs_is}"
        if their.array is not None:
            _assert_same_array(our.array, their.array, tolerance, f"leaf {index}")


def _assert_same_array(
    ours: np.ndarray | None, theirs: np.ndarray, tolerance: float | None, name: str
) -> None:
    assert ours is not None
    if tolerance is None:
        tolerance = _TOLERANCES.get(theirs.dtype, 0.0)
    if theirs.dtype.kind in "biu" or tolerance == 0.0:
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        return
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        ours.astype(wide), theirs.astype(wide), tolerance, tolerance, err_msg=name
    )


class Oracle:
    """A worker process with `jax`, started at the first question and restarted after a crash."""

    def __init__(self, *, x64: bool = False, devices: int = 1, timeout: float = 120.0) -> None:
        self.x64 = x64
        self.devices = devices
        self.timeout = timeout
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: Any = None

    def call(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> Any:
        """`function(jax, *args)`: plain data, as it comes back by pickle.

        Raises: AssertionError with the worker's traceback if the function raises.
        """
        answer = self._ask(("call", _address(function), args), timeout)
        if isinstance(answer, Failure):
            answer.report(function.__qualname__)
        return answer

    def call_each(self, function: Callable[..., list[Any]], questions: Sequence[Any]) -> list[Any]:
        """`function(jax, questions)`: a list with an answer for each question."""
        return self.call(function, list(questions))

    def run(
        self,
        program: Callable[..., Any],
        *args: Any,
        jaxpr: bool = False,
        timeout: float | None = None,
    ) -> Outcome:
        """Outcome of `program(jax, *args)` in the worker; see `evaluate`."""
        return self._ask(("run", _address(program), args, jaxpr), timeout)

    def check(
        self,
        program: Callable[..., Any],
        *args: Any,
        library: Any,
        tolerance: float | None = None,
        weak_types: bool = True,
        fails: bool = False,
        timeout: float | None = None,
    ) -> Outcome:
        """Outcome of `program(library, *args)`, which must agree with the worker's; see `assert_same`."""
        ours = evaluate(library, program, args)
        theirs = self.run(program, *args, timeout=timeout)
        assert_same(ours, theirs, tolerance=tolerance, weak_types=weak_types, fails=fails)
        return ours

    def close(self) -> None:
        """End the worker, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
            self._stderr.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": str(int(self.x64)),
            "XLA_FLAGS": " ".join(
                [
                    os.environ.get("XLA_FLAGS", ""),
                    f"--xla_force_host_platform_device_count={self.devices}",
                ]
            ),
            # More virtual devices than cores wait for each other forever without this.
            "PJRT_NPROC": str(max(os.cpu_count() or 1, 2 * self.devices)),
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        self._process = subprocess.Popen(
            [_interpreter(), "-u", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
        )
        _write(self._process.stdin, _paths_of_programs())
        return self._process

    def _ask(self, request: Any, timeout: float | None) -> Any:
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                self.close()
                process = self._start()
            deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
            try:
                _write(process.stdin, request)
                answer = _read(process.stdout, deadline)
            except TimeoutError:
                self.close()
                raise OracleTimeout(f"no answer to {request[:2]} in time") from None
            except (EOFError, BrokenPipeError):
                raise OracleCrash(self._obituary(process, request)) from None
        if isinstance(answer, OracleError):
            raise answer
        return answer

    def _obituary(self, process: "subprocess.Popen[bytes]", request: Any) -> str:
        status = process.wait()
        self._stderr.seek(0)
        last_words = self._stderr.read().decode(errors="replace")[-2000:]
        self.close()
        return f"the worker died (status {status}) over {request[:2]}:\n{last_words}"


_oracles: "OrderedDict[tuple[bool, int], Oracle]" = OrderedDict()


def oracle_for(*, x64: bool = False, devices: int = 1) -> Oracle:
    """The oracle of this process for the given options, of which a few stay alive."""
    options = (x64, devices)
    oracle = _oracles.pop(options, None) or Oracle(x64=x64, devices=devices)
    _oracles[options] = oracle
    while len(_oracles) > MAX_WORKERS:
        _oracles.popitem(last=False)[1].close()
    return oracle


@atexit.register
def close_all() -> None:
    """End the workers of all oracles of this process; the next questions start others."""
    for oracle in _oracles.values():
        oracle.close()


def is_available() -> bool:
    """Whether a Python with `jax` is at hand."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("jax")  # not looked for as a module: pellucid forbids that
        return True
    return INTERPRETER_VARIABLE in os.environ


def _interpreter() -> str:
    return os.environ.get(INTERPRETER_VARIABLE, sys.executable)


def _paths_of_programs() -> list[str]:
    """Where modules are looked for, but for those places that belong to an interpreter."""
    own = (sys.prefix, sys.base_prefix)
    return [path for path in sys.path if path and not path.startswith(own)]


def _address(function: Callable[..., Any]) -> tuple[str, str]:
    if "<" in function.__qualname__:
        raise OracleError(
            f"{function.__qualname__} can't be found by name; make it a function of a module"
        )
    return function.__module__, function.__qualname__


# A message is its length in eight bytes, then a pickle.


def _write(stream: Any, value: Any) -> None:
    data = pickle.dumps(value, protocol=4)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def _read(stream: Any, deadline: float | None = None) -> Any:
    (length,) = struct.unpack("<Q", _read_bytes(stream, 8, deadline))
    return pickle.loads(_read_bytes(stream, length, deadline))


def _read_bytes(stream: Any, count: int, deadline: float | None) -> bytes:
    parts = io.BytesIO()
    while parts.tell() < count:
        if deadline is not None:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
        part = os.read(stream.fileno(), count - parts.tell())
        if not part:
            raise EOFError
        parts.write(part)
    return parts.getvalue()


class _NoPellucid:
    """A finder that refuses `pellucid` in the worker."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == "pellucid":
            raise OracleError("the module of this program imports pellucid, which the oracle can't")


def _serve() -> None:
    """Answer questions from standard input until it ends."""
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program prints must not end up among the answers
    sys.path[:0] = _read(requests)
    sys.meta_path.insert(0, _NoPellucid())
    jax = importlib.import_module("jax")
    with contextlib.suppress(EOFError):
        while True:
            _write(answers, _answer(jax, *_read(requests)))


def _answer(jax: Any, kind: str, address: tuple[str, str], args: Any, *options: Any) -> Any:
    try:
        function: Any = importlib.import_module(address[0])
        for name in address[1].split("."):
            function = getattr(function, name)
        if kind == "run":
            return evaluate(jax, function, args, jaxpr=options[0])
        return function(jax, *args)
    except OracleError as error:
        return error
    except Exception as error:  # the function's own, whatever it is
        return _failure(error)


if __name__ == "__main__":
    # The worker's classes must be those that the test process unpickles.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    importlib.import_module("oracle")._serve()
