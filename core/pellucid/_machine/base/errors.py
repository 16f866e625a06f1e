"""The error tree, and the one place where the text of a message is built.

Every error of pellucid says what can't be done, what was given, where, and what to do. Each class also
inherits the builtin it resembles, so that `except TypeError` keeps working.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Generator, Iterable
from typing import Any

from pellucid._machine.xla import JaxRuntimeError

_PUBLIC = "pellucid.errors"
"""Module in which users find the classes of errors that the machine raises."""
JaxRuntimeError.__module__ = _PUBLIC
ERRORS_PAGE = "docs/errors.md"
"""Page of the documentation that has an entry for each class of errors: a file of the repository, or an address."""


class PellucidError(Exception):
    """Root of all errors raised by pellucid.

    The text has `what` can't be done, what the function `got` (one line each), `where`, and what to `do`.

    >>> print(PellucidError("tree_map: the trees differ.", got=["x[0]: int"], do="Make them equal."))
    tree_map: the trees differ.
      x[0]: int
      Make them equal.
    """

    __module__ = _PUBLIC
    page = f"{ERRORS_PAGE}#pelluciderror"
    """Address of the class's entry in the documentation; of a class of a user, that of its base."""

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
    """Whether the lines of `got` have the names of arguments already, as far as these are known."""

    def state_got(self, lines: Iterable[str]) -> None:
        """Replace what the function `got`."""
        PellucidError.__init__(self, self.what, got=lines, where=self.where, do=self.do)

    failed_call: Any = None
    """The call of a compiled program that failed with this error, for debuggers; None for none."""

    refused_kernel: Any = None
    """The kernel over a grid that was refused with this error, for its figure; None for none."""


class ArgumentTypeError(PellucidError, TypeError):
    """An argument has a type, dtype or kind that the function does not accept."""


class ArgumentValueError(PellucidError, ValueError):
    """An argument has an acceptable type and an unacceptable value."""


@contextlib.contextmanager
def expecting(what: str, argument: Any) -> Generator[None]:
    """Raise ArgumentTypeError where the block raises TypeError or ValueError: `what` was expected, not `argument`.

    Other errors of pellucid pass.

    >>> with expecting("perm is a list of pairs", [1, 2]):
    ...     pairs = [(source, destination) for source, destination in [1, 2]]
    Traceback (most recent call last):
        ...
    pellucid.errors.ArgumentTypeError: perm is a list of pairs.
      got [1, 2]
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(error, PellucidError) and type(error) is not ArgumentTypeError:  # pyright: ignore[reportUnnecessaryComparison]  # the classes of errors have several bases
            raise
        raise ArgumentTypeError(f"{what}.", got=f"got {argument!r:.60}") from None


class IntegerRangeError(PellucidError, OverflowError):
    """A Python integer that its array's dtype can't hold."""


class AxisError(ArgumentValueError, IndexError, TypeError):
    """An axis that an array doesn't have: a ValueError and an IndexError, as NumPy's, and a TypeError."""


class AxisNameError(PellucidError, NameError):
    """A named axis that nothing around the call binds."""


class MissingFieldError(ArgumentValueError, KeyError, IndexError):
    """A format string has a field for which there is no argument."""

    __str__ = Exception.__str__  # KeyError would show the text as a literal


class CollectiveError(PellucidError, ValueError):
    """A collective that its operands, or where it stands, do not allow."""


class ShapeError(PellucidError, TypeError, ValueError):
    """Shapes or ranks of operands do not fit together.

    Both builtin parents are kept because the reference raises either, depending on the function.
    """


class DtypeError(PellucidError, TypeError, ValueError):
    """Element types of operands do not fit together or are not accepted; its parents are those of ShapeError."""


class IndexingError(PellucidError, IndexError, TypeError):
    """An index that arrays do not support."""


class JAXTypeError(PellucidError, TypeError):
    """A traced value was used where, or when, only a value can be used.

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
    """A value is needed now, but it is only known when the program runs.

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
    """A traced value was asked for its NumPy array.

    >>> pl.jit(np.asarray)(1.0)
    Traceback (most recent call last):
        ...
    pellucid.errors.TracerArrayConversionError: a traced array was used as a NumPy array, but its value is known only when the program runs.
    ...
    """


class JAXIndexError(PellucidError, IndexError):
    """An index that depends on a traced value.

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
    """A traced value outlived the function whose tracing made it, or is used outside of it.

    >>> kept = []
    >>> _ = pl.jit(kept.append)(1.0)
    >>> kept[0] + 1
    Traceback (most recent call last):
        ...
    pellucid.errors.UnexpectedTracerError: a traced value was used after the tracing of `append` that made it had ended.
    ...
    """


class UnsupportedError(PellucidError, NotImplementedError):
    """An argument that NumPy or the reference knows and that has no meaning, or none yet, here."""


