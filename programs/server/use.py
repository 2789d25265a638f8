"""Whether somebody uses a server."""

import contextlib
import os
import re
import shutil
import subprocess
import time

from asking import has_connection

TOOLS = ("nvidia-smi", "rocm-smi", "amd-smi")
GPU_IDLE, CORES_IDLE = 5, 0.2  # percent of a GPU, and cores, that a resting server may use


def gpus_work():
    """Return True if a GPU of this job works, or if its tool does not say that it rests."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES", "")
    has_gpus = re.match(r"\d|GPU-|MIG-", devices)
    if not has_gpus or not any(map(shutil.which, TOOLS)):
        return False
    try:
        percentages = read_gpu_use()
    except (OSError, ValueError, IndexError, StopIteration, subprocess.SubprocessError):
        return True
    return not percentages or max(percentages) > GPU_IDLE


def read_gpu_use():
    """Return the use of each GPU in percent."""
    reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpus.sh")
    command = ["bash", "-c", '. "$1"; read_gpus utilization.gpu', "bash", reader]
    table = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=30).decode()
    titles, *rows = [re.split(" *, *", line.strip()) for line in table.strip().split("\n")]
    column = next(index for index, title in enumerate(titles) if title.startswith("utilization"))
    return [int(row[column]) for row in rows]


def read_core_seconds(job):
    """Return the core time, in seconds, of each other process of this user in a job."""
    seconds = {}
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    mark = b"SLURM_JOB_ID=" + job.encode() + b"\0"  # in the environment of its processes
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark not in file.read() or int(pid) == os.getpid():
                    continue
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            user_ticks, system_ticks = int(fields[11]), int(fields[12])
            seconds[pid] = (user_ticks + system_ticks) / ticks_per_second
    return seconds


class Use:
    """Whether somebody uses a server, as far as that can be known."""

    def __init__(self, server):
        self.server = server
        self.is_gated = server.recipe["guard"] == "gate"
        self.cores_read_at = time.time()
        self.core_seconds = {}  # by process, at that time
        self.gate_used_at = None  # when the gate noted use; 0: never; None: not read yet

    def is_seen(self):
        """Return True if the server was in use since the last call."""
        return self._by_people() or self._by_cores() or gpus_work()

    def _by_people(self):
        """Return True if the recipe's text, the gate's note, or an open connection shows use."""
        if self.server.recipe["used"]:
            return self.server.succeeds(self.server.recipe["used"])
        if not self.is_gated:
            return has_connection(self.server.port)
        before = self.gate_used_at
        self.gate_used_at = 0
        with contextlib.suppress(OSError):
            self.gate_used_at = os.stat(self.server.folder + "/used").st_mtime
        return before is not None and before != self.gate_used_at

    def _by_cores(self):
        """Return True if cores are in use; a server behind the gate runs nothing of the user."""
        if self.is_gated:
            return False
        before, read_at = self.core_seconds, self.cores_read_at
        self.core_seconds, self.cores_read_at = read_core_seconds(self.server.job), time.time()
        spent = sum(max(0, now - before.get(pid, now)) for pid, now in self.core_seconds.items())
        return spent > CORES_IDLE * (self.cores_read_at - read_at)
