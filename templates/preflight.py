"""What the nodes of a job can do, measured before its program starts: for ``--preflight deep``.

Not a template: the batch shell passes it as it is to ``python -c``, with any Python from 3.6 on.
``node GPUS ADDRESS PORT MEMORY`` runs once on each node and prints what it found, as one line of
JSON; ``tell NODE...`` reads these lines, and prints one line for each node that is off. Neither
ends with anything but 0: what is measured ends no job.
"""

import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import time

# Every threshold is here.
SLOW = 0.7  # of the median of the other nodes (or GPUs): what is less is told
BUSY = 1024  # MiB in use on a GPU before the program
LEAST_DISK = 1  # GiB free
FULL = 0.1  # of the median of the others' free space in the directory for temporary files
ROOM = 2  # GiB that a process with torch may take; with less for each, none loads it
SECONDS = 45  # for what a node measures
ROUNDS, ROUND = 5, 0.3  # the best of so many rounds counts, each of so many seconds
SENT = {"nccl": 256 << 20, "gloo": 16 << 20}  # bytes that each process gives to the all-reduce


# ------------------------------------------------------------------------------- on each node


def node(gpus, address, port, asked):
    """asked: the job's memory there in MiB, 0 where it is not known."""
    begun = time.time()
    name = socket.gethostname().partition(".")[0]
    found = {"node": name, "asked": int(asked) / 1024, "memory": free_memory(), "disks": disks()}
    found["busy"] = busy()
    room = min(found["asked"] or sys.maxsize, found["memory"] or sys.maxsize)
    found["room"] = room >= ROOM * (int(gpus) or 1)
    where = (address, int(port)) if found["room"] else None
    found["processes"] = measured(int(gpus), where, begun + SECONDS)
    found["seconds"] = time.time() - begun
    print("\n" + json.dumps(found), flush=True)


def free_memory():
    """GiB that a new program can have."""
    try:
        with open("/proc/meminfo") as lines:
            sizes = dict(line.split(":", 1) for line in lines)
        return int(sizes["MemAvailable"].split()[0]) / (1 << 20)
    except (OSError, KeyError, ValueError):
        return None


def disks():
    """Free GiB of the directory for temporary files, and of the job's own."""
    free = {}
    for place in (os.environ.get("TMPDIR") or "/tmp", os.getcwd()):
        try:
            there = os.statvfs(place)
            free[place] = there.f_bavail * there.f_frsize / (1 << 30)
        except OSError as error:
            free[place] = error.strerror
    return free


def busy():
    """Of each GPU of the job: its number, the MiB in use, and the processes that use it."""
    gpus = rows("--query-gpu=index,uuid,memory.used")
    of_job = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    # A part of a GPU (MIG) has a name of its own, which is not looked for.
    if any(one.startswith("MIG") for one in of_job):
        return []
    users = rows("--query-compute-apps=gpu_uuid,pid")
    return [
        [index, int(used), [pid for of, pid in users if of == uuid]]
        for index, uuid, used in gpus
        if used.isdigit() and (not of_job or index in of_job or uuid in of_job)
    ]


def rows(query):
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = said.stdout.decode(errors="replace").splitlines()
    split = ([word.strip() for word in line.split(",")] for line in lines)
    width = query.count(",") + 1
    return [words for words in split if len(words) == width]


def measured(gpus, where, until):
    """What one process for each GPU found, or one for the cores.

    where: the address and port where they meet; None: they are to load no torch. until: when none
    is waited for any more.
    """
    found, pipes = [{} for _ in range(gpus or 1)], {}
    for local in range(gpus or 1):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            signal.alarm(SECONDS)  # ends it, whatever it does
            process(local, gpus, where, theirs)
        os.close(theirs)
        pipes[ours] = (local, b"")
    while pipes and time.time() < until:
        for pipe in select.select(list(pipes), [], [], 1)[0]:
            more = os.read(pipe, 65536)
            local, text = pipes[pipe]
            pipes[pipe] = (local, text + more)
            if not more:
                for line in text.decode().splitlines():
                    found[local].update(json.loads(line))
                del pipes[pipe]
    for local, text in pipes.values():  # it takes too long: what it has said counts
        for line in text.decode().splitlines():
            found[local].update(json.loads(line))
        found[local].setdefault("failed", f"no end within {SECONDS} s")
    return found


