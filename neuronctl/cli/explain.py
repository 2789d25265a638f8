"""``neuronctl explain``: what a rule finds, why, and what to write instead."""

from __future__ import annotations

import sys

import click

from neuronctl.common.console import print_text


@click.command("explain")
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Explain a rule: what happens, why, and what to write."""
    from neuronctl.cli.korean import explained, is_korean
    from neuronctl.judgement.rule_pages import explanation

    text = explanation(code)
    print_text(explained(code.upper(), text) if is_korean(sys.stdout) else text)
