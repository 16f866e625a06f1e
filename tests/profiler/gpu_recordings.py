"""Recordings with planes of GPUs, constructed field by field as XLA's CUPTI collector writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pellucid.introspect.protobuf import FIXED64, message_field, number_field

Stats = dict[str, int | float | str]
Event = tuple[str, int, int, Stats]
"""(name, begin, end in nanoseconds, stats)."""


def plane(name: str, lines: dict[str, Sequence[Event]], stats: Stats | None = None) -> bytes:
    """A serialized XPlane; texts of stats are references, as CUPTI's are."""
    names: dict[str, int] = {}
    keys: dict[str, int] = {}

    def stat(key: str, value: int | float | str) -> bytes:
        number = number_field(1, keys.setdefault(key, len(keys) + 1))
        if isinstance(value, str):
            return number + number_field(7, keys.setdefault(value, len(keys) + 1))
        if isinstance(value, float):
            return number + bytes([2 << 3 | FIXED64]) + struct.pack("<d", value)
        return number + number_field(3, value)

    content = message_field(2, name.encode())
    for i, (line, events) in enumerate(lines.items()):
        parts = number_field(1, i) + message_field(2, line.encode())
        for event, begin, end, event_stats in events:
            message = number_field(1, names.setdefault(event, len(names) + 1))
            message += number_field(2, 1000 * begin) + number_field(3, 1000 * (end - begin))
            for key, value in event_stats.items():
                message += message_field(4, stat(key, value))
            parts += message_field(4, message)
        content += message_field(3, parts)
    for key, value in (stats or {}).items():
        content += message_field(6, stat(key, value))
    for field, texts in ((4, names), (5, keys)):
        for text, number in texts.items():
            entry = number_field(1, number) + message_field(2, text.encode())
            content += message_field(field, number_field(1, number) + message_field(2, entry))
    return content


def recording(planes: Sequence[bytes], problems: Sequence[str] = ()) -> bytes:
    """A serialized XSpace of a session of a millisecond."""
    environment = plane(
        "Task Environment", {},
        {"profile_start_time": 1_000_000_000, "profile_stop_time": 1_001_000_000},
    )  # fmt: skip
    space = b"".join(message_field(1, each) for each in (*planes, environment))
    return space + b"".join(message_field(2, each.encode()) for each in problems)


def kernel(operation: str, correlation: int, **more: int | str) -> Stats:
    """Stats of a kernel that XLA annotated."""
    return {
        "correlation_id": correlation,
        "kernel_details": "regs:32 static_shared:0 dynamic_shared:0 grid:128,1,1 block:256,1,1 occ_pct:100",
        "hlo_op": operation, "hlo_module": "jit_step", "program_id": "7",
    } | more  # fmt: skip


H100: Stats = {
    "clock_rate": 1_830_000, "core_count": 132, "memory_bandwidth": 3_350_000_000_000,
    "compute_cap_major": 9, "compute_cap_minor": 0,
}  # fmt: skip
"""Stats of a GPU's plane."""


def two_calls(*, graphs: bool = False, problems: Sequence[str] = ()) -> bytes:
    """Two calls of `step` on two GPUs: a copy, two kernels of one instruction, a sum over both devices.

    With `graphs`, the second call's kernels run in a CUDA graph and lost their annotations.
    """
    host: list[Event] = []
    driver: list[Event] = []
    compute: dict[int, list[Event]] = {0: [], 1: []}
    copies: dict[int, list[Event]] = {0: [], 1: []}
    for call in range(2):
        begin = 100_000 * call
        host.append(("PjitFunction(step)", begin, begin + 20_000, {}))
        used: Stats = {"allocator_name": "GPU_1_bfc", "bytes_allocated": 4096 * (call + 1)}
        host.append(("MemoryAllocation", begin + 100, begin + 100, used))
        in_graph = graphs and call == 1
        for device in range(2):
            first = 100 * call + 10 * device
            for i, name in enumerate(("cuMemcpyHtoDAsync", "cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel")):  # fmt: skip
                at = begin + 1000 * (1 + i + 4 * device)
                driver.append((name, at, at + 500, {"correlation_id": first + i}))
            memory: Stats = {
                "correlation_id": first,
                "memcpy_details": "kind:h2d size:4096 async:1",
            }
            # The GPU runs behind the host: kernels of the first call end in the second one.
            ran = begin + 60_000
            copies[device].append(("MemcpyH2D", ran, ran + 2000, memory))
            for i, (name, length) in enumerate(
                (("gemm_a", 10_000), ("gemm_b", 6000), ("ncclAllReduce", 4000)), 1
            ):
                stats = kernel("all-reduce.1" if "nccl" in name else "dot.3", first + i)
                if in_graph:
                    stats = {
                        "correlation_id": first + 1,
                        "cuda_graph_id": 5,
                        "cuda_graph_node_id": i,
                    }
                compute[device].append((name, ran + 12_000 * i, ran + 12_000 * i + length, stats))
    planes = [
        plane("/host:CPU", {"python": host}),
        plane("/host:CUPTI", {"Host Threads/11": driver}),
    ]
    for device in range(2):
        lines = {
            "Stream #13(Compute)": compute[device],
            "Stream #14(MemcpyH2D)": copies[device],
            "_counters_": [
                ("power", 50_000 * i, 50_000 * i, {"power": 300.5 + i + 10 * device})
                for i in range(3)
            ],
        }
        planes.append(plane(f"/device:GPU:{device}", lines, H100))
    return recording(planes, problems)
