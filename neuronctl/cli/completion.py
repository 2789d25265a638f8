"""``neuronctl completion``: what a shell needs to complete our command lines."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from neuronctl.cli.say import print_script


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print what completes commands, options, and values in a shell.

    Put the output into ~/.bashrc, ~/.zshrc, or ~/.config/fish/completions/neuronctl.fish. Tab then
    also completes values: current jobs by id and name, partitions, QOS, and comment fields.
    """
    from neuronctl.cli.live_values import VARIABLE
    from neuronctl.cli.root import root

    kind = get_completion_class(shell)
    assert kind is not None
    if shell == "zsh":
        print_script("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n")
    # click's own class starts bash to ask for its version.
    print_script(ShellComplete.source(kind(root, {}, "neuronctl", VARIABLE)) + "\n")
