"""Characters that only look like those that sbatch reads, and what to write in their place."""

from __future__ import annotations

import re
from typing import Dict

from neuronctl.common.words import DASHES, other_dash, replace_other_dashes

LIKE_A_SPACE = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
LIKE_NOTHING = "\u200b\u200c\u200d\u2060\ufeff"
_PLAIN: Dict[str, str] = {
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(LIKE_A_SPACE, " "),
    **dict.fromkeys(LIKE_NOTHING, ""),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
}
"""Each such character, and what sbatch takes in its place."""

FREE_TEXT = ("chdir", "comment", "error", "input", "job-name", "output", "wckey", "wrap")
"""Options whose values may have any character but invisible ones."""


def plainly_spelled(line: str) -> str:
    """Return a directive with plain characters in place of those that only look like them."""
    blank = re.sub(f"[{LIKE_A_SPACE}]", " ", line)
    words = (
        replace_other_dashes(word) if word[:1] in DASHES else word for word in blank.split(" ")
    )
    return "".join(_PLAIN.get(character, character) for character in " ".join(words))


def look_alike(option: str, text: str) -> str:
    """Return what the first such character is in a directive or an option's value; "" for none."""
    odd = LIKE_A_SPACE + LIKE_NOTHING if option in FREE_TEXT else "".join(_PLAIN)
    found = next((character for character in text if character in odd), "")
    if found in DASHES or not found:
        return other_dash(found)
    instead = _PLAIN[found]
    what = f"a character that only looks like {instead!r}" if instead else "an invisible character"
    return f"{what} (U+{ord(found):04X})"
