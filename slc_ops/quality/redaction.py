"""Results, pages and sentences about a window, without the rows that they quote of erased users.

A finding quotes rows by their event id (``event_id=…``). That id may itself hold the user's; so may any text
of a row. What is quoted of an erased row is replaced, the finding and its counts stay.
"""

import html
import json
import re
from collections.abc import Callable
from typing import Any

from slc_ops.base.files import SEAL, digest_json

ERASED = "erased"
_QUOTED = re.compile(r"(event_id|user_id)=(.*?)(?=</code>|, [a-z_]+=|\}|$)", re.MULTILINE)

Belongs = Callable[[str], bool]
"""Whether an id, in the way findings quote it, is that of an erased user or of one of its events."""


def redacted(suffix: str, text: str, belongs: Belongs) -> str:
    """A ``.json`` or ``.html`` text of ours without what it quotes; unchanged to the byte where nothing is.

    >>> redacted(".html", "<code>event_id=ann-1</code>, <code>event_id=bob-1</code>", "ann-1".__eq__)
    '<code>event_id=erased</code>, <code>event_id=bob-1</code>'
    >>> redacted(".json", '{"reason": "for example {row=3, event_id=ann, 1, label=2}"}', "ann, 1".__eq__)
    '{\\n  "reason": "for example {row=3, event_id=erased, label=2}"\\n}\\n'
    """
    if suffix != ".json":
        return _sentence(text, lambda quoted: belongs(html.unescape(quoted)))
    value = json.loads(text)
    said = _walk(value, belongs)
    if said == value:
        return text
    if isinstance(said, dict) and said.pop(SEAL, None) is not None:
        said[SEAL] = digest_json(said)
    return json.dumps(said, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _sentence(text: str, belongs: Belongs) -> str:
    def replaced(match: re.Match[str]) -> str:
        return f"{match[1]}={ERASED}" if belongs(match[2]) else match[0]

    return _QUOTED.sub(replaced, text)


def _walk(value: Any, belongs: Belongs) -> Any:
    if isinstance(value, dict):
        return {
            name: ERASED
            if name in ("event_id", "user_id") and each is not None and belongs(str(each))
            else _walk(each, belongs)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_walk(each, belongs) for each in value]
    return _sentence(value, belongs) if isinstance(value, str) else value
