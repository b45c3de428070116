#!/bin/bash
#SBATCH --job-name=troupe
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@120
# One rank on each of two nodes: `sbatch job.sh`. Two minutes before the time limit Slurm warns all tasks; the job saves
# and ends, and the next `sbatch job.sh` resumes it. Arguments go to `troupe train`.
set -e
cd "$SLURM_SUBMIT_DIR"
umask 077
test -e certs/ca.key || troupe cert init certs
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  test -e "certs/$node" || troupe cert issue certs "$node"
done
srun --kill-on-bad-exit=1 troupe train train.yaml "$@"
