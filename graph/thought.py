"""What a reasoning model writes before its answer."""

import re

_END = re.compile(r"</think(?:ing)?>")


def after_thought(text: str) -> str:
    """Drop a leading `<think>…</think>` block, or everything up to a closing tag whose opening the template wrote.

    Text that holds nothing after its thoughts is returned whole.
    """
    ends = list(_END.finditer(text))
    if ends and text[ends[-1].end() :].strip():
        return text[ends[-1].end() :]
    return text
