"""What kernels hold in the fast memories of TPUs and GPUs, as text and as static HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from pellucid.introspect.schema import (
    ChipRecord,
    KernelMemoriesRecord,
    KernelMemoryPartRecord,
    KernelMemoryRecord,
)
from pellucid.introspect.values import bytes_text
from pellucid_viz.render.grids import NO_KERNEL, count_with_noun, percent

HEADS = ["memory", "held for", "type", "buffers", "bytes", "unused", "line"]
WIDTH = 48
SPACES = {"vmem": "VMEM", "smem": "SMEM", "shared": "shared memory", "registers": "registers"}
"""Memories of TPUs, then of blocks of threads on GPUs, by how they are called."""


def chip_of(record: KernelMemoriesRecord) -> ChipRecord:
    """The chip that is shown."""
    return next(chip for chip in record.chips if chip.name == record.chip)


def limit_of(kernel: KernelMemoryRecord, chip: ChipRecord, space: str) -> int:
    """Bytes that a kernel may have of a memory of the chip."""
    if kernel.gpu is not None:
        return kernel.gpu.shared_bytes if space == "shared" else kernel.gpu.register_bytes
    size = chip.vmem_bytes if space == "vmem" else chip.smem_bytes
    stated = kernel.limit_bytes if space == "vmem" else None
    return size if stated is None else min(size, stated)


def usage(kernel: KernelMemoryRecord, chip: ChipRecord, space: str) -> tuple[int, str]:
    """(bytes that the kernel holds in a memory, in words beside what it may have)."""
    total = sum([part.bytes for part in kernel.parts if part.space == space])
    limit = limit_of(kernel, chip, space)
    has = (
        "`vmem_limit_bytes` allows"
        if limit == kernel.limit_bytes and space == "vmem"
        else f"{chip.name if kernel.gpu is None else kernel.gpu.name} has"
    )
    share = "" if total > limit else f", {percent(total / limit)}"
    over = ": too much" if total > limit else ""
    return total, f"{SPACES[space]}: {bytes_text(total)}, {has} {bytes_text(limit)}{share}{over}"


def part_row(part: KernelMemoryPartRecord) -> list[str]:
    """Texts for `HEADS`."""
    unused = 1 - part.needed_bytes / part.bytes if part.bytes else 0
    return [
        SPACES[part.space], part.name, part.type, f"{part.buffer_count}", bytes_text(part.bytes),
        f"{percent(unused)}{' of tiles' * (part.space == 'vmem')}" if unused else "", part.text,
    ]  # fmt: skip


def memories_text(
    record: KernelMemoriesRecord, aligned: Callable[[list[list[str]]], list[str]]
) -> str:
    """For each kernel the bytes of each memory beside those of the chip, and a table of its parts, the largest first."""
    chip = chip_of(record)
    blocks: list[str] = []
    for kernel in record.kernels:
        lines = [f"kernel `{kernel.name}`"]
        lines += [f"  ! {line}" for line in kernel.refusal.splitlines()]
        for space in SPACES:
            total, text = usage(kernel, chip, space)
            if total or space == ("vmem" if kernel.gpu is None else "shared"):
                mark = "!" if total > limit_of(kernel, chip, space) else " "
                lines.append(f"{mark} {text}")
        if kernel.gpu is not None and kernel.gpu.compiled:
            lines.append(f"  {kernel.gpu.compiled}")
        if kernel.parts:
            lines += aligned([["  ", *row] for row in [HEADS, *map(part_row, _largest(kernel))]])
        blocks.append("\n".join(lines))
    if record.hidden_count:
        blocks.append(f"and {count_with_noun(record.hidden_count, 'more kernel')}")
    return "\n\n".join(blocks) or NO_KERNEL


def _largest(kernel: KernelMemoryRecord) -> list[KernelMemoryPartRecord]:
    return sorted(
        kernel.parts, key=lambda part: (part.space not in ("vmem", "shared"), -part.bytes)
    )


def memories_markup(
    record: KernelMemoriesRecord,
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
) -> str:
    """Bars of each memory, and a table of parts, for each kernel; what doesn't fit is in red."""
    chip = chip_of(record)
    blocks: list[str] = []
    for kernel in record.kernels:
        refusal = (
            f'<p class="pl-removed">{html.escape(kernel.refusal)}</p>' if kernel.refusal else ""
        )
        bars: list[str] = []
        for space in SPACES:
            total, text = usage(kernel, chip, space)
            if not total:
                continue
            limit = limit_of(kernel, chip, space)
            style = ' class="pl-removed"' if total > limit else ""
            share = min(1.0, total / max(limit, 1))
            bars.append(
                f'<p{style}>{html.escape(text)}<br/><svg width="320" height="10" role="img" aria-label="{html.escape(text)}">'
                f'<rect width="320" height="10" style="fill:none;stroke:var(--pl-line-strong)"/>'
                f'<rect width="{max(1.0, 320 * share):.1f}" height="10" style="fill:var(--pl-contraction)"/></svg></p>'
            )
        if kernel.gpu is not None and kernel.gpu.compiled:
            bars.append(f"<p>{html.escape(kernel.gpu.compiled)}</p>")
        parts = table(HEADS, [*map(part_row, _largest(kernel))]) if kernel.parts else ""
        blocks.append(
            f"<p><b>kernel <code>{html.escape(kernel.name)}</code></b></p>{refusal}{''.join(bars)}{parts}"
        )
    if record.hidden_count:
        blocks.append(f"<p>and {count_with_noun(record.hidden_count, 'more kernel')}</p>")
    return "".join(blocks) or f"<p>{NO_KERNEL}</p>"
