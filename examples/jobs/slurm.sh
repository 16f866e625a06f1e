#!/bin/bash
# One job of eight processes on two machines, each with one GPU:   sbatch examples/jobs/slurm.sh
# Other programs:   sbatch examples/jobs/slurm.sh train.py --epochs 3
#SBATCH --job-name=pellucid
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.log
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

# Slurm copies this file elsewhere; the program is found from the folder of `sbatch`.
if [ $# -eq 0 ]; then
    set -- examples/data_per_process.py cluster
fi
# Only processes that know it may join: a job's port is open to the network.
PELLUCID_DISTRIBUTED_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export PELLUCID_DISTRIBUTED_SECRET

# `initialize()` reads what srun tells each process. A process that fails ends the others, so that the job can be started again.
exec srun --kill-on-bad-exit=1 --label python -u "$@"
