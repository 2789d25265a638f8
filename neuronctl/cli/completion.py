"""``neuronctl completion``: what a shell needs to complete our command lines."""

from __future__ import annotations

import os
from shlex import quote

import click
from click.shell_completion import ShellComplete, get_completion_class

from neuronctl.cli.say import notify, print_script
from neuronctl.common.errors import UsageError
from neuronctl.common.files import write_whole
from neuronctl.common.paths import config_dir


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
@click.option("--install", is_flag=True, help="Set it up for every new shell of yours.")
def command(shell: str, install: bool) -> None:
    """Print what completes commands, options, and values in a shell, or set it up.

    Values are those of this moment: jobs by id and name, and what the catalog has: partitions,
    QOS, and what a site's comment may contain.
    """
    from neuronctl.cli.completing import VARIABLE
    from neuronctl.cli.root import root

    kind = get_completion_class(shell)
    assert kind is not None
    # Not the class's own, which starts bash to ask for its version.
    text = ShellComplete.source(kind(root, {}, "neuronctl", VARIABLE)) + "\n"
    if shell == "zsh":
        text = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit -i }}\n{text}"
    if not install:
        print_script(text)
        return
    path = os.path.join(config_dir(), f"completion.{shell}")
    start = os.path.expanduser({"bash": "~/.bashrc", "zsh": "~/.zshrc"}.get(shell, ""))
    if shell == "fish":  # which reads that directory by itself
        path = os.path.join(os.path.dirname(config_dir()), "fish", "conf.d", "neuronctl.fish")
    line = f"[ -r {quote(path)} ] && . {quote(path)}  # completion of neuronctl\n"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_whole(path, text, mode=0o644)
        if start:
            with open(start, "a+", encoding="utf-8", errors="surrogateescape") as file:
                file.seek(0)
                before = file.read()
                if line not in before:
                    file.write(line if before.endswith("\n") or not before else f"\n{line}")
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or path}: {error.strerror}",
            f"add this line yourself: {line.strip()}" if start else "",
        ) from None
    notify(f"wrote {path}; new shells have completion")
