"""``neuronctl completion``: what a shell needs to complete our command lines."""

from __future__ import annotations

import os
import re
from shlex import quote
from typing import Optional

import click

from neuronctl.cli.say import notify, print_script
from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_regular, rewrite, write_whole
from neuronctl.common.paths import config_dir, present

# Each asks completing.py, whose lines are KIND, WORD, MEANING with tabs between them.
_BASH = r"""# bash completion for neuronctl, by 'neuronctl completion bash'
_neuronctl_complete() {
    local kind word meaning row width=0
    local -a words=() meanings=()
    COMPREPLY=()
    while IFS=$'\t' read -r kind word meaning; do
        case $kind in
            file) compopt -o default -o bashdefault ;;
            dir) compopt -o dirnames ;;
            *)
                [[ $kind != part ]] || compopt -o nospace
                [[ $word == -* ]] || printf -v word %q "$word"
                words+=("$word")
                meanings+=("$meaning")
                ((${#word} <= width)) || width=${#word}
                ;;
        esac
    done < <(_NEURONCTL_COMPLETE=bash neuronctl "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    COMPREPLY=("${words[@]}")
    # Several are listed with their meanings, of which nothing reaches the command line.
    if ((${#words[@]} > 1)) && [[ $COMP_TYPE != 37 && $COMP_TYPE != 42 ]]; then
        for row in "${!words[@]}"; do
            [[ -z ${meanings[row]} ]] ||
                printf -v "COMPREPLY[$row]" '%-*s  (%s)' "$width" "${words[row]}" "${meanings[row]}"
        done
    fi
}
complete -o nosort -F _neuronctl_complete neuronctl
"""

_ZSH = r"""#compdef neuronctl
# zsh completion for neuronctl, by 'neuronctl completion zsh'
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
_neuronctl_complete() {
    local kind word meaning files
    local -a rows goes_on
    while IFS=$'\t' read -r kind word meaning; do
        case $kind in
            file|dir) files=$kind ;;
            part) goes_on=(-S '') ;|
            *) rows+=("${word//:/\\:}${meaning:+:$meaning}") ;;
        esac
    done < <(_NEURONCTL_COMPLETE=zsh neuronctl "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    (( $#rows )) && _describe -V neuronctl rows "${goes_on[@]}"
    [[ -n $files && $PREFIX == --*=* ]] && compset -P '*='
    case $files in
        file) _files ;;
        dir) _files -/ ;;
    esac
}
compdef _neuronctl_complete neuronctl
"""

_FISH = r"""# fish completion for neuronctl, by 'neuronctl completion fish'
function __neuronctl_complete
    set -l words (commandline -opc) (commandline -ct)
    for row in (_NEURONCTL_COMPLETE=fish neuronctl $words[2..-1] 2>/dev/null)
        set -l part (string split -m 2 \t -- $row)
        switch $part[1]
            case file
                __fish_complete_path (commandline -ct)
            case dir
                __fish_complete_directories (commandline -ct)
            case '*'
                printf '%s\t%s\n' $part[2] $part[3]
        end
    end
end
complete --command neuronctl --no-files --keep-order --arguments '(__neuronctl_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_ALIASES = {
    "bash": "alias {0}=neuronctl\ncomplete -o nosort -F _neuronctl_complete {0}\n",
    "zsh": "alias {0}=neuronctl\ncompdef _neuronctl_complete {0}\n",
    "fish": "alias {0} neuronctl\n",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SCRIPTS)), metavar="bash|zsh|fish")
@click.option("--install", is_flag=True, help="Set it up for every new shell of yours.")
@click.option("--alias", metavar="NAME", help="A short name for neuronctl, completed as well.")
def command(shell: str, install: bool, alias: Optional[str]) -> None:
    """Print what completes commands, options, and values in a shell, or set it up.

    Values are those of this moment: partitions, jobs by id and name, QOS, accounts, modules, conda
    environments, and what a site's comment may contain, with the meaning.
    """
    text = script(shell, alias)
    if not install:
        print_script(text)
        return
    path = _place(shell)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_whole(path, text, mode=0o644)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    notify(f"wrote {path}")
    if shell != "fish":  # which reads that directory by itself
        _source(path, _start_file(shell))
    from neuronctl.cli.completing import table

    table()  # so that the first Tab need not wait for it
    reader = "source" if shell == "fish" else "."
    notify(f"new shells have completion; in this one, run: {reader} {quote(path)}")


def script(shell: str, alias: Optional[str] = None) -> str:
    """What the shell is to read; raises UsageError for an alias that is none."""
    if alias is None:
        return _SCRIPTS[shell]
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", alias, re.ASCII) or alias == "neuronctl":
        raise UsageError(f"--alias: '{alias}' is not a valid name", "use letters, such as nctl")
    return _SCRIPTS[shell] + _ALIASES[shell].format(alias)


def _place(shell: str) -> str:
    if shell != "fish":
        return os.path.join(config_dir(), f"completion.{shell}")
    return os.path.join(os.path.dirname(config_dir()), "fish", "conf.d", "neuronctl.fish")


def _start_file(shell: str) -> str:
    home = os.path.expanduser("~")
    if shell == "zsh":
        return os.path.join(os.environ.get("ZDOTDIR") or home, ".zshrc")
    return os.path.join(home, ".bashrc")


def _source(path: str, start_file: str) -> None:
    """Have the shell's start-up file read ``path``, unless it does."""
    line = f"[ -r {quote(path)} ] && . {quote(path)}  # completion of neuronctl\n"
    try:
        before = _content(start_file)
        if before is None:
            write_whole(start_file, line, mode=0o644)
        elif line.encode() in before:
            return
        else:
            gap = b"" if before.endswith(b"\n") or not before else b"\n"
            rewrite(start_file, before, before + gap + line.encode())
    except OSError as error:
        raise UsageError(
            f"cannot add a line to {start_file}: {error.strerror}",
            f"add it yourself: {line.strip()}",
        ) from None
    notify(f"added a line to {start_file}")


def _content(file: str) -> Optional[bytes]:
    if not present(file):
        return None
    with open_regular(os.path.realpath(file)) as stream:
        return stream.read()
