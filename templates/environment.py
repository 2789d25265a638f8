"""What a job really runs with, by its own look: versions, for 'neuronctl show'.

Not a template: the batch shell starts it as it is, in the background, with any python3 from 3.6 on:
``environment.py FOLDER BATCH_SHELL JOB``, without SLURM_JOB_ID, by which others know the job's
processes. It waits for a Python program of the job, and reads in /proc and on the disk which Python
it is and which packages it finds: it runs nothing of the user's, and keeps no value of a variable.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time

WATCHED = 1800  # seconds after which a job that has started no Python is left alone
PATIENCE = 5  # seconds for a tool
INSTALLERS = re.compile(r"(conda|mamba|pip[\d.]*|uv|poetry|virtualenv|venv|ensurepip)(\.py)?$")


def main(folder, batch_shell, job):
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    if task not in (None, os.environ.get("SLURM_ARRAY_TASK_MIN")):
        return  # one task tells of all
    os.nice(19)
    cluster = re.sub(r"[^A-Za-z0-9_-]", "_", os.environ.get("SLURM_CLUSTER_NAME", "")) or "-"
    number = job if task is None else os.environ["SLURM_ARRAY_JOB_ID"]
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    found = {"schema": 1, "at": int(time.time()), "node": node, **node_facts()}
    path = os.path.join(folder, f"{number}.{cluster}.json")
    write(path, json.dumps(found))
    pid = find_program(batch_shell, job)
    if pid is None:
        return
    facts, packages = python_facts(pid)
    if packages:
        text = "".join("{}=={}\n".format(*item) for item in sorted(packages.items()))
        facts["packages"] = hashlib.sha256(text.encode()).hexdigest()
        write(os.path.join(folder, facts["packages"] + ".txt"), text)
    write(path, json.dumps({**found, **facts}))


def write(path, text):
    aside = f"{path}.{os.getpid()}.new"
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(aside, path)


def node_facts():
    """The node's driver and GPUs, and the commit of the working directory."""
    facts = {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    query = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
    rows = [row.split(", ", 1) for row in lines_of(*query, *(["-i", visible] if visible else []))]
    rows = [row for row in rows if len(row) == 2]
    if rows:
        facts.update(driver=rows[0][0], gpus=[name for _, name in rows])
    commit = lines_of("git", "rev-parse", "HEAD")
    if commit and re.match(r"[0-9a-f]{40,64}$", commit[0]):
        facts["git_commit"] = commit[0]
    return facts


def lines_of(*argv):
    """The lines that a tool prints; none where it fails or takes too long."""
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=PATIENCE, **quiet)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []


def find_program(batch_shell, job):
    """The process of a Python program of this job that does not end at once; None without one."""
    begun, before = time.time(), set()
    while time.time() < begun + WATCHED and os.path.exists(f"/proc/{batch_shell}"):
        now = {(pid, command(pid)) for pid in os.listdir("/proc") if is_program(pid, job)}
        if now & before:
            return min(int(pid) for pid, _ in now & before)
        before = now
        time.sleep(0.5 if time.time() < begun + 20 else 5)
    return None


def is_program(pid, job):
    words = command(pid)
    if not words or variables(pid).get("SLURM_JOB_ID") != job:
        return False
    if not re.match(r"python[\d.]*$", os.path.basename(words[0])):
        return False
    left = list(words[1:])
    while left and left[0].startswith("-") and left[0] not in ("-", "-m"):
        option = left.pop(0)
        if option == "-c":  # of a tool, or a helper of another program
            return False
        if option in ("-W", "-X"):
            left[:1] = []
    name = left[1:2] if left[:1] == ["-m"] else left[:1]
    return bool(name) and not INSTALLERS.match(os.path.basename(name[0]))


def command(pid):
    return tuple((content(f"/proc/{pid}/cmdline") or "").split("\0")[:-1])


def variables(pid):
    text = content(f"/proc/{pid}/environ") or ""
    return dict(pair.partition("=")[::2] for pair in text.split("\0") if "=" in pair)


def content(path):
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read(1 << 20)
    except OSError:
        return None


def python_facts(pid):
    """What is known of a process's Python, and its packages by name."""
    known, root = variables(pid), f"/proc/{pid}/root"
    try:
        program, directory = os.readlink(f"/proc/{pid}/exe"), os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return {}, {}  # it has ended
    word = (command(pid) or ("",))[0]
    search = [directory] if "/" in word else known.get("PATH", "").split(":")
    called = [os.path.join(place, word) for place in search]  # that of an environment is a link
    called = next((path for path in called if os.path.exists(root + path)), program)
    prefix = os.path.dirname(os.path.dirname(called))
    settings = content(f"{root}{prefix}/pyvenv.cfg") or ""
    settings = dict(re.findall(r"(?m)^([\w-]+)\s*=\s*(.*?)\s*$", settings))
    base = os.path.dirname(settings.get("home", os.path.dirname(program)))
    series = re.search(r"python(3\.\d+)", program)
    series = series.group(1) if series else "3"
    told = lines_of(f"/proc/{pid}/exe", "-V")  # Python 3.11.2
    version = told[0].split()[-1] if told else settings.get("version") or series
    facts = {"python": version, "manager": "pip"}
    below = f"/lib/python{series}/site-packages"
    places = [*known.get("PYTHONPATH", "").split(":"), prefix + below]
    if settings.get("include-system-site-packages", "true").lower() == "true":
        own = known.get("PYTHONUSERBASE") or known.get("HOME", "") + "/.local"
        places += [own + below, base + below, f"/usr/local/lib/python{series}/dist-packages"]
        places.append("/usr/lib/python3/dist-packages")
    packages = {}
    for place in (root + place for place in places if place.startswith("/")):
        for name in names_in(place):
            match = re.match(r"([A-Za-z0-9][\w.-]*?)-v?(\d[^-]*)(-[^-]+)*\.(dist|egg)-info$", name)
            if match:
                key = re.sub(r"[-_.]+", "-", match.group(1)).lower()
                packages.setdefault(key, match.group(2))
        if "torch" not in facts:
            text = content(place + "/torch/version.py") or ""
            words = dict(re.findall(r"(?m)^(\w+)\b[^=\n]*= *['\"]([^'\"\n]+)['\"]", text))
            named = {"torch": "__version__", "cuda": "cuda", "rocm": "hip"}
            facts.update({k: words[v] for k, v in named.items() if v in words})
    for name in names_in(f"{root}{prefix}/conda-meta"):
        match = re.match(r"(.+)-([^-]+)-[^-]+\.json$", name)
        if match:
            facts["manager"] = "conda"
            packages.setdefault(match.group(1), match.group(2))
    return facts, packages


def names_in(place):
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
