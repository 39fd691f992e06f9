#!/bin/bash
# Many nodes. Start with: sbatch --nodes=16 examples/slurm/many_nodes.sh
# When processes die or a node is lost, the others go on (--no-kill). When the job's first node is
# lost, on which this script runs, the others finish the training, and the job then idles: scancel
# it. A job that is preempted is queued again under the same number (--requeue), and continues from
# the newest checkpoint. A job that came to its time limit is continued by another one:
# sbatch --export=ALL,CONTINUES=NUMBER examples/slurm/many_nodes.sh
#SBATCH --job-name=images
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -eu
source "${VENV:-.venv}/bin/activate"

# No compiler may be there on the nodes of the job, and ~/.cache is on all of them.
matex build

# Hosts and ranks are those of the job. batch-size is that of all ranks together. With exec matex
# hears what Slurm tells the job, here 120 s before the time limit, and saves the running step.
job="${CONTINUES:-$SLURM_JOB_ID}"
exec matex run --report "report-$job" --max-restarts 5 \
    --checkpoint "saved-$job" --checkpoint-every 500 --hang-timeout 300 \
    examples/05_images_from_folders.py --data "${DATA:-imagenet}" \
    --size 224 --batch-size 1024 --epochs 90
