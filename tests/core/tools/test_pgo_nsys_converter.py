"""The command that writes times measured by Nsight Systems as a profile for XLA."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid.tools import pgo_nsys_converter

HEADER = "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Kernel Name"
REPORT = f"""\
{HEADER}
NCCL:ncclGroupEnd,PushPop,1,2,1,1,7052334,7052334.0,7052334.0,7052334,7052334,0.0,"ncclDevKernel_SendRecv(ncclDevComm *, unsigned long)"
TSL:Thunk:#hlo_op=fusion.1#,PushPop,1,2,4,4,8000,2000.0,2000.0,2000,2000,0.0,fusion_1
TSL:Thunk:#hlo_op=gemm.2#,PushPop,1,2,4,4,8000,2000.0,2000.0,2000,2000,0.0,part_one
TSL:Thunk:#hlo_op=gemm.2#,PushPop,1,2,4,8,4000,500.0,500.0,500,500,0.0,part_two
TSL:Thunk:#hlo_op=gemm.2#,PushPop,1,3,2,2,5000,2500.0,2500.0,2500,2500,0.0,part_one
"Thunk:#name=jit(f)/dot[x=(1, 0)],hlo_op=custom-call.49,program_id=3#",PushPop,1,2,1,1,7250,7250.0,7250.0,7250,7250,0.0,"k(a, b)"
"TSL:XlaModule:#hlo_module=jit_f,program_id=3#",PushPop,1,2,1,1,7000,7000.0,7000.0,7000,7000,0.0,"k(a, b)"
"""
# Of gemm.2: 2 µs and 1 µs for the two kernels of one run on one device, 2.5 µs on the other.
PROFILE = """\
costs { name: "fusion.1" cost_us: 2.0 }
costs { name: "gemm.2" cost_us: 3.0 }
costs { name: "custom-call.49" cost_us: 7.25 }
"""
NSYS = """\
#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in
*--help-reports*) echo "  {report}[:base] -- NVTX Range Kernel Summary" ;;
*broken*) echo "no such recording" >&2; exit 1 ;;
*)  while [ $# -gt 0 ]; do [ "$1" = --output ] && output=$2; shift; done
    cp "$(dirname "$0")/report.csv" "$output"_{report}.csv ;;
esac
"""


def convert(source: Path, target: Path, *options: str) -> None:
    pgo_nsys_converter.main(
        ["--profile_path", str(source), "--pgle_output_path", str(target), *options]
    )


@pytest.mark.parametrize("options", [[], ["--post_process"]])
def test_a_report_is_converted(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "report.csv").write_text("Processing [run.sqlite]...\n\n" + REPORT)
    convert(tmp_path / "report.csv", tmp_path / "run.pbtxt", *options)
    assert (tmp_path / "run.pbtxt").read_text() == PROFILE


@pytest.mark.parametrize("report", pgo_nsys_converter.REPORTS)
def test_a_recording_is_read_by_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    program = tmp_path / "nsys"
    program.write_text(NSYS.replace("{report}", report))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "report.csv").write_text(REPORT)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("run.nsys-rep", "broken.nsys-rep"):
        (tmp_path / name).touch()
    convert(tmp_path / "run.nsys-rep", tmp_path / "run.pbtxt")
    assert (tmp_path / "run.pbtxt").read_text() == PROFILE
    assert f"--report {report} --format csv" in (tmp_path / "calls").read_text()
    with pytest.raises(ArgumentValueError, match="no such recording"):
        convert(tmp_path / "broken.nsys-rep", tmp_path / "run.pbtxt")


def test_without_nsys_a_table_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "run.nsys-rep").touch()
    with pytest.raises(UnsupportedError, match="nsys stats --report nvtx_kern_sum --format csv"):
        convert(tmp_path / "run.nsys-rep", tmp_path / "run.pbtxt")


def test_other_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Time (%),Total Time (ns),Name\n1.0,2,kernel\n")
    with pytest.raises(ArgumentValueError, match="no column 'NVTX Range'"):
        convert(tmp_path / "a.csv", tmp_path / "run.pbtxt")
    (tmp_path / "a.csv").write_text(REPORT.replace("hlo_op", "op"))
    with pytest.raises(ArgumentValueError, match="no kernels in ranges"):
        convert(tmp_path / "a.csv", tmp_path / "run.pbtxt")
    assert not (tmp_path / "run.pbtxt").exists()


def test_it_runs_under_the_name_of_the_reference(tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text(REPORT)
    paths = ["--profile_path", "report.csv", "--pgle_output_path", "run.pbtxt"]
    command = ["-m", "pellucid.as_jax", "-m", "jax.tools.pgo_nsys_converter", *paths]
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=True)
    assert (tmp_path / "run.pbtxt").read_text() == PROFILE
