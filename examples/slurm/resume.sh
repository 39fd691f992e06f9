#!/bin/bash
# A training longer than the time limit: shortly before it, Slurm sends USR1 to this script, which
# asks the run to stop. The run saves its newest step and ends with status 75, and the job is queued
# again: it continues, in the middle of an epoch, with the next step.
#SBATCH --job-name=text
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -eu
source "${VENV:-.venv}/bin/activate"

stop() {
    kill -TERM $(jobs -p) || true # it may have ended by itself
}
trap stop USR1

# The job's number stays the same when it is queued again, and so does the folder.
matex run --report "report-$SLURM_JOB_ID" \
    --checkpoint "saved-$SLURM_JOB_ID" --checkpoint-every 200 --keep 2 \
    examples/04_text_lstm.py --data "${DATA:-tinyshakespeare.h5}" --epochs 200 &
run=$!

status=0
wait "$run" || status=$?
if [ "$status" -gt 128 ]; then # a signal has ended the wait, and perhaps not the run
    status=0
    wait "$run" || status=$?
fi
if [ "$status" -eq 75 ]; then # it was asked to stop, and can be continued
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
