"""What neuronctl says of a request, and what Slurm then really does, state after state.

neuronctl is asked through its command line, as the user, and keeps what it keeps from one state to
the next. Slurm is asked with sbatch, and with squeue once its scheduler has looked at the job.
"""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import datetime, timezone
from random import Random
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from harness import Sandbox, restart, wait_until
from odd_states import ODD, odd_request, odd_state
from site_states import site_state
from states import (
    LICENSES,
    OTHERS,
    SCRIPT,
    SUBMIT,
    State,
    ending_state,
    random_request,
    random_state,
)

Row = Dict[str, Any]
"""state, request: how it came about. said: [verdict, cause, words, until]; happened:
["refused", message], ["starts", ""] or ["waits", reason]. wrong: what disagrees, "" where nothing
does.
"""

QUEUE = "squeue -h --array -o '%F|%T|%r'"

EVERY = 16
"""One state of so many is of jobs that end, to see when the next one starts."""

ASKED = {"JobHeldUser", "BeginTime", "Dependency"}
"""What a job waits for because it was asked to."""

FALSE_START, FALSE_REFUSAL, FALSE_WAIT = "false start", "false refusal", "false wait"
WORST_FIRST = (
    FALSE_START,
    FALSE_REFUSAL,
    "missed refusal",
    FALSE_WAIT,
    "never starts",
    "late start",
    "no verdict",
)


_DRY = ("submit", "--force", "--dry-run")

JUDGE = """
import json, os, sys, tempfile
from neuronctl.cli import program
from neuronctl.judgement import ask
import neuronctl.cli.submit, neuronctl.judgement.forecast
import neuronctl.rendering.render, neuronctl.submission.pipeline

ask.TIMEOUT = 60
for number, (argv, script) in enumerate(json.load(sys.stdin)):
    with open("job.sh", "w") as file:
        file.write(script)
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    child = os.fork()
    if not child:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.argv[1:] = argv
        program()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    out.seek(0)
    err.seek(0)
    print(json.dumps([code, out.read().decode(), err.read().decode()]), flush=True)
"""
"""Many command lines of neuronctl, each in a child of one process that has imported it already.

Standard input: [[argv, job.sh], ...]; a line of output each: [exit code, output, errors].
"""


