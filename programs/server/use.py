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
    names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    devices = next(filter(None, map(os.environ.get, names)), "")
    if not re.match(r"\d|GPU-|MIG-", devices) or not any(map(shutil.which, TOOLS)):
        return False
    reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpus.sh")
    ask = ["bash", "-c", '. "$1"; read_gpus utilization.gpu', "bash", reader]
    try:
        answer = subprocess.check_output(ask, stderr=subprocess.DEVNULL, timeout=30).decode()
        titles, *rows = [re.split(" *, *", line.strip()) for line in answer.strip().split("\n")]
        use = next(place for place, title in enumerate(titles) if title.startswith("utilization"))
        return not rows or any(int(row[use]) > GPU_IDLE for row in rows)
    except (OSError, ValueError, IndexError, StopIteration, subprocess.SubprocessError):
        return True


def core_seconds(job):
    """Return the seconds of core time of each process of this user's that belongs to a job."""
    times, tick = {}, os.sysconf("SC_CLK_TCK")
    mark = b"SLURM_JOB_ID=" + job.encode() + b"\0"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark not in file.read() or int(pid) == os.getpid():
                    continue
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            times[pid] = (int(fields[11]) + int(fields[12])) / tick
    return times


class Use:
    """Whether somebody uses a server, as far as that can be known."""

    def __init__(self, server):
        self.server, self.gated = server, server.recipe["guard"] == "gate"
        self.at, self.times, self.gate_used = time.time(), {}, None

    def is_seen(self):
        """Return True if somebody or something uses the server."""
        return self._by_people() or self._by_cores() or gpus_work()

    def _by_people(self):
        if self.server.recipe["used"]:
            return self.server.holds(self.server.recipe["used"])
        if not self.gated:
            return has_connection(self.server.port)
        before, self.gate_used = self.gate_used, 0
        with contextlib.suppress(OSError):
            self.gate_used = os.stat(self.server.folder + "/used").st_mtime
        return before is not None and before != self.gate_used

    def _by_cores(self):
        """Return True if cores are in use; a server behind the gate runs nothing of the user."""
        if self.gated:
            return False
        before, at = self.times, self.at
        self.times, self.at = core_seconds(self.server.job), time.time()
        spent = sum(max(0, self.times[pid] - before[pid]) for pid in self.times if pid in before)
        return spent > CORES_IDLE * (self.at - at)
