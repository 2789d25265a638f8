"""The environment Slurm's commands get: nothing that changes what is asked or printed."""

from __future__ import annotations

import pytest

from neuronctl.slurm.process import clean_environment, plain_words, unreachable

PASSED_ON = {
    "PATH": "/usr/bin",
    "HOME": "/home/kim",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_JWT": "token",
    "SLURM_MPI_TYPE": "pmix",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "4",
    "OMPI_MCA_btl": "tcp",
    "PMIX_MCA_gds": "hash",
    "HOROVOD_TIMELINE": "t.json",
    "HF_HOME": "/scratch/kim/hf",
    "MASTER_KEY_FILE": "x",
    "RANKING": "1",
}

STALE = """
SBATCH_PARTITION SBATCH_TIMELIMIT SALLOC_ACCOUNT SQUEUE_FORMAT SCANCEL_STATE SLURM_TIME_FORMAT
SLURM_CLUSTERS SRUN_CPUS_PER_TASK SLURM_JOB_ID SLURM_PROCID SLURM_CPUS_PER_TASK SLURMD_NODENAME
SLURM_EXPORT_ENV MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_WORLD_SIZE NODE_RANK
TORCHELASTIC_RUN_ID CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES OMPI_COMM_WORLD_RANK PMIX_RANK
PMI_SIZE HOROVOD_RANK HOROVOD_GLOO_RENDEZVOUS_ADDR
"""


@pytest.mark.parametrize("for_job", [True, False])
def test_what_a_user_exported_is_passed_on_and_nothing_stale(for_job: bool) -> None:
    clean = clean_environment({**PASSED_ON, **dict.fromkeys(STALE.split(), "x")}, for_job=for_job)
    assert {name: clean.get(name) for name in PASSED_ON} == PASSED_ON
    assert sorted(set(clean) & set(STALE.split())) == []


def test_queries_answer_in_utc_and_a_jobs_locale_stays_the_users() -> None:
    mine = {"TZ": "Asia/Seoul", "LC_ALL": "ko_KR.UTF-8"}
    assert clean_environment(mine, for_job=True) == mine
    query = clean_environment(mine, for_job=False)
    assert (query["TZ"], query["LC_ALL"]) == ("UTC", "C")


def test_plain_words() -> None:
    noisy = "sbatch: error: spank: x11.so: Plugin file not found\nsbatch: error: Invalid account\n"
    assert plain_words(noisy) == "Invalid account\nspank: x11.so: Plugin file not found"
    said = (
        "sbatch: error: Batch job submission failed: Invalid qos specification\n"
        "sbatch: warning: can't honor --ntasks-per-node\nscancel: fatal: no\nsacct: hm\n"
    )
    assert plain_words(said) == (
        "Batch job submission failed: Invalid qos specification\n"
        "warning: can't honor --ntasks-per-node\nno\nhm"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Unable to contact slurm controller (connect failure)", True),
        ("slurm_load_jobs error: Socket timed out on send/recv operation", True),
        ("Batch job submission failed: Zero Bytes were transmitted or received", True),
        ("Could not establish a configuration source", True),
        ("Batch job submission failed: Invalid account or account/partition combination", False),
        ("Access/permission denied", False),
        ("Unable to open file /scratch/x.sh", False),
    ],
)
def test_a_cluster_that_is_away_is_not_a_refusal(words: str, expected: bool) -> None:
    assert unreachable(words) is expected