class MissingRule(PellucidError, NotImplementedError):
    """A primitive lacks the rule that a transformation needs."""


class IrreversibleLoopError(MissingRule, ValueError):
    """Reverse mode through a loop whose number of steps is known only when it runs."""


class DerivativeRuleError(PellucidError, TypeError, ValueError, AttributeError):
    """A derivative that a user defined is missing, gives what does not fit, or can't be applied.

    The reference raises any of the builtin parents, depending on what is wrong.
    """


class BatchingRuleError(PellucidError, TypeError, ValueError, AttributeError):
    """A batching rule that a user defined is missing, or gives what does not fit."""


class CallbackBatchingError(BatchingRuleError, NotImplementedError):
    """`vmap` of a callback that states no way to batch it."""


class EffectsError(PellucidError, NotImplementedError, ValueError):
    """Side effects where none of their kind is allowed."""


class RemovedError(PellucidError, NotImplementedError):
    """A setting that the reference once had and has removed."""


class JaxprTypeError(PellucidError, TypeError):
    """A program breaks its own typing rules; always a mistake of whoever built it.

    >>> jaxpr = pl.make_jaxpr(lambda x: x + 1)(1.0).jaxpr
    >>> pl.core.check_jaxpr(jaxpr.replace(eqns=[]))
    Traceback (most recent call last):
        ...
    pellucid.errors.JaxprTypeError: ...
    """


class ArrayConversionError(PellucidError, TypeError, ValueError):
    """An array that can't become the Python value or buffer that was asked for."""


class DeletedArrayError(PellucidError, RuntimeError, ValueError):
    """An array whose memory is gone was used: it was deleted, or donated to a call."""


class DeviceError(PellucidError, RuntimeError, ValueError):
    """Devices, platforms or memories that are missing or do not fit together."""


class PlatformError(PellucidError, RuntimeError):
    """A platform that could not be started, or isn't there."""


class XlaError(PellucidError, JaxRuntimeError):
    """XLA refused a program, or a program failed while it ran; also a kind of the error that jaxlib's own code raises.

    >>> issubclass(pl.errors.XlaError, pl.errors.JaxRuntimeError)
    True
    """


class DistributedError(XlaError):
    """Processes that could not be joined, or are not joined, or don't agree."""


class DistributedTimeoutError(DistributedError, TimeoutError):
    """Processes that did not come, or did not answer, in time."""


class PeerFailureError(DistributedError):
    """A process of the job died or went silent; `failed` are their indices."""

    failed: tuple[int, ...] = ()


class ProcessFailureError(PeerFailureError):
    """A process died or went silent during a block of `live_devices`; `failed_devices` are its devices among these.

    >>> raise pl.experimental.multihost_utils.ProcessFailureError("process 1 died.")
    Traceback (most recent call last):
        ...
    pellucid.experimental.multihost_utils.ProcessFailureError: process 1 died.
    """

    __module__ = "pellucid.experimental.multihost_utils"

    failed_devices: frozenset[Any] = frozenset()


class AgreementError(DistributedError, AssertionError):
    """Processes that should have said the same said different things."""


class CompilationError(XlaError):
    """XLA refused a program."""


class CompilerOptionError(XlaError, ValueError):
    """A compiler option that doesn't exist, or a value that it does not take."""


class ExecutionError(XlaError):
    """A compiled program failed while it ran."""


class CallbackError(ExecutionError, ValueError):
    """A Python function that a program called raised an exception, or returned what doesn't fit.

    The exception is its cause.
    """


class OutOfMemoryError(ExecutionError, MemoryError):
    """A device had not enough memory."""


class ConfigError(PellucidError, AttributeError, ValueError):
    """An option that doesn't exist or a value that it does not take."""


class CacheError(PellucidError, RuntimeError):
    """The on-disk compilation cache has a fault, while `raise_persistent_cache_errors` is on."""


class ForbiddenError(PellucidError, RuntimeError):
    """Something happened that an option forbids: tracing under `no_tracing`, execution under `no_execution`."""


class TransferGuardError(PellucidError, RuntimeError):
    """A transfer happened that the transfer guard forbids."""


class KeyReuseError(JAXTypeError):
    """A random key was used for a second time while `debug_key_reuse` is on.

    >>> key = pl.random.key(0)
    >>> with pl.debug_key_reuse(True):
    ...     pl.random.normal(key), pl.random.normal(key)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    pellucid.errors.KeyReuseError: `normal` uses a random key for a second time.
    """


class NonFiniteError(PellucidError, FloatingPointError):
    """A result holds NaN or infinity while `debug_nans` or `debug_infs` is on."""


class LeakError(PellucidError):
    """A traced value was kept alive after tracing ended, found by the leak checker."""
