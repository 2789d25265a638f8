"""A server in a job: its port and token, the gate before it, and the note of whether it answers.

The batch script checks the digest of these files, and starts them as ``run SCRIPT``, where SCRIPT
is that script: ``run`` starts it again with ADDRESS, PORT, TOKEN, and FOLDER. Other tasks: ``gate
COMMAND…`` runs a server behind the gate, ``ask`` sends a recipe's request to a server, and ``check
FOLDER`` looks at the server of this job. All need Python 3.6 or later, and its standard library.
"""

import sys


def main(task, *words):
    """Run one task of the job of a server."""
    if task == "ask":
        from asking import ask_from_input

        return ask_from_input()
    if task == "gate":
        from gate import keep_gate

        return keep_gate(words)
    from watching import check, run

    return check(*words) if task == "check" else run(*words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
