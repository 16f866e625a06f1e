"""Policies of `checkpoint`: which values the forward pass saves."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    tree_map,
)
from pellucid._machine.ir import (
    Primitive,
)
from pellucid._machine.primitives import IdentityOfValues
from pellucid._machine.tracing import (
    bind1,
)

Policy = Callable[..., Any]
"""`policy(primitive, *types of operands, **params)`: True or `Saveable` to save the results, False or `Recompute` to
recompute them, `Offloadable` to save them in another memory.
"""


class NameParams(NamedTuple):
    """`name` is the name of the value."""

    name: str


class Name(IdentityOfValues[NameParams]):
    """The identity, which names a value."""

    name = "name"


name_p = Name()


def checkpoint_name(x: Any, name: str) -> Any:
    """Names the values of the tree `x` of arrays for policies of `checkpoint`.

    >>> checkpoint_name(np.float32(1), "activations")
    Array(1., dtype=float32)
    """
    if not isinstance(name, str):
        raise ArgumentTypeError("checkpoint_name needs a string.", got=f"got {type(name).__name__}")
    return tree_map(lambda leaf: bind1(name_p, leaf, params=NameParams(name)), x)


class _Answer:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


Saveable = _Answer("Saveable")


Recompute = _Answer("Recompute")


class Offloadable(NamedTuple):
    """Decision to save a value in memory `dst` (such as "pinned_host") and move it back to `src` (such as "device").

    >>> Offloadable(src="device", dst="pinned_host").dst
    'pinned_host'
    """

    src: str
    dst: str


def decision(answer: Any) -> bool | Offloadable:
    """The result of a policy as a bool or Offloadable; raises ArgumentTypeError for other results."""
    if isinstance(answer, Offloadable):
        return answer
    if answer is Saveable or answer is Recompute:
        return answer is Saveable
    if isinstance(answer, bool):
        return answer
    raise ArgumentTypeError(
        "a policy of `checkpoint` must answer with a bool, Saveable, Recompute or Offloadable.",
        got=f"it answered {answer!r:.60}",
    )


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Saves all values, as without `checkpoint`."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Saves only the arguments, as without a policy."""
    return False


def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Saves results of matrix products and convolutions, which are expensive to recompute."""
    return primitive.name in ("dot_general", "conv_general_dilated")


def dots_with_no_batch_dims_saveable(primitive: Primitive, *_: Any, **params: Any) -> bool:
    """Saves results of matrix products without batch dimensions."""
    if primitive.name != "dot_general":
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Saves results of matrix products without batch dimensions in memory `offload_dst`.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=offload_dot_with_no_batch_dims("device", "pinned_host"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """

    def policy(*equation: Any, **params: Any) -> Any:
        is_kept = dots_with_no_batch_dims_saveable(*equation, **params)
        return Offloadable(offload_src, offload_dst) if is_kept else Recompute

    return policy


@dataclass(frozen=True)  # not a tuple: policies of different classes differ
class NamesSaveable:
    """Saves values with certain names, or with all other names; `others`: whether also values without a name."""

    names: frozenset[str]
    are_kept: bool
    others: bool = False

    def __call__(self, primitive: Primitive, *_: Any, **params: Any) -> bool:
        if primitive is not name_p:
            return self.others
        return (params["name"] in self.names) is self.are_kept


@dataclass(frozen=True)
class PolicyWithin:
    """The policy of a checkpoint within another one: saves what its own policy saves, and what the outer one saves."""

    own: Policy
    outer: Policy

    def __call__(self, primitive: Primitive, *avals: Any, **params: Any) -> Any:
        answer = decision(self.own(primitive, *avals, **params))
        # What the outer policy moves to another memory is moved there once, by the outer checkpoint.
        return answer or decision(self.outer(primitive, *avals, **params)) is True


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Saves values named by `checkpoint_name` with one of these names.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_only_these_names("square"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    return NamesSaveable(frozenset(names_which_can_be_saved), are_kept=True)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Saves values named by `checkpoint_name` with any other name.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_any_names_but_these("square"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    return NamesSaveable(frozenset(names_not_to_save), are_kept=False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Saves all values except those with these names.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_anything_except_these_names("square"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    return NamesSaveable(frozenset(names_not_to_save), are_kept=False, others=True)


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Saves values with some names, and offloads values with others to memory `offload_dst`.

    Raises: ArgumentValueError for a name in both lists.

    >>> from pellucid import checkpoint, grad
    >>> policy = save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["square"], names_which_can_be_offloaded=[],
    ...     offload_src="device", offload_dst="pinned_host",
    ... )
    >>> grad(checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=policy))(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if saved & offloaded:
        raise ArgumentValueError(
            "save_and_offload_only_these_names needs names that are either saved or offloaded.",
            got=f"both: {', '.join(sorted(saved & offloaded))}",
        )

    def policy(primitive: Primitive, *_: Any, **params: Any) -> Any:
        if primitive is name_p and params["name"] in saved:
            return Saveable
        if primitive is name_p and params["name"] in offloaded:
            return Offloadable(offload_src, offload_dst)
        return Recompute

    return policy


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Saves what either policy saves; both must return bools.

    Raises: ArgumentValueError for other answers.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_from_both_policies(dots_saveable, everything_saveable))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """

    def policy(primitive: Primitive, *avals: Any, **params: Any) -> bool:
        answers = policy_1(primitive, *avals, **params), policy_2(primitive, *avals, **params)
        if not all(isinstance(answer, bool) for answer in answers):
            raise ArgumentValueError(
                "save_from_both_policies needs policies that answer with bools.", got=f"got {answers}",
                do="Write a policy function that combines them.",
            )  # fmt: skip
        return any(answers)

    return policy


checkpoint_policies = types.SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)
"""The policies, under JAX's names."""
