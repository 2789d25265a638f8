"""A server in a job: its port and token, the gate before it, and the note of whether it answers.

The batch script checks the digest of these files, and starts them as ``run RECIPE SCRIPT``, where
SCRIPT is that script: it is run again with ADDRESS, PORT, TOKEN, and FOLDER. The others: ``gate
COMMAND…`` stands before a server, ``ask`` is a recipe's way to ask one, ``check FOLDER`` looks at
the server of the job in which it runs. Python 3.6 or newer, and its standard library.
"""

import sys


def main(words):
    if words[:1] == ["ask"]:
        from asking import ask_as_told

        return ask_as_told()
    if words[:1] == ["gate"]:
        from gate import keep_gate

        return keep_gate(words[1:])
    if words[:1] == ["check"]:
        from watching import check

        return check(words[1])
    from watching import run

    return run(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