def process(local, gpus, where, pipe):
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)

    def tell(**facts):
        os.write(pipe, json.dumps(facts).encode() + b"\n")

    try:
        measure(local, gpus, where, tell)
    except BaseException as error:
        lines = str(error).strip().splitlines() or [""]
        tell(failed=f"{type(error).__name__}: {lines[0][:200]}")
    os._exit(0)


def measure(local, gpus, where, tell):
    if where is None:
        tell(product=product_without_torch(), on="CPU")
        return
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", 1))
    size = nodes * (gpus or 1)
    rank = int(os.environ.get("SLURM_NODEID", 0)) * (gpus or 1) + local
    try:
        import torch
    except ImportError:
        tell(torch=False)
        tell(product=product_without_torch(), on="CPU")
        return
    device = None
    if gpus and torch.cuda.is_available() and local < torch.cuda.device_count():
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    tell(product=product(torch, device), on="CPU" if device is None else "GPU")
    if size > 1:
        all_reduce(torch, device, rank, size, "tcp://{}:{}".format(*where), tell)


def product(torch, device):
    """Operations a second in a matrix product."""
    edge, kind = (8192, torch.float16) if device is not None else (1024, torch.float32)
    if device is None:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    one = torch.rand(edge, edge, device=device).to(kind)
    into = torch.empty_like(one)

    def multiply():
        torch.matmul(one, one, out=into)
        if device is not None:
            torch.cuda.synchronize()

    return speed(multiply, 2 * edge**3)


def product_without_torch():
    try:
        import numpy

        one = numpy.random.rand(1024, 1024).astype("float32")
        return speed(lambda: one @ one, 2 * 1024**3)
    except ImportError:
        edge = range(64)
        row = [float(number) for number in edge]
        return speed(
            lambda: [[sum(map(float.__mul__, row, row)) for _ in edge] for _ in edge], 2 * 64**3
        )


def speed(multiply, operations):
    multiply()  # the first one prepares what the others find
    best = 0.0
    for _ in range(ROUNDS):
        begun, times, now = time.perf_counter(), 0, 0.0
        while now < ROUND:
            multiply()
            times += 1
            now = time.perf_counter() - begun
        best = max(best, times * operations / now)
    return best


