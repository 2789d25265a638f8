"""What a job really runs with, by its own look: versions, for 'neuronctl show' and 'diff'.

Not a template: the batch shell starts it as it is, in the background, with any python3 from 3.6 on:
``environment.py FOLDER BATCH_SHELL JOB``, without SLURM_JOB_ID, by which others know the job's
processes. It waits for a Python program of the job, and reads in /proc
and on the disk which Python it is and which packages it finds: it runs nothing of the user's,
enters no container, and keeps no value of a variable.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

SCHEMA = 1
WATCHED = 1800  # seconds after which a job that has started no Python is left alone
INSTALLERS = re.compile(
    r"(conda|mamba|micromamba|pip[\d.]*|uv|poetry|virtualenv|venv|ensurepip)(\.py)?$"
)
LARGEST = 64 << 20  # bytes of a program that is searched for its version
PATIENCE = 5  # seconds for a tool


def main(folder, batch_shell, own_id):
    job = os.environ["SLURM_ARRAY_JOB_ID"] if array_task() else own_id
    if array_task() not in (None, os.environ.get("SLURM_ARRAY_TASK_MIN")):
        return  # one task tells of all
    os.nice(19)
    cluster = re.sub(r"[^A-Za-z0-9_-]", "_", os.environ.get("SLURM_CLUSTER_NAME", "")) or "-"
    path = os.path.join(folder, f"{job}.{cluster}.json")
    found = {"schema": SCHEMA, "at": int(time.time()), "node": node_name()}
    lock = threading.Lock()

    def add(facts):
        with lock:
            found.update(facts)
            write(path, json.dumps(found))

    beside = threading.Thread(target=lambda: add(of_node()), daemon=True)
    beside.start()
    pid = program(batch_shell, own_id)
    if pid is not None:
        facts, packages = of_python(pid)
        if packages:
            text = "".join("{}=={}\n".format(*item) for item in sorted(packages.items()))
            facts["packages"] = hashlib.sha256(text.encode()).hexdigest()
            listed = os.path.join(folder, facts["packages"] + ".txt")
            if not os.path.exists(listed):
                write(listed, text)
        add(facts)
    beside.join()


def array_task():
    return os.environ.get("SLURM_ARRAY_TASK_ID")


def node_name():
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]


def write(path, text):
    aside = f"{path}.{os.getpid()}.new"
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(aside, path)


# --------------------------------------------------------------- the node and the working directory


def of_node():
    facts = {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    query = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
    rows = [row.split(", ", 1) for row in said(*query, *(["-i", visible] if visible else []))]
    rows = [row for row in rows if len(row) == 2]
    if rows:
        facts.update(driver=rows[0][0], gpus=[name for _, name in rows])
    else:
        text = content("/proc/driver/nvidia/version") or ""
        driver = re.search(r"Kernel Module\D*\s(\d[\d.]+)", text)
        facts.update({"driver": driver.group(1)} if driver else {})
    commit = said("git", "rev-parse", "HEAD")
    if commit and re.match(r"[0-9a-f]{40,64}$", commit[0]):
        facts["git_commit"] = commit[0]
    return facts


def said(*argv):
    """The lines that a tool prints; none where it fails or takes too long."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []


# -------------------------------------------------------------------------------------- the program


def program(batch_shell, job):
    """The process of a Python program of this job that does not end at once; None without one."""
    begun, pause, before = time.time(), 0.5, set()
    while time.time() < begun + WATCHED:
        now = {(pid, command(pid)) for pid in processes() if is_program(pid, job)}
        if now & before:
            return min(pid for pid, _ in now & before)
        if not os.path.exists(f"/proc/{batch_shell}"):
            return None
        before = now
        time.sleep(pause)
        if time.time() > begun + 20 and not now:
            pause = min(pause * 1.2, 15)
    return None


def processes():
    """The other processes of this user on this node: in a sandbox, nodes are net namespaces."""
    own = os.stat("/proc/self/ns/net").st_ino
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            mine = os.stat("/proc/" + name).st_uid == os.geteuid() and int(name) != os.getpid()
            if mine and os.stat(f"/proc/{name}/ns/net").st_ino == own:
                yield int(name)
        except OSError:
            pass


def is_program(pid, job):
    words = command(pid)
    if not words or variables(pid).get("SLURM_JOB_ID") != job:
        return False
    names = (os.path.basename(executable(pid)), os.path.basename(words[0]))
    if not any(re.match(r"python[\d.]*$", name) for name in names):
        return False
    left = list(words[1:])
    while left and left[0].startswith("-") and left[0] != "-":
        option = left.pop(0)
        if option == "-c":  # of a tool, or a helper of another program
            return False
        if option == "-m":
            break
        if option in ("-W", "-X"):
            left[:1] = []
    return bool(left) and not INSTALLERS.match(os.path.basename(left[0]))


def command(pid):
    text = content(f"/proc/{pid}/cmdline") or ""
    return tuple(text.split("\0")[:-1])


