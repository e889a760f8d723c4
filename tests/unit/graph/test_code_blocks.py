"""Fenced code as models write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.code_blocks import code_blocks


@pytest.mark.parametrize("tag", ["python", "Python", "py", "python3", "ipython", ""])
def test_every_tag_of_python(tag):
    assert code_blocks(f"Here:\n```{tag}\nprint(1)\n```\nDone.") == ["print(1)"]


def test_other_languages_are_left_out():
    assert code_blocks("```bash\nls\n```\n```python\nprint(1)\n```\n```json\n{}\n```") == ["print(1)"]


def test_a_fence_inside_a_string_does_not_cut():
    """Case 33."""
    code = 'text = """\n```\nnot the end\n```\n"""\nprint(text)'
    assert code_blocks(f"```python\n{code}\n```\nand\n```python\nprint(2)\n```") == [code, "print(2)"]


def test_code_that_does_not_parse_ends_at_the_first_fence():
    assert code_blocks("```python\nprint(\n```\nmore\n```python\nprint(2)\n```") == ["print(", "print(2)"]


def test_unclosed_and_unfenced():
    assert code_blocks("```python\nprint(1)\nprint(2)") == ["print(1)\nprint(2)"]
    assert code_blocks("print(1)\n") == ["print(1)"]
    assert code_blocks("") == []
    assert code_blocks("```python\n\n```") == []


def test_a_fence_after_words_and_on_one_line():
    assert code_blocks("Here is it: ```python\nprint(1)\n```") == ["print(1)"]
    assert code_blocks("```python print(1)```") == ["print(1)"]


def test_thoughts_are_not_code():
    assert code_blocks("<think>```python\nprint(0)\n```</think>\n```python\nprint(1)\n```") == ["print(1)"]


def test_four_backticks_and_tildes():
    assert code_blocks("````python\nprint('```')\n````") == ["print('```')"]
    assert code_blocks("~~~python\nprint(1)\n~~~") == ["print(1)"]


def test_code_with_fences_in_comments_and_strings_but_no_fence_of_its_own():
    code = 's = "```python"\nprint(s)  # ```'
    assert code_blocks(code) == [code]


def test_indentation_and_blank_lines_are_kept():
    code = "def f(n):\n\n    return n and f(n - 1)\n\nprint(f(3))"
    assert code_blocks(f"```python\n{code}\n```") == [code]


@given(st.lists(st.sampled_from(["x = 1", "print(x)", "# note", "if x:\n    pass", ""]), min_size=1, max_size=8))
def test_any_valid_code_comes_back_whole(parts):
    code = "\n".join(parts)
    assert code_blocks(f"```python\n{code}\n```") == ([code] if code.strip() else [])
