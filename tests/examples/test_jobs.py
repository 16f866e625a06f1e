"""The job files are valid, agree with what they start, and start one job."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "examples" / "jobs"
SLURM, KUBERNETES = JOBS / "slurm.sh", JOBS / "kubernetes.yaml"
NUMBER, WORD, TIME = r"\d+", r"\S+", r"(\d+-)?\d\d:\d\d:\d\d"
SBATCH_OPTIONS = {
    "cpus-per-task": NUMBER, "gpus-per-node": NUMBER, "job-name": WORD, "nodes": NUMBER, "ntasks-per-node": NUMBER,
    "open-mode": "append|truncate", "output": WORD, "requeue": None, "time": TIME,
}  # fmt: skip
"""Options of sbatch with the form of their values; None for those that take none."""
SRUN = """\
#!{python}
# Starts two processes on this machine, with what srun tells those of a step.
import os, subprocess, sys
command = [part for part in sys.argv[1:] if part not in ("--kill-on-bad-exit=1", "--label")]
names = {{"SLURM_JOB_ID": "{job}", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}}
processes = [
    subprocess.Popen(command, env={{**os.environ, **names, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)}})
    for i in range(2)
]
sys.exit(max([abs(process.wait()) for process in processes]))
"""


def sbatch_options() -> dict[str, str | None]:
    """The options in the first comments of the script, which are all that sbatch reads."""
    head = SLURM.read_text(encoding="utf-8").partition("\nset ")[0]
    lines = re.findall(r"^#SBATCH (.*)$", head, re.MULTILINE)
    words = [shlex.split(line) for line in lines]
    assert all(len(word) == 1 and word[0].startswith("--") for word in words)
    parts = [word[0].removeprefix("--").partition("=") for word in words]
    return {name: value if equals else None for name, equals, value in parts}


def test_the_script_is_one_of_bash_and_sbatch() -> None:
    subprocess.run(["bash", "-n", SLURM], check=True)
    assert SLURM.stat().st_mode & stat.S_IXUSR
    assert "#SBATCH" not in SLURM.read_text(encoding="utf-8").partition("\nset ")[2]
    options = sbatch_options()
    assert options.keys() == SBATCH_OPTIONS.keys()
    for name, value in options.items():
        form = SBATCH_OPTIONS[name]
        assert value is None if form is None else re.fullmatch(form, value or ""), name


def test_slurm_starts_a_process_for_each_gpu() -> None:
    options = sbatch_options()
    assert options["ntasks-per-node"] == options["gpus-per-node"]
    script = SLURM.read_text(encoding="utf-8")
    [program] = re.findall(r"examples/\w+\.py", script.partition("set -- ")[2])
    assert (ROOT / program).exists()


@pytest.mark.multi_process
def test_the_processes_of_the_script_form_one_job(tmp_path: Path) -> None:
    job = os.getpid()  # the port follows from it
    (tmp_path / "srun").write_text(SRUN.format(python=sys.executable, job=job))
    (tmp_path / "srun").chmod(0o755)
    folders = [str(ROOT / folder) for folder in ("core", "kernel", "viz", "profiler")]
    path = [str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", SLURM], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={
            **os.environ, "PATH": os.pathsep.join(path), "PYTHONPATH": os.pathsep.join(folders), "XLA_FLAGS": "",
            "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4", "PELLUCID_NUM_CPU_DEVICES": "4",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step    1  loss 56.8317") == 1  # by process 0, over the rows of both
    assert "weights [-0.  1.  2.  3.  4.  5.]" in done.stdout


def documents() -> dict[str, dict[str, Any]]:
    """The objects of the file by their kind."""
    objects = list(yaml.safe_load_all(KUBERNETES.read_text(encoding="utf-8")))
    return {each["kind"]: each for each in objects}


def test_the_file_is_one_of_kubernetes() -> None:
    validate: Any = pytest.importorskip(
        "kubernetes_validate", reason="its schemas are in the package kubernetes-validate"
    )
    assert documents().keys() == {"Service", "Job"}
    for document in documents().values():
        validate.validate(document, "1.31", strict=True)


def test_pods_find_the_first_one() -> None:
    service, job = documents()["Service"], documents()["Job"]
    spec = job["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    [(label, name)] = service["spec"]["selector"].items()
    assert (label, name) == ("batch.kubernetes.io/job-name", job["metadata"]["name"])
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    [port] = [each["port"] for each in service["spec"]["ports"]]
    address = f"{job['metadata']['name']}-0.{pod['subdomain']}:{port}"
    variables = {each["name"]: each for each in container["env"]}
    assert container["args"] == [address, str(spec["completions"]), "$(PROCESS)"]
    place = variables["PROCESS"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert place == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert (ROOT / container["command"][-1]).exists()
    # Eight files are cut evenly over all devices.
    assert 8 % (spec["completions"] * int(variables["JAX_NUM_CPU_DEVICES"]["value"])) == 0
