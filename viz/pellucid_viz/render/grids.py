"""Grids of kernels as text and as static HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from pellucid.introspect.schema import GridKernelRecord, GridOperandRecord, KernelGridsRecord
from pellucid.introspect.values import bytes_text
from pellucid_viz.render.quantities import count_text

NO_KERNEL = "no kernel is called here; derivatives and batches of kernels run as ordinary programs"
HEADS = ["operand", "type", "block", "blocks", "moved", "bytes moved", "least", "not used"]


def title(kernel: GridKernelRecord) -> str:
    """Name, grid and number of programs of a kernel."""
    sizes = " × ".join(map(str, kernel.grid))
    grid = f" over a grid of {sizes}" if kernel.grid else ""
    # A grid of unknown size has neither sizes nor programs; one without axes has a program.
    is_known = bool(kernel.grid) or kernel.program_count > 0
    programs = count_with_noun(kernel.program_count, "program") if is_known else "programs unknown"
    return f"kernel `{kernel.name}`{grid}: {programs}"


def count_with_noun(count: int, noun: str) -> str:
    """`count` with a noun, in the plural unless it is 1.

    >>> count_with_noun(1, "program"), count_with_noun(4096, "program")
    ('1 program', '4,096 programs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ratio_text(moved: float, least: float | None) -> str:
    """Text of the ratio of moved bytes to the least possible; empty if that is unknown.

    >>> ratio_text(300, 200), ratio_text(5, 5)
    (', 1.5 times the least possible', ', the least possible')
    """
    if not least:
        return ""
    return (
        ", the least possible"
        if moved == least
        else f", {moved / least:.3g} times the least possible"
    )


def faults(kernel: GridKernelRecord) -> list[str]:
    """Faults of the grid, a sentence for each."""
    found = [kernel.refusal] if kernel.refusal else []
    if kernel.sharing_count:
        found.append(
            f"{count_with_noun(kernel.sharing_count, 'program')} along parallel axes write the same elements: a race"
        )
    if kernel.outside_count:
        found.append(
            f"blocks outside of their arrays, in {count_with_noun(kernel.outside_count, 'program')}"
        )
    found += [
        f"no program writes {count_with_noun(each.unseen_elements, 'element')} of {each.name}"
        for each in kernel.operands
        if each.unseen_elements
    ]
    return found


def facts(kernel: GridKernelRecord) -> list[str]:
    """Bytes, operations and idle programs, each in a clause."""
    moved, least = kernel.moved_bytes, kernel.least_bytes
    # Without cells nothing is known of any block.
    lines = [f"moves {bytes_text(moved)}{ratio_text(moved, least)}"] if kernel.cells else []
    if kernel.flops is not None and moved:
        least_word = "at least " if kernel.is_least else ""
        intensity = f"{kernel.flops / moved:.3g} flops per byte"
        lines.append(f"{least_word}{count_text(kernel.flops, 'flop')} (estimate), {intensity}")
    if kernel.stated_flops is not None and kernel.stated_bytes is not None:
        lines.append(
            f"`cost_estimate` states {count_text(kernel.stated_flops, 'flop')} and {bytes_text(kernel.stated_bytes)}"
        )
    if kernel.idle_count:
        lines.append(
            f"idle, without a write: {count_with_noun(kernel.idle_count, 'program')} of {kernel.program_count:,}"
        )
    if kernel.parallel_axes:
        axes = ", ".join(map(str, kernel.parallel_axes))
        lines.append(
            f"parallel along {'axis' if len(kernel.parallel_axes) == 1 else 'axes'} {axes}"
        )
    return [*lines, *([f"note: {kernel.note}"] if kernel.note else [])]


def is_wrong(operand: GridOperandRecord) -> bool:
    """Whether something about the blocks of an operand is wrong."""
    return bool(operand.unseen_elements or operand.shared_elements or operand.outside_count)


def operand_row(operand: GridOperandRecord) -> list[str]:
    """Texts for `HEADS`."""
    block = " × ".join(str(dim.block) for dim in operand.dims)
    if any(dim.rule == "accessed" for dim in operand.dims):
        block = "parts of all"
    moves = [
        f"{count:,} {word}"
        for count, word in ((operand.fetch_count, "fetched"), (operand.write_count, "written"))
        if count
    ]
    return [
        operand.name,
        operand.type,
        block or ("all" if not operand.note else ""),
        operand.note or f"{operand.block_count:,}",
        ", ".join(moves),
        "" if operand.note else bytes_text(operand.moved_bytes),
        "" if operand.least_bytes is None else bytes_text(operand.least_bytes),
        ", ".join(unused_shares(operand)),
    ]


def unused_shares(operand: GridOperandRecord) -> list[str]:
    """Shares of blocks beyond the array, and of loads and stores that are masked."""
    beyond, masked = operand.beyond_share, operand.masked_share or 0.0
    return [
        *([f"{percent(beyond)} beyond the edge"] if beyond else []),
        *([f"{percent(masked)} masked"] if masked else []),
    ]


def percent(share: float) -> str:
    """A share of one.

    >>> percent(0.375), percent(0.00012)
    ('37.5 %', '0.012 %')
    """
    return f"{100 * share:.3g} %"


def grids_text(record: KernelGridsRecord, aligned: Callable[[list[list[str]]], list[str]]) -> str:
    """Text of the kernels, one below the other; `!` marks faults."""
    parts: list[str] = []
    for kernel in record.kernels:
        rows = [
            [" ", *HEADS],
            *([("! "[not is_wrong(each)]), *operand_row(each)] for each in kernel.operands),
        ]
        lines = [title(kernel)]
        lines += [f"  ! {line}" for fault in faults(kernel) for line in fault.splitlines()]
        lines += [f"  {fact}" for fact in facts(kernel)]
        parts.append("\n".join([*lines, *aligned(rows)]))
    if record.hidden_count:
        parts.append(f"and {count_with_noun(record.hidden_count, 'more kernel')}")
    return "\n\n".join(parts) or NO_KERNEL


def grids_markup(
    record: KernelGridsRecord,
    table: Callable[[Sequence[str], Sequence[Sequence[str]], Sequence[bool]], str],
) -> str:
    """Facts and a table of operands for each kernel; faults are in red, their operands in amber."""
    parts: list[str] = []
    for kernel in record.kernels:
        wrong = "".join(
            f'<p class="pl-removed">{html.escape(fault)}</p>' for fault in faults(kernel)
        )
        items = "".join(f"<li>{html.escape(fact)}</li>" for fact in facts(kernel))
        operands = table(
            HEADS, [*map(operand_row, kernel.operands)], [*map(is_wrong, kernel.operands)]
        )
        parts.append(f"<p><b>{html.escape(title(kernel))}</b></p>{wrong}<ul>{items}</ul>{operands}")
    if record.hidden_count:
        parts.append(f"<p>and {count_with_noun(record.hidden_count, 'more kernel')}</p>")
    return "".join(parts) or f"<p>{NO_KERNEL}</p>"
