"""Submits with submitit: one held job, or with a number as its argument an array of so many."""

import sys

import submitit  # type: ignore[import-not-found]

executor = submitit.AutoExecutor(folder="submitit", cluster="slurm")
executor.update_parameters(
    timeout_min=5,
    slurm_partition="cas_v100nv_4",
    slurm_comment="field=misc;appl=pytorch",
    slurm_additional_parameters={"gres": "gpu:1", "hold": True},
)
if len(sys.argv) > 1:
    print(executor.map_array(abs, range(int(sys.argv[1])))[0].job_id)
else:
    print(executor.submit(print, "hello").job_id)