class Comparison:
    """A sandbox of the cluster ``wide``, brought from one state into the next."""

    def __init__(self, sandbox: Sandbox, *, odd: bool = False) -> None:
        self.sandbox = sandbox
        self.odd = odd
        self.user = sandbox.running.user
        accounts = "; ".join(f"sacctmgr -i add account {account}" for account in ("acct2", "acct3"))
        others = "; ".join(
            f"sacctmgr -i add user {name} account={account}" for name, account in OTHERS.items()
        )
        if odd:
            self._root(ODD)
            restart(sandbox)
            self._bring_back()  # with ReturnToService=0, a node that was slow would stay down
        self._root(
            f"sed -i 's/^MaxArraySize/Licenses={LICENSES}\\n&/; "
            # A node that is down stays so, until the state is over.
            "s/^ReturnToService=.*/ReturnToService=0/' /etc/slurm/slurm.conf; "
            f"scontrol reconfigure; {accounts}; {others}; sacctmgr -i add qos hi; "
            "sacctmgr -i add qos lo"
        )
        self._bring_back()
        self.normal = self._site()
        self.unsettled: List[int] = []
        """The states that had no end within its time, of which there are no rows."""

    def run(self, seed: int, numbers: Sequence[int], requests: int) -> Iterator[Row]:
        """The rows of these states, each with so many requests.

        A state depends on no other, but for what neuronctl keeps of the site's limits.
        """
        for number in numbers:
            rng = Random(f"{seed}-{number}")
            ending = number % EVERY == EVERY - 1
            kinds = [random_state, random_state, site_state]
            if self.odd:
                ending, kinds = False, [odd_state] * 3
            state = (ending_state if ending else kinds[number % 3])(rng, self.user)
            asked = [[SUBMIT, *hint] for hint in state.hints] if ending else []
            request = odd_request if self.odd else random_request
            asked = asked or [request(rng, state) for _ in range(requests)]
            try:
                jobs = self._prepare(state)
                rows = self._judge(asked, jobs)
                for words, row in zip(asked, rows):
                    if _keeps_minutes(state):
                        row.update(*self._judge([words], jobs))
                    self._put(row, ending)
                self._end_all()
                for row in rows:
                    self._put_alone(row)
            except TimeoutError as error:
                print(f"state {number}: {error}", file=sys.stderr, flush=True)
                self.unsettled.append(number)
                rows = []
            finally:
                self._restore(state)
            for row in rows:
                shown = [do for do, _ in state.steps]
                shown += [
                    f"{who or self.user}: sbatch {' '.join(options)}" for who, options in state.jobs
                ]
                row = {"number": number, "state": shown, **row}
                yield {**row, "wrong": disagreement(row)}

    # ---------------------------------------------------------------------------- states

    def _bring_back(self) -> None:
        """Wait until every node is idle; resume a node that Slurm took for dead meanwhile.

        On a busy machine, a slurmd that was just started may answer after SlurmdTimeout.
        """

        def are_idle() -> bool:
            rows = [line.split() for line in self._root("sinfo -hN -o '%N %t'").splitlines()]
            for node, state in rows:
                if state.startswith(("down", "drain", "inval")):
                    self._root(f"scontrol update nodename={node} state=resume")
            return {state for _, state in rows} == {"idle"}

        try:
            wait_until(are_idle, seconds=300)
        except TimeoutError:
            raise TimeoutError(f"not all idle: {self._root('sinfo -hNl -o %N:%t:%E')}") from None

    def _prepare(self, state: State) -> List[int]:
        """Bring it about; the ids of the user's own jobs."""
        for do, _ in state.steps:
            self._root(do)
        ids = []
        for who, options in state.jobs:
            words = ["sbatch", "--parsable", f"--uid={who or self.user}", "-D/tmp", "-o/dev/null"]
            words += ["--wrap=sleep 36000", *options]
            if who:
                words += ["-A", OTHERS[who]]
            job = self.sandbox.root(*words, check=False).stdout.strip()
            if not who:
                ids.append(int(job or 999999))
        self._settled()
        return ids

    def _restore(self, state: State) -> None:
        self._end_all()
        for undo in dict.fromkeys(undo for _, undo in reversed(state.steps)):
            self._root(undo)
        wait_until(lambda: self._site() == self.normal)

    def _site(self) -> str:
        """What a state may change, but for limits."""
        show = "scontrol -o show"
        return self._root(f"{show} partition; sinfo -hN -o '%N %t %f'; {show} res")

    def _end_all(self) -> None:
        """No job is left, and no node still ends one."""
        self._root("squeue -h -o %A | sort -u | xargs -r scancel")
        wait_until(lambda: not self._queue() and self._idle())

    def _idle(self) -> bool:
        """Whether no node still ends a job."""
        return "comp" not in self._root("sinfo -h -o %t")

    def _root(self, command: str) -> str:
        return self.sandbox.root("sh", "-c", command, check=False).stdout

    def _queue(self) -> List[List[str]]:
        """[id, state, reason] of every job and task."""
        return [line.split("|") for line in self._root(QUEUE).splitlines()]

    def _look(self) -> Tuple[List[List[str]], Tuple[int, int]]:
        """The queue, and how often Slurm's two schedulers have run."""
        *rows, main, backfill = self._root(f"{QUEUE}; sdiag | grep 'Total cycles'").splitlines()
        cycles = (int(main.split(":")[1]), int(backfill.split(":")[1]))
        return [line.split("|") for line in rows], cycles

    def _settled(self, job: Optional[int] = None) -> List[List[str]]:
        """The rows of a job (or all) once both schedulers have looked at it and left it as it was.

        The second scheduler looks only where something has happened.
        """
        before: List[List[str]] = []
        start = (0, 0)

        def settled() -> Optional[List[List[str]]]:
            nonlocal before, start
            rows, cycles = self._look()
            rows = [row for row in rows if job is None or row[0] == str(job)]
            if start == (0, 0) or rows != before or any(row[1] == "CONFIGURING" for row in rows):
                before, start = rows, cycles
            main, backfill = cycles[0] - start[0], cycles[1] - start[1]
            if job is not None and any(row[1] == "RUNNING" for row in rows):
                return rows
            # A job that no partition can take now may never get a reason.
            unsaid = any(row[1:] in (["PENDING", "None"], ["PENDING", ""]) for row in rows)
            if unsaid and main < 8:
                return None
            done = (main >= 2 and backfill >= 1) or main >= 3
            return (rows or [["", "", ""]]) if done else None

        return wait_until(settled)

    # -------------------------------------------------------------------------- requests

    def _judge(self, requests: Sequence[List[str]], jobs: List[int]) -> List[Row]:
        """Ask neuronctl of each; jobs: the ids of the user's own, which stand for JOB0, JOB1."""
        called = []
        asked = []
        for words in requests:
            for number, job in enumerate(jobs):
                words = [word.replace(f"JOB{number}", str(job)) for word in words]
            kind, *options = words
            argv = {
                SUBMIT: [*_DRY, "--json", "--no-preflight", "-o", "x.out", *options, "sleep", "1"],
                SCRIPT: [*_DRY, "--json", "job.sh"],
            }
            called.append(words)
            asked.append((argv[kind], _as_script(["-o", "x.out", *options])))
        result = self.sandbox.exec([sys.executable, "-c", JUDGE], input=json.dumps(asked))
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        return [self._row(words, *answer) for words, answer in zip(called, answers)]

    def _row(self, words: List[str], code: int, out: str, err: str) -> Row:
        """What it said of one request."""
        row: Row = {"request": " ".join(words), "happened": None, "alone": None}
        try:
            answer = json.loads(out)
        except ValueError:
            return {**row, "said": ["no verdict", "", err, None], "script": None}
        verdict = answer["verdict"]
        said = [verdict[key] for key in ("kind", "cause", "words", "until")]
        return {**row, "said": said, "script": answer["script"]}

    def _put(self, row: Row, until_it_starts: bool) -> None:
        """Put it to Slurm, see what becomes of it, and end it."""
        if row["script"] is not None:
            row["happened"] = self._outcome(row["script"], row if until_it_starts else None)

    def _put_alone(self, row: Row) -> None:
        """Put what shall wait for a limit, or never start, where no other job is."""
        if row["happened"] is None or row["happened"][0] != "waits":
            return
        limited = re.match("(?!.*RunM)(QOS|Assoc|Max|Account)", row["happened"][1])
        if row["said"][0] == "refused" or (row["said"][0] == "will wait" and limited):
            lines = row["script"].splitlines()
            unasked = [
                line for line in lines if not re.match(r"#SBATCH --(hold|begin|dependency)", line)
            ]
            row["alone"] = self._outcome("\n".join(unasked))

    def _outcome(self, script: str, row: Optional[Row] = None) -> List[str]:
        """What becomes of a job; row: the one that is told when it starts."""
        directives = [line for line in script.splitlines() if line.startswith("#SBATCH")]
        text = "\n".join(["#!/bin/bash", *directives, "sleep 36000", ""])
        result = self.sandbox.exec(["sbatch", "--parsable"], input=text, check=False)
        if result.returncode != 0:
            return ["refused", result.stderr.strip()]
        job = int(result.stdout)
        rows = self._settled(job)
        if row is not None:
            runs = ["squeue", "-h", "-t", "R", "-j", str(job), "-o", "%S"]
            started = wait_until(lambda: self.sandbox.root(*runs).stdout.strip(), seconds=600)
            row["started"] = time.mktime(time.strptime(started, "%Y-%m-%dT%H:%M:%S"))
        self._root(f"scancel {job}")
        wait_until(lambda: all(row[0] != str(job) for row in self._queue()) and self._idle())
        if any(row[1] == "RUNNING" for row in rows):
            return ["starts", ""]
        return ["waits", rows[0][2]]


