"""The hierarchy of errors, and the construction of their messages.

Every error of pellucid states what can't be done, what was given, where, and what to do. Each class also inherits the
similar builtin error, so that `except TypeError` keeps working.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Generator, Iterable
from typing import Any

from pellucid._machine.xla import JaxRuntimeError

_PUBLIC = "pellucid.errors"
"""The module in which users find the error classes."""
JaxRuntimeError.__module__ = _PUBLIC
ERRORS_PAGE = "docs/errors.md"
"""The documentation page with an entry for each error class: a file of the repository, or a URL."""


class PellucidError(Exception):
    """Base class of all errors raised by pellucid.

    The message consists of `what` can't be done, what the function `got` (one line each), `where`, and what to `do`.

    >>> print(PellucidError("tree_map: the trees differ.", got=["x[0]: int"], do="Make them equal."))
    tree_map: the trees differ.
      x[0]: int
      Make them equal.
    """

    __module__ = _PUBLIC
    page = f"{ERRORS_PAGE}#pelluciderror"
    """Address of the class's entry in the documentation (`ERRORS_PAGE`); a user's subclass has that of its base."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.partition(".")[0].startswith("pellucid"):
            cls.page = f"{ERRORS_PAGE}#{cls.__name__.lower()}"
        if cls.__module__.startswith("pellucid._machine."):
            cls.__module__ = _PUBLIC

    def __init__(
        self,
        what: str = "",
        *,
        got: str | Iterable[str] = (),
        where: str | None = None,
        do: str | None = None,
    ) -> None:
        self.what = what
        self.got = (got,) if isinstance(got, str) else tuple(got)
        self.where = where
        self.do = do
        lines = [*self.got, *([f"in {where}"] if where else []), *([do] if do else [])]
        super().__init__("\n  ".join([what, *lines]))

    names_arguments = False
    """Whether the lines of `got` already contain the names of arguments, as far as known."""

    def state_got(self, lines: Iterable[str]) -> None:
        """Replace the lines of what the function `got`."""
        PellucidError.__init__(self, self.what, got=lines, where=self.where, do=self.do)

    failed_call: Any = None
    """The call of a compiled program that raised this error, for debuggers; None if there is none."""

    refused_kernel: Any = None
    """The grid kernel that was rejected with this error, for its figure; None if there is none."""


class ArgumentTypeError(PellucidError, TypeError):
    """An argument has a type, dtype or kind that the function does not accept."""


class ArgumentValueError(PellucidError, ValueError):
    """An argument has an acceptable type and an unacceptable value."""


@contextlib.contextmanager
def expecting(what: str, argument: Any) -> Generator[None]:
    """Convert TypeError and ValueError in the block to ArgumentTypeError: `what` was expected instead of `argument`.

    Other errors of pellucid pass.

    >>> with expecting("perm must be a list of pairs", [1, 2]):
    ...     pairs = [(source, destination) for source, destination in [1, 2]]
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentTypeError: perm must be a list of pairs.
      got [1, 2]
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, PellucidError) and type(error) is not ArgumentTypeError:  # pyright: ignore[reportUnnecessaryComparison]  # the classes of errors have several bases
            raise
        raise ArgumentTypeError(f"{what}.", got=f"got {argument!r:.60}") from None


class IntegerRangeError(PellucidError, OverflowError):
    """A Python integer that is out of range for its array's dtype."""


class AxisError(ArgumentValueError, IndexError, TypeError):
    """An axis that an array doesn't have: a ValueError and an IndexError, as NumPy's, and a TypeError."""


class AxisNameError(PellucidError, NameError):
    """A named axis that isn't bound around the call."""


class MissingFieldError(ArgumentValueError, KeyError, IndexError):
    """A format string has a field for which there is no argument."""

    __str__ = Exception.__str__  # KeyError would show the message's repr


class CollectiveError(PellucidError, ValueError):
    """A collective that isn't possible with its operands, or in its context."""


