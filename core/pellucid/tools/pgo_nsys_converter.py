r"""Command that writes times of a GPU program, measured by Nsight Systems, as a profile that XLA schedules by.

    nsys profile --output run python train.py
    python -m pellucid.tools.pgo_nsys_converter --profile_path run.nsys-rep --pgle_output_path run.pbtxt
    XLA_FLAGS=--xla_gpu_pgle_profile_file_or_directory_path=run.pbtxt python train.py

XLA names each operation that it launches in a range of NVTX, as `TSL:Thunk:#hlo_op=fusion.1#`. `nsys stats` sums the kernels of
each range; the profile has one line `costs { name: "fusion.1" cost_us: 2.0 }` for each operation (openxla/xla,
tsl/profiler/protobuf/profiled_instructions.proto). Record without overlap, so that times are those of one operation:
`--xla_gpu_enable_latency_hiding_scheduler=false`.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError

REPORTS = ("nvtx_kern_sum", "nvtxkernsum")
"""Names of the report with the kernels of each range, in newer and older releases of Nsight Systems."""
_COMMAND = __spec__.name if __spec__ else __name__
"""The name by which the module is run: `jax.tools.pgo_nsys_converter` where pellucid answers for jax."""
_OPERATION = re.compile(r"\bhlo_op=(?P<name>[^,#]+)")
_RANGE, _RANGES, _TOTAL_NS = "NVTX Range", "NVTX Inst", "Total Time (ns)"
_THREAD = ("PID", "TID")


def instruction_costs(rows: Iterable[Mapping[str, str]]) -> dict[str, float]:
    """Microseconds that each operation of XLA takes, from the rows of the report.

    A range has a row for each of its kernels: their times are added, and divided by how often the range was entered. Of threads,
    which stand for devices, and of programs with an operation of the same name, the slowest one counts.

    Raises: ArgumentValueError if the table is another one, or names no operation.

    >>> row = {"NVTX Range": "TSL:Thunk:#hlo_op=fusion.1#", "NVTX Inst": "4", "Total Time (ns)": "8000", "PID": "1", "TID": "2"}
    >>> instruction_costs([row, row])
    {'fusion.1': 4.0}
    """
    sums: dict[tuple[str, ...], float] = {}
    for row in rows:
        missing = [name for name in (_RANGE, _RANGES, _TOTAL_NS, *_THREAD) if row.get(name) is None]
        if missing:
            raise ArgumentValueError(
                "this table isn't a summary of the kernels in ranges of NVTX.",
                got=f"no column {missing[0]!r} among {', '.join(map(repr, row))}",
                do=f"Pass the recording, or what `nsys stats --report {REPORTS[0]} --format csv` writes of it.",
            )
        match = _OPERATION.search(row[_RANGE])
        if match is not None:
            key = (match["name"], row[_RANGE], *[row[name] for name in _THREAD])
            sums[key] = sums.get(key, 0.0) + float(row[_TOTAL_NS]) / float(row[_RANGES]) / 1e3
    if not sums:
        raise ArgumentValueError(
            "the recording has no kernels in ranges that name an operation of XLA.",
            do="Record a program that ran on a GPU, with `nsys profile --trace=cuda,nvtx`.",
        )
    costs: dict[str, float] = {}
    for (name, *_), microseconds in sums.items():
        costs[name] = max(costs.get(name, 0.0), microseconds)
    return costs


def profile_text(costs: Mapping[str, float]) -> str:
    r"""The profile in protobuf's text form.

    >>> profile_text({"fusion.1": 2.0})
    'costs { name: "fusion.1" cost_us: 2.0 }\n'
    """
    return "".join(
        f'costs {{ name: "{name}" cost_us: {cost!r} }}\n' for name, cost in costs.items()
    )


def _report(recording: Path) -> str:
    """The CSV of the report that `nsys stats` makes of a recording."""
    program = shutil.which("nsys")
    if program is None:
        raise UnsupportedError(
            "the recording can't be read: `nsys` of Nsight Systems isn't on the PATH.",
            got=str(recording),
            do=f"Run `nsys stats --report {REPORTS[0]} --format csv` where it is, and pass the file that it writes.",
        )
    known = _run(program, "stats", "--help-reports")
    report = next((name for name in REPORTS if re.search(rf"\b{name}\b", known)), REPORTS[-1])
    with tempfile.TemporaryDirectory() as folder:
        options = ("--force-export", "true", "--report", report, "--format", "csv")
        _run(program, "stats", *options, "--output", f"{folder}/profile", str(recording))
        return Path(folder, f"profile_{report}.csv").read_text(encoding="utf-8")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (no shell)
    if done.returncode:
        raise ArgumentValueError(
            f"`nsys {command[1]}` failed.", got=(done.stderr or done.stdout).strip()[-300:]
        )
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    >>> main(["--profile_path", "absent.nsys-rep", "--pgle_output_path", "a.pbtxt"])
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no file absent.nsys-rep
    """
    parser = argparse.ArgumentParser(
        f"python -m {_COMMAND}",
        description="Write a recording of Nsight Systems as a profile for XLA's latency estimator.",
    )
    parser.add_argument(
        "--profile_path", type=Path, required=True,
        help="a recording (.nsys-rep, .sqlite), or the CSV of its report",
    )  # fmt: skip
    parser.add_argument("--pgle_output_path", type=Path, required=True, help="the file to write")
    parser.add_argument(
        "--post_process", action="store_true",
        help="one line for each operation, with its greatest cost: so it is anyway",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    recording: Path = options.profile_path
    if not recording.exists():
        raise FileNotFoundError(f"there is no file {recording}")
    is_table = recording.suffix == ".csv"
    text = recording.read_text(encoding="utf-8") if is_table else _report(recording)
    # Lines before the table's are what the program says of itself.
    begin = text.find(f"{_RANGE},")
    costs = instruction_costs(csv.DictReader(text[max(begin, 0) :].splitlines()))
    options.pgle_output_path.write_text(profile_text(costs), encoding="utf-8")


__all__ = ["instruction_costs", "main", "profile_text"]


if __name__ == "__main__":
    main()