def disagreement(row: Row) -> str:
    """In what way what was said is wrong, one of WORST_FIRST; "" where it is right or not known."""
    kind, cause = row["said"][:2]
    happened = row["happened"]
    if kind == "no verdict":
        return kind
    if kind == "not known" or kind.startswith("probably "):
        return ""
    what, reason = happened
    if kind == "can start now":
        return "" if what == "starts" else FALSE_START
    if kind == "refused":
        alone = row["alone"] or happened
        return "" if what == "refused" or alone[0] != "starts" else FALSE_REFUSAL
    if what != "waits":
        return "missed refusal" if what == "refused" else FALSE_WAIT
    alone = row["alone"]
    if alone is not None and alone[0] == "waits" and cause not in ASKED:
        # Where several things stand against it, one of them may remain.
        return "" if alone[1] != reason or cause == reason else "never starts"
    until = row["said"][3]
    if "started" in row and until is not None:
        at = datetime.strptime(until, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        if row["started"] > at.timestamp():
            return "late start"
    return ""


def came_true(row: Row) -> bool:
    """Whether what was said as probable happened."""
    wanted = {"can start now": "starts", "will wait": "waits", "refused": "refused"}
    return wanted[row["said"][0].replace("probably ", "")] == row["happened"][0]


def _keeps_minutes(state: State) -> bool:
    """Whether what a request used counts against the next one.

    Without a decay (PriorityType=priority/basic, Slurm 22.05), the QOS of a partition never gets
    the minutes of an ended job back: priority_p_job_end() gives them to the job's own QOS alone.
    """
    return any("qos p_" in do and "RunMins" in do for do, _ in state.steps)


def _as_script(words: Sequence[str]) -> str:
    """A script with these options as its directives."""
    lines = ["#!/bin/bash"]
    for word in words:
        lines += [f"#SBATCH {word}"] if word.startswith("-") else []
        lines[-1] += "" if word.startswith("-") else f" {word}"
    return "\n".join([*lines, "srun sleep 1", ""])


# ------------------------------------------------------------------------------- report


def told(row: Row) -> str:
    """One row, with all that it takes to see it again."""
    lines = [f"{row['wrong']}, state {row['number']}", *(f"    {step}" for step in row["state"])]
    lines += [f"  request   {row['request']}", f"  said      {row['said']}"]
    lines += [f"  happened  {row['happened']}"]
    for key in ("alone", "started"):
        lines += [f"  {key:8}  {row[key]}"] if row.get(key) else []
    return "\n".join(lines)