class ShapeError(PellucidError, TypeError, ValueError):
    """Shapes or ranks of operands do not fit together.

    Both builtin parents are kept because the reference raises either, depending on the function.
    """


class DtypeError(PellucidError, TypeError, ValueError):
    """Element types of operands do not fit together or are not accepted; its parents are those of ShapeError."""


class IndexingError(PellucidError, IndexError, TypeError):
    """An index of a kind that arrays don't support."""


class JAXTypeError(PellucidError, TypeError):
    """A traced value was used where a concrete value is required.

    `what` may be the traced value, as in libraries that raise the reference's classes; `context` adds a line.

    >>> try:
    ...     pl.jit(lambda x: bool(x > 0))(1.0)
    ... except pl.errors.JAXTypeError as error:
    ...     print(type(error).__name__)
    TracerBoolConversionError
    """

    def __init__(self, what: Any = "", context: str = "", **more: Any) -> None:
        if not isinstance(what, str):
            definition = (inspect.getdoc(type(self)) or "").partition("\n")[0]
            what, more = definition, {"got": f"got {what.aval.text()}", **more}
        super().__init__(what, **({"do": context} if context else {}), **more)


class ConcretizationTypeError(JAXTypeError):
    """A value is required during tracing, but known only when the program runs.

    >>> pl.jit(lambda x: float(x))(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.ConcretizationTypeError: a traced array was used as a Python float, but its value is known only when the program runs.
    ...
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a Python bool.

    >>> pl.jit(lambda x: 1 if x > 0 else 0)(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.TracerBoolConversionError: a traced array was used as a Python bool, but its value is known only when the program runs.
    ...
    """


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used as a Python integer or index.

    >>> pl.jit(lambda i: [1, 2][i])(1)
    Traceback (most recent call last):
        ...
    pellucid.errors.TracerIntegerConversionError: a traced array was used as a Python index, but its value is known only when the program runs.
    ...
    """


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was converted to a NumPy array.

    >>> pl.jit(np.asarray)(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.TracerArrayConversionError: a traced array was used as a NumPy array, but its value is known only when the program runs.
    ...
    """


class JAXIndexError(PellucidError, IndexError):
    """An index depends on a traced value.

    >>> issubclass(NonConcreteBooleanIndexError, JAXIndexError)
    True
    """


class NonConcreteBooleanIndexError(ConcretizationTypeError, JAXIndexError):
    """A traced boolean mask was used as an index, so the result's shape is unknown.

    >>> pl.jit(lambda x: x[x > 0])(np.ones(2))
    Traceback (most recent call last):
        ...
    pellucid.errors.NonConcreteBooleanIndexError: a mask used as an index must be known when the program is traced: the result's shape depends on it.
    ...
    """


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after its trace ended, or outside of it.

    >>> kept = []
    >>> _ = pl.jit(kept.append)(1.0)
    >>> kept[0] + 1
    Traceback (most recent call last):
        ...
    pellucid.errors.UnexpectedTracerError: a traced value was used after the tracing of `append` that made it had ended.
    ...
    """


class UnsupportedError(PellucidError, NotImplementedError):
    """An argument that NumPy or the reference supports, but pellucid doesn't."""


class MissingRule(PellucidError, NotImplementedError):
    """A primitive has no rule for a transformation."""


class IrreversibleLoopError(MissingRule, ValueError):
    """Reverse-mode differentiation of a loop whose number of steps is known only at run time."""


class DerivativeRuleError(PellucidError, TypeError, ValueError, AttributeError):
    """A user-defined derivative is missing, returns values that don't fit, or can't be applied.

    The reference raises any of the builtin parents, depending on what is wrong.
    """


class BatchingRuleError(PellucidError, TypeError, ValueError, AttributeError):
    """A user-defined batching rule is missing, or returns values that don't fit."""


class CallbackBatchingError(BatchingRuleError, NotImplementedError):
    """`vmap` of a callback that doesn't specify how to batch it."""


