#!/bin/bash
# One node, a rank for each task. Start with: sbatch examples/slurm/one_node.sh
#SBATCH --job-name=digits
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
set -eu
source "${VENV:-.venv}/bin/activate"

# No -n: matex takes the number of ranks from the job. With exec it hears what Slurm tells the job,
# as by scancel or at the time limit, and saves.
exec matex run --report "report-$SLURM_JOB_ID" --checkpoint "saved-$SLURM_JOB_ID" \
    examples/02_mnist_cnn.py --data "${DATA:-mnist.h5}" --epochs 20