def variables(pid):
    text = content(f"/proc/{pid}/environ") or ""
    return dict(pair.partition("=")[::2] for pair in text.split("\0") if "=" in pair)


def executable(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def content(path):
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read(1 << 20)
    except OSError:
        return None


# ------------------------------------------------------------------------ its Python, as it sees it


def of_python(pid):
    """What is known of a process's Python, and its packages by name."""
    known, exe, root = variables(pid), executable(pid), f"/proc/{pid}/root"
    if not exe:
        return {}, {}  # it has ended
    here = started_as(pid, root) or exe
    prefix = os.path.dirname(os.path.dirname(here))
    settings = content(real(root, prefix + "/pyvenv.cfg"))
    settings = dict(re.findall(r"(?m)^([\w-]+)\s*=\s*(.*?)\s*$", settings or ""))
    base = os.path.dirname(settings.get("home", os.path.dirname(exe)))
    maps = content(f"/proc/{pid}/maps") or ""
    series = re.search(r"python(3\.\d+)", exe) or re.search(r"python(3\.\d+)", maps)
    series = series.group(1) if series else listed_series(root, base)
    facts = {"python": version(pid, root, maps, series) or settings.get("version") or series}
    packages, places = {}, places_of(known, settings, prefix, base, series)
    for place in (real(root, place) for place in places):
        for name, found in packages_in(place):
            packages.setdefault(name, found)
        if "torch" not in facts:
            text = content(place + "/torch/version.py") or ""
            words = dict(re.findall(r"(?m)^(\w+)\b[^=\n]*= *['\"]([^'\"\n]+)['\"]", text))
            named = {"torch": "__version__", "cuda": "cuda", "rocm": "hip"}
            facts.update({k: words[v] for k, v in named.items() if v in words})
    for name in names_in(real(root, prefix + "/conda-meta")):
        match = re.match(r"(.+)-([^-]+)-[^-]+\.json$", name)
        if match:
            facts["manager"] = "conda"
            packages.setdefault(match.group(1), match.group(2))
    facts.setdefault("manager", "pip")
    return facts, packages


def started_as(pid, root):
    """The path by which the interpreter was called: that of an environment is a link."""
    word = (command(pid) or ("",))[0]
    if word.startswith("/"):
        paths = [word]
    elif "/" in word:
        try:
            paths = [os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/cwd"), word))]
        except OSError:
            paths = []
    else:
        search = variables(pid).get("PATH", "").split(":")
        paths = [os.path.join(place, word) for place in search if place.startswith("/")]
    return next((path for path in paths if os.path.isfile(real(root, path))), "")


def real(root, path):
    """The path below a process's root, whose links lead elsewhere from here."""
    done, left, links = "", path.split("/"), 0
    while left and links < 40:
        part = left.pop(0)
        if part == "..":
            done = os.path.dirname(done).rstrip("/")
        elif part not in ("", "."):
            try:
                target = os.readlink(f"{root}{done}/{part}")
            except OSError:
                done += "/" + part
                continue
            links += 1
            left = target.split("/") + left
            done = "" if target.startswith("/") else done
    return root + done


def version(pid, root, maps, series):
    """As the program or its library has it: 3.11.2."""
    library = re.search(r"(?m)\s(/\S*/libpython\S*)$", maps)
    files = [real(root, library.group(1))] if library else []
    number = re.escape(series) + r"\.\d+(?:(?:a|b|rc)\d+)?\+?"
    pattern = re.compile(rf"(?<![\d.])({number})\0".encode())
    for path in files + [f"/proc/{pid}/exe"]:
        try:
            with open(path, "rb") as file:
                match = pattern.search(file.read(LARGEST))
        except OSError:
            continue
        if match:
            return match.group(1).decode()
    return ""


def listed_series(root, base):
    names = " ".join(names_in(real(root, base + "/lib")))
    found = re.findall(r"\bpython(3\.\d+)\b", names)
    return found[-1] if len(found) == 1 else "3"


def places_of(known, settings, prefix, base, series):
    """Where this Python looks for packages, as far as that can be told from outside."""
    below = f"/lib/python{series}/site-packages"
    places = known.get("PYTHONPATH", "").split(":")
    places += [place + below for place in known.get("EBPYTHONPREFIXES", "").split(":") if place]
    places += [prefix + below, prefix + below.replace("/lib/", "/lib64/")]
    if settings.get("include-system-site-packages", "true").lower() == "true":
        if "PYTHONNOUSERSITE" not in known and known.get("HOME"):
            places.append(known.get("PYTHONUSERBASE", known["HOME"] + "/.local") + below)
        debian = f"/lib/python{series}/dist-packages"
        places += [
            base + below,
            base + debian,
            "/usr/local" + debian,
            base + "/lib/python3/dist-packages",
        ]
    return [place for place in places if place.startswith("/")]


def packages_in(place):
    for name in names_in(place):
        match = re.match(
            r"([A-Za-z0-9][\w.-]*?)-v?(\d[^-]*)(-[^-]+)*\.(dist-info|egg-info|egg)$", name
        )
        if match:
            yield re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2)


def names_in(place):
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
