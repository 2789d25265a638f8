"""The codes of all rules, and the severities of findings.

A code never changes, because catalogs may name it (``rules_off``). The rule's function, in
``rules``, declares its title, what it judges, and its messages.
"""

from __future__ import annotations

ERROR = "error"
WARNING = "warning"
NOTE = "note"

ROW = ("code", "severity", "title", "message", "source", "hint")
"""The fields of a finding in records and JSON, in order."""

CODES = """
NC101 NC102 NC103 NC111 NC112 NC113 NC121 NC122 NC123 NC124 NC131 NC132 NC134 NC141 NC201 NC202
NC211 NC221 NC231 NC232 NC301 NC302 NC303 NC304 NC305 NC306 NC307 NC308 NC309 NC310 NC311 NC313
NC314 NC315 NC321 NC322 NC323 NC331 NC333 NC338 NC341 NC344 NC401 NC402 NC403 NC405 NC406 NC407
NC411 NC412 NC413 NC501 NC502 NC503 NC504 NC505 NC506 NC507 NC509 NC512 NC514 NC515 NC534 NC601
NC602 NC603 NC604 NC605 NC606 NC611 NC612 NC621 NC622 NC623 NC624 NC625 NC626 NC627 NC631 NC632
NC633 NC635 NC637 NC638 NC640 NC642 NC643 NC645 NC646 NC649 NC651 NC653 NC654
NC655 NC657 NC660 NC661 NC663 NC665
""".split()  # noqa: SIM905
