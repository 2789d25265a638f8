"""The stable codes of all rules, which a catalog may name (``rules_off``), and their severities.

What a rule is called, judges, and says is declared with its function in ``rules``.
"""

from __future__ import annotations

ERROR = "error"
WARNING = "warning"
NOTE = "note"

ROW = ("code", "severity", "title", "message", "source", "hint")
"""What records and JSON have of a finding."""

CODES = """
NC101 NC102 NC103 NC111 NC112 NC121 NC122 NC123 NC124 NC131 NC132 NC134 NC141 NC201 NC202 NC211
NC221 NC231 NC232 NC301 NC302 NC303 NC304 NC305 NC307 NC308 NC309 NC310 NC311
NC313 NC321 NC331 NC333 NC338 NC341 NC344 NC401 NC402 NC403 NC405 NC406 NC407 NC411 NC412
NC501 NC502 NC503 NC504 NC505 NC506 NC507 NC509 NC512 NC534 NC601 NC602 NC603 NC604 NC605 NC606
NC611 NC612 NC615 NC621 NC622 NC623 NC624 NC625 NC626 NC631 NC632 NC634 NC637 NC638 NC640 NC642
NC643 NC645 NC646 NC649 NC651 NC653 NC654 NC660 NC665
""".split()  # noqa: SIM905
