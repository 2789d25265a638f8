"""A server in a job: its port and token, the gate before it, and the note of whether it answers.

The batch script checks the digest of these files, and starts them as ``run SCRIPT``, where SCRIPT
is that script: it is run again with ADDRESS, PORT, TOKEN, and FOLDER. The others: ``gate
COMMAND…`` stands before a server, ``ask`` is a recipe's way to ask one, ``check FOLDER`` looks at
the server of the job in which it runs. Python 3.6 or newer, and its standard library.
"""

import sys


def main(task, *words):
    """Run one task of the job of a server."""
    if task == "ask":
        from asking import ask_as_told

        return ask_as_told()
    if task == "gate":
        from gate import keep_gate

        return keep_gate(words)
    from watching import check, run

    return check(*words) if task == "check" else run(*words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
