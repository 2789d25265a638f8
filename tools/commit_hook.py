"""Write the commit that a wheel or an sdist is built from into it: neuronctl/commit.txt."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Add the commit to what hatchling builds.

    In a clone, git knows the commit; an unpacked sdist has the file already.
    """

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        """Add the file to what is built; leave it out if no commit is known."""
        if version == "editable":
            return
        commit = self._read_commit()
        if not commit:
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "commit.txt")
        file.write_text(commit, encoding="ascii")
        # pyproject.toml excludes the sdist's own copy, so that the order of files is the same.
        build_data["force_include"][str(file)] = "neuronctl/commit.txt"

    def finalize(self, version: str, build_data: Dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _read_commit(self) -> str:
        kept = Path(self.root, "neuronctl/commit.txt")
        if kept.exists():
            return kept.read_text(encoding="ascii")
        git = ["git", "-c", "safe.directory=*", "-C", self.root, "rev-parse", "--short=12", "HEAD"]
        try:
            return subprocess.run(git, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return ""
