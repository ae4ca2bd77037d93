"""The characters that a reader does not see, or sees in another order: they can smuggle text."""

import re

_EMOJI = "©®‼⁉™ℹ←-\u27ff\u2900-⯿〰〽㊗㊙\U0001f000-\U0001faff"  # noqa: RUF001 - as they are
_JOINED = "\u0600-\u0dff"  # letters of scripts that are joined, or kept apart, by a sign
_SEEN = (
    f"[{_EMOJI}]\ufe0f",
    "[0-9#*]\ufe0f(?=\u20e3)",
    f"[{_EMOJI}]\u200d(?=[{_EMOJI}])",
    f"[{_EMOJI}]\ufe0f\u200d(?=[{_EMOJI}])",
    f"[{_JOINED}][\u200c\u200d](?=[{_JOINED}])",
)

# Unicode's controls, formats, private and default-ignorable characters, and letters that are
# blank; but not where they make an emoji or a word what it is. JavaScript reads it, too.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
    + "".join(f"(?<!{seen})" for seen in _SEEN)
)
