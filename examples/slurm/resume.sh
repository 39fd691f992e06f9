#!/bin/bash
# A training longer than the time limit: shortly before it, Slurm sends USR1 to this script, which
# ends the run and queues the job again. The next one continues, in the middle of an epoch, from
# the newest checkpoint. What was trained after that checkpoint is trained again, so save often.
#SBATCH --job-name=text
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -eu
source "${VENV:-.venv}/bin/activate"

again=no
stop() {
    again=yes
    kill -TERM "$!" || true # it may have ended by itself
}
trap stop USR1

# The job's number stays the same when it is queued again, and so does the folder.
matex run --report "report-$SLURM_JOB_ID" \
    --checkpoint "saved-$SLURM_JOB_ID" --checkpoint-every 200 --keep 2 \
    examples/04_text_lstm.py --data "${DATA:-tinyshakespeare.h5}" --epochs 200 &
run=$!

status=0
wait "$run" || status=$?
if [ "$again" = yes ]; then
    wait "$run" || true # the signal may have ended the first wait and not the run
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
fi
exit "$status"