def all_reduce(torch, device, rank, size, where, tell):
    """The bandwidth as nccl-tests have it ("busbw"): bytes a second on the slowest way."""
    import datetime

    import torch.distributed as dist

    dist.init_process_group(
        "gloo",
        init_method=where,
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=SECONDS),
    )
    have = [None] * size
    dist.all_gather_object(have, device is not None)
    by, group = ("nccl", dist.new_group(backend="nccl")) if all(have) else ("gloo", None)
    numbers = torch.ones(SENT[by] // 4, device=device if by == "nccl" else None)
    best = None
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        dist.all_reduce(numbers, group=group)
        if by == "nccl":
            torch.cuda.synchronize()
        took = time.perf_counter() - begun
        best = took if best is None else min(best, took)
    tell(bandwidth=SENT[by] / best * 2 * (size - 1) / size, by=by)
    dist.barrier()  # whoever leaves earlier takes the connections with it


# ------------------------------------------------------------------------------ what is told


def tell(names, lines):
    """names: the nodes of the job. lines: what they and srun have said."""
    found, said = {}, ""
    for line in lines:
        try:
            one = json.loads(line)
            found[one["node"]] = one
        except (ValueError, KeyError, TypeError):
            said = line.strip() or said
    answers = [found[name] for name in sorted(found)]
    for name in dict.fromkeys([*names, *found]):
        if name not in found:
            off = ["no answer" + (": " + said if said else "")]
        else:
            off = list(defects(found[name], answers))
        if off:
            print("preflight deep: {} is off: {}".format(name, "; ".join(off)))
    if answers:
        print("preflight deep: " + ", ".join(summary(answers)), flush=True)


def defects(one, answers):
    """What is off with a node, with the figures of the others."""
    others = [other for other in answers if other is not one]
    every = [process for other in answers for process in other["processes"]]
    on = "GPU" if any(process.get("on") == "GPU" for process in every) else "CPU"
    for number, process in enumerate(one["processes"]):
        where = f"GPU {number}: " if on == "GPU" else ""
        if on == "GPU" and process.get("on") == "CPU":
            yield where + "Python sees no such GPU"
            continue
        # The other GPUs of the same node count too, but not other processes on the same cores.
        beside = every if on == "GPU" else [each for other in others for each in other["processes"]]
        rates = [
            each["product"]
            for each in beside
            if each is not process and each.get("on") == on and "product" in each
        ]
        if "product" in process and rates and process["product"] < SLOW * statistics.median(rates):
            yield "{}matrix product {} ({})".format(
                where, rate(process["product"]), beside_it(rates, rate)
            )
        if "failed" in process:
            yield where + process["failed"]
        if not process.get("torch", True) and any(each.get("torch", True) for each in every):
            yield where + "Python has no torch, as it has on other nodes"
    used = [mib for other in answers for number, mib, users in other["busy"]]
    for number, mib, users in one["busy"]:
        if mib > BUSY:
            rest = list(used)
            rest.remove(mib)
            by = " by process {}".format(", ".join(users)) if users else ""
            yield "GPU {}: {} MiB in use{} ({})".format(
                number, mib, by, beside_it(rest, "{} MiB".format)
            )
    free = [other["memory"] for other in others if other["memory"] is not None]
    least = one["asked"] or (SLOW * statistics.median(free) if free else 0)
    if one["memory"] is not None and one["memory"] < least:
        of = ", the job has {} there".format(gib(one["asked"])) if one["asked"] else ""
        rest = f" ({beside_it(free, gib)})" if free else ""
        yield "free memory {}{}{}".format(gib(one["memory"]), of, rest)
    for number, (place, size) in enumerate(one["disks"].items()):
        if isinstance(size, str):
            yield f"{place}: {size}"
            continue
        free = [list(other["disks"].values())[number] for other in others if other["disks"]]
        free = [each for each in free if not isinstance(each, str)]
        nearly = number == 0 and free and size < FULL * statistics.median(free)
        if size < LEAST_DISK or nearly:
            yield f"free space in {place} {gib(size)} ({beside_it(free, gib)})"


def beside_it(figures, shown):
    if not figures:
        return "no other to compare"
    least, middle, most = min(figures), statistics.median(figures), max(figures)
    if len(figures) == 1 or shown(least) == shown(most):
        return f"the others: {shown(middle)}"
    return f"the others: {shown(least)} to {shown(most)}, median {shown(middle)}"


def summary(answers):
    every = [process for one in answers for process in one["processes"]]
    nodes = len(answers)
    yield "{} node{} in {:.0f} s".format(
        nodes, "s" if nodes > 1 else "", max(one["seconds"] for one in answers)
    )
    reduced = [process for process in every if "bandwidth" in process]
    if reduced:
        yield "all-reduce over {} processes {:.2f} GB/s ({})".format(
            len(every), min(each["bandwidth"] for each in reduced) / 1e9, reduced[0]["by"]
        )
    elif not all(one["room"] for one in answers):
        yield f"no all-reduce, with less than {ROOM} GiB of memory for each process"
    elif not any(process.get("torch", True) for process in every):
        yield "no all-reduce, since Python has no torch"
    elif len(every) > 1:
        yield "no all-reduce"
    for on in ("GPU", "CPU"):
        rates = [each["product"] for each in every if each.get("on") == on]
        if rates:
            least, most = rate(min(rates)), rate(max(rates))
            yield "matrix product on each {} {}".format(
                on, least if least == most else f"{least} to {most}"
            )


def rate(operations):
    for unit, size in (("TFLOPS", 1e12), ("GFLOPS", 1e9)):
        if operations >= size:
            return f"{operations / size:.3g} {unit}"
    return f"{operations / 1e6:.3g} MFLOPS"


def gib(size):
    return f"{size:.1f} GiB"


if __name__ == "__main__":
    if sys.argv[1] == "node":
        node(*sys.argv[2:])
    else:
        tell(sys.argv[2:], sys.stdin)