class EffectsError(PellucidError, NotImplementedError, ValueError):
    """Side effects in a place where their kind isn't allowed."""


class RemovedError(PellucidError, NotImplementedError):
    """A setting that the reference has removed."""


class JaxprTypeError(PellucidError, TypeError):
    """A program violates the typing rules, because of a mistake in the code that built it.

    >>> jaxpr = pl.make_jaxpr(lambda x: x + 1)(1.0).jaxpr
    >>> pl.core.check_jaxpr(jaxpr.replace(eqns=[]))
    Traceback (most recent call last):
        ...
    pellucid.errors.JaxprTypeError: ...
    """


class ArrayConversionError(PellucidError, TypeError, ValueError):
    """An array can't be converted to the requested Python value or buffer."""


class DeletedArrayError(PellucidError, RuntimeError, ValueError):
    """An array was used after its memory was freed: it was deleted, or donated to a call."""


class DeviceError(PellucidError, RuntimeError, ValueError):
    """Devices, platforms or memories are missing or incompatible."""


class PlatformError(PellucidError, RuntimeError):
    """A platform couldn't be started, or doesn't exist."""


class XlaError(PellucidError, JaxRuntimeError):
    """XLA rejected a program, or a program failed at run time; also a subclass of the error that jaxlib raises.

    >>> issubclass(pl.errors.XlaError, pl.errors.JaxRuntimeError)
    True
    """


class DistributedError(XlaError):
    """Processes couldn't be connected, aren't connected, or disagree."""


class DistributedTimeoutError(DistributedError, TimeoutError):
    """Processes didn't connect or answer in time."""


class PeerFailureError(DistributedError):
    """A process of the job died or stopped responding; `failed` are the indices of such processes."""

    failed: tuple[int, ...] = ()


class ProcessFailureError(PeerFailureError):
    """A process died or stopped responding during a block of `live_devices`; `failed_devices` are its devices among
    these.

    >>> raise pl.experimental.multihost_utils.ProcessFailureError("process 1 died.")
    Traceback (most recent call last):
        ...
    pellucid.experimental.multihost_utils.ProcessFailureError: process 1 died.
    """

    __module__ = "pellucid.experimental.multihost_utils"

    failed_devices: frozenset[Any] = frozenset()


class AgreementError(DistributedError, AssertionError):
    """Processes that should agree reported different values."""


class CompilationError(XlaError):
    """XLA rejected a program."""


class CompilerOptionError(XlaError, ValueError):
    """A compiler option doesn't exist, or doesn't accept a value."""


class ExecutionError(XlaError):
    """A compiled program failed at run time."""


class CallbackError(ExecutionError, ValueError):
    """A Python function called by a program raised an exception, or returned a result that doesn't fit.

    The exception is available as `__cause__`.
    """


class OutOfMemoryError(ExecutionError, MemoryError):
    """A device ran out of memory."""


class ConfigError(PellucidError, AttributeError, ValueError):
    """An option doesn't exist, or doesn't accept a value."""


class CacheError(PellucidError, RuntimeError):
    """The on-disk compilation cache failed while `raise_persistent_cache_errors` is on."""


class ForbiddenError(PellucidError, RuntimeError):
    """An operation that an option forbids: tracing under `no_tracing`, or execution under `no_execution`."""


class TransferGuardError(PellucidError, RuntimeError):
    """A transfer that the transfer guard forbids."""


class KeyReuseError(JAXTypeError):
    """A random key was used twice while `debug_key_reuse` is on.

    >>> key = pl.random.key(0)
    >>> with pl.debug_key_reuse(True):
    ...     pl.random.normal(key), pl.random.normal(key)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    pellucid.errors.KeyReuseError: `normal` uses a random key for a second time.
    """


class NonFiniteError(PellucidError, FloatingPointError):
    """A result contains NaN or infinity while `debug_nans` or `debug_infs` is on."""


class LeakError(PellucidError):
    """A traced value was still referenced after tracing ended, as found by the leak checker."""
