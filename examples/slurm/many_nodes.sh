#!/bin/bash
# Many nodes. Start with: sbatch --nodes=16 examples/slurm/many_nodes.sh
# When processes die or a node is lost, the others go on (--no-kill). When the job's first node is
# lost, on which this script runs, Slurm queues the job again (--requeue), under the same number,
# and it continues from the newest checkpoint.
#SBATCH --job-name=images
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
source "${VENV:-.venv}/bin/activate"

# No compiler may be there on the nodes of the job, and ~/.cache is on all of them.
matex build

# Hosts and ranks are those of the job. batch-size is that of all ranks together. With exec matex
# hears what Slurm tells the job, as by scancel or at the time limit, and saves.
exec matex run --report "report-$SLURM_JOB_ID" --max-restarts 5 \
    --checkpoint "saved-$SLURM_JOB_ID" --checkpoint-every 500 --hang-timeout 300 \
    examples/05_images_from_folders.py --data "${DATA:-imagenet}" \
    --size 224 --batch-size 1024 --epochs 90
