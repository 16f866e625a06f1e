"""Events that core publishes while it works, a class for each kind, and observers that receive them."""

from pellucid._machine.base.events import (
    CacheLooked as CacheLooked,
    CallbackRan as CallbackRan,
    CompilationFinished as CompilationFinished,
    EquationStaged as EquationStaged,
    Event as Event,
    Observer as Observer,
    PassFinished as PassFinished,
    StageEnded as StageEnded,
    StageStarted as StageStarted,
    TraceFinished as TraceFinished,
    TracerLeaked as TracerLeaked,
    TransferFinished as TransferFinished,
    TransferStarted as TransferStarted,
    WaitEnded as WaitEnded,
    WaitStarted as WaitStarted,
    add_observer as add_observer,
    by_tool as by_tool,
    counting as counting,
    observe as observe,
    remove_observer as remove_observer,
)
