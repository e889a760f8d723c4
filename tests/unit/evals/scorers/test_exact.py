"""Right in every usual spelling; wrong whatever a wrong answer looks like; ungraded where nobody could say."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.sample import Sample
from evals.scorers.exact import exact
from evals.starter import load_starter

RIGHT = [
    # case 18: wrapping
    ("The answer is 42", "42"),
    ("The final answer is: **42**.", "42"),
    ("Answer: 42", "42"),
    ("<answer>42</answer>", "42"),
    ("<answer>\n42\n</answer>", "42"),
    ("$42$", "42"),
    (r"\(42\)", "42"),
    ("$$42$$", "42"),
    ("**42**", "42"),
    ("`42`", "42"),
    ("42.", "42"),
    ("(42)", "42"),
    ("x = 42", "42"),
    ("<think>Is it 41? No.</think>42", "42"),
    # case 19: the last message counts
    ("\\boxed{0}\n\\boxed{42}", "42"),
    ("So \\boxed{0}.\nNo, that is wrong.\n\n$$\\boxed{42}$$", "42"),
    ("<answer>41</answer>\nThat was wrong.\n<answer>42</answer>", "42"),
    ("The answer is 41.\nLet me check again.\nThe answer is 42.", "42"),
    (r"<answer>\boxed{42}</answer>", "42"),
    (r"\boxed{\text{Evelyn}}", "Evelyn"),
    (r"\boxed{\frac{1}{2}}", "1/2"),
    ("The answer is 42. I considered 7 cases.", "42"),
    ("The answer is 42, because 6 times 7 is 42.", "42"),
    ("**Final Answer:**\n42", "42"),
    # case 22: lists and powers
    ("1,2", "1,2"),
    ("1, 2", "1,2"),
    ("1 and 2", "1,2"),
    ("[1, 2]", "1,2"),
    (r"\{2, 1\}", r"\{1, 2\}"),
    ("1024", "2^{10}"),
    ("1,024", "2^{10}"),
    ("2^10", "2^{10}"),
    ("2**10", "2^{10}"),
    ("10^15", "10^{15}"),
    ("1000000000000000", "10^{15}"),
    ("1e15", "10^{15}"),
    (r"10^{15}", "1000000000000000"),
    (r"3 \times 10^8", "300000000"),
    ("10²", "100"),
    # case 23: typography
    ("\u22125", "-5"),
    ("\u20135", "-5"),
    ("\uff14\uff12", "42"),
    ("\u0664\u0662", "42"),
    ("1\u00a0000", "1000"),
    ("1\u2009000 km", "1000 km"),
    ("42\u200b", "42"),
    ("minus 5", "-5"),
    # case 27: numbers and units
    ("016", "16"),
    ("16", "016"),
    ("1,000", "1000"),
    ("1000", "1,000"),
    ("1{,}000", "1000"),
    (r"1\,000", "1000"),
    ("1_000", "1000"),
    ("409.50", "409.5"),
    (".5", "0.5"),
    (r"12\text{ cm}", "12 cm"),
    ("12cm", "12 cm"),
    ("12 centimetres", "12 cm"),
    ("12", "12 cm"),
    ("50 %", "0.5"),
    ("0.5", "50%"),
    ("50", "50%"),
    ("50 percent", "50%"),
    (r"50\%", "50%"),
    ("1/2", "0.5"),
    ("3½", "3.5"),
    ("3 1/2", "3.5"),
    (r"3\frac{1}{2}", "3.5"),
    ("1.2 million", "1200000"),
    ("five", "5"),
    ("Twenty-one", "21"),
    ("one hundred and five", "105"),
    ("$867.05", "867.05 dollars"),
    ("US$867.05", "867.05 dollars"),
    ("867.05 USD", "867.05 dollars"),
    ("-$5", "-5 dollars"),
    ("7.67 dollars in change", "7.67 dollars"),
    ("7.67 in change", "7.67 dollars"),
    ("32.19 metres per second", "32.19 m/s"),
    ("approximately 32.19 m/s", "32.19 m/s"),
    ("177 degrees Celsius", "177 °C"),
    ("177°", "177 °C"),
    (r"$177^\circ$C", "177 °C"),
    ("166.6 sq ft", "166.6 square feet"),
    ("36 years old", "36 years"),
    ("36 completed years", "36 years"),
    ("46.4 litres of petrol", "46.4 litres"),
    ("48 times", "48"),
    ("48 cm", "48"),
    ("5 occurrences of the letter r", "5"),
    ("180.3 cm (5 ft 11 in)", "180.3 cm"),
    ("42 (forty-two)", "42"),
    # dates
    ("19 November 2023", "2023-11-19"),
    ("November 19, 2023", "2023-11-19"),
    ("Nov. 19th, 2023", "2023-11-19"),
    ("the 19th of November 2023", "2023-11-19"),
    ("Sunday, 19 November 2023", "2023-11-19"),
    ("19.11.2023", "2023-11-19"),
    ("11/19/2023", "2023-11-19"),
    ("2023/11/19", "2023-11-19"),
    ("2023-11-19", "19 November 2023"),
    ("2023-11-19 00:00:00", "2023-11-19"),
    ("24 May 1883 (Thursday)", "24 May 1883"),
    ("It opened on May 24, 1883.", "24 May 1883"),
    # texts
    ("the Pequod", "Pequod"),
    ("PEQUOD!", "Pequod"),
    ('"esuohthgil"', "esuohthgil"),
    ("'e'", "e"),
    ("Frédéric Auguste Bartholdi", "Frederic Auguste Bartholdi"),
    ("soon, very coming is winter", "soon very coming is winter"),
    ("Nevado Sajama, 6,542 m", "Nevado Sajama"),
    ("Nevado Sajama (6,542 m)", "Nevado Sajama"),
    ("“Archibald, certainly not!”", '"Archibald, certainly not!"'),
    ("Yes, both are.", "yes"),
    # plain statements
    ("There are 5 r's in 'strawberry preserves'.", "5"),
    ("17.5% of 2,340 is 409.5.", "409.5"),
    ("387 \u00d7 246 = 95202", "95202"),
    ("The name of the ship is the Pequod.", "Pequod"),
    ("20 July 1969 was a Sunday.", "Sunday"),
    ("Ljubljana is the capital of Slovenia.", "Ljubljana"),
    ("There are 991 days between 3 March 2021 and 19 November 2023.", "991 days"),
    ("42 is the number of days.", "42"),
    ("It was published on a Wednesday.", "Wednesday"),
    ("exactly 42", "42"),
    ("a total of 5", "5"),
    ("[42]", "42"),
    ("x^2+1", "x^{2}+1"),
    (r"\sqrt{2}", "sqrt(2)"),
    (r"\sqrt{16}", r"\sqrt{16}"),
    ("4", r"\sqrt{16}"),
]

WRONG = [
    ("", "42"),
    ("   ", "42"),
    ("<think>42</think>", "42"),
    ("13", "130"),
    ("130", "13"),
    ("1.5", "15"),
    ("15", "1.5"),
    ("1,5", "15"),
    ("4 2", "42"),
    ("42\n430", "42430"),
    ("-5", "5"),
    ("5", "-5"),
    ("5!", "5"),
    ("5x", "5"),
    ("5i", "5"),
    ("5pi", "5"),
    ("5th", "5"),
    ("5 million", "5"),
    ("5 hundred", "5"),
    ("5 squared", "5"),
    ("5 and a half", "5"),
    ("44 BC", "44"),
    ("42%", "42"),
    ("0.5%", "50%"),
    ("1550%", "15.5%"),
    ("15.5", "0.155"),
    ("31/2", "3.5"),
    ("102", "10²"),
    ("10²", "102"),
    ("210", "2^{10}"),
    ("2^{10}", "210"),
    ("2,1", "1,2"),
    ("1,2,3", "1,2"),
    ("1", "1,2"),
    ("1,234", "1, 234"),
    ("[1, 2]", "(1, 2)"),
    ("1.0000001", "1"),
    ("-4", "1914-1918"),
    # the question said again is no answer
    ("387 * 246", "95202"),
    ("2^19", "524288"),
    ("450/6", "75"),
    ("72 miles per hour", "32.19 m/s"),
    # unit mismatch
    ("12 m", "12 cm"),
    ("120 mm", "12 cm"),
    ("32.19 km/h", "32.19 m/s"),
    ("32.19 m", "32.19 m/s"),
    ("867.05 euros", "867.05 dollars"),
    ("177 °F", "177 °C"),
    ("166.6 ft", "166.6 square feet"),
    ("508 hours", "508 minutes"),
    ("30%", "30 dollars"),
    # case 48: hedges
    ("42 or 43", "42"),
    ("42, 43", "42"),
    ("42/43", "42"),
    ("42 and 43", "42"),
    ("either 42 or 43", "42"),
    ("It is 42 or 43.", "42"),
    ("It might be 42.", "42"),
    (r"\boxed{41} or \boxed{42}", "42"),
    (r"\boxed{41}, \boxed{42}", "42"),
    (r"$\boxed{41}$ \text{ or } $\boxed{42}$", "42"),
    ("<answer>41</answer> <answer>42</answer>", "42"),
    ("The answer is 41. The answer is 42.", "42"),
    ("The answer is 42. Or maybe 43.", "42"),
    ("The answer is 42.\nWait, actually it is 43.", "42"),
    ("42 (or 43)", "42"),
    ("42 (43 if inclusive)", "42"),
    ("Pequod or Rachel", "Pequod"),
    # denials
    ("not 42", "42"),
    ("The answer is not 42", "42"),
    ("It is not the Pequod.", "Pequod"),
    ("more than 42", "42"),
    ("less than 42", "42"),
    ("at least 42", "42"),
    ("42+", "42"),
    ("42 is wrong", "41"),
    ("Is it 42?", "42"),
    ("The number is 42?", "42"),
    ("508 minutes (28 minutes)", "508 minutes"),
    # dates
    ("18 November 2023", "2023-11-19"),
    ("19 November 2022", "2023-11-19"),
    ("Monday, 19 November 2023", "2023-11-19"),
    ("November 2023", "2023-11-19"),
    ("2023", "2023-11-19"),
    ("1993", "2023-11-19"),
    # texts
    ("Paris, Texas", "Paris"),
    ("Parish", "Paris"),
    ("Ahab", "Pequod"),
    ("soon-very-coming-is-winter", "soon very coming is winter"),
    ("winter is coming very soon", "soon very coming is winter"),
    ("Yes, no", "yes"),
    ("No", "yes"),
    ("ab", "a b"),
    ("f", "e"),
    # never computed
    ("9**9**9", "42"),
    ("9**9**9**9", "2^{10}"),
    ("1e999999999", "42"),
    ("__import__('os').getpid()", "42"),
]

UNGRADED = [
    ("Not 41, but 42. I considered 7 cases.", "42"),
    ("The number is less than 42", "42"),
    ("I considered 42 cases and then stopped.", "42"),
    ("04/05/2023", "2023-05-04"),
    ("Paris (Texas)", "Paris"),
    ("508 minutes (8 hours and 28 minutes)", "508 minutes"),
    ("42 is the number after 41", "42"),
    ("There are 5 letters in the first word and 7 in the second", "5"),
    ("Ahab commands the Pequod, and Gardiner commands the Rachel", "Pequod"),
]


@pytest.mark.parametrize(("answer", "reference"), RIGHT)
def test_right(answer: str, reference: str) -> None:
    assert exact(answer, [reference]).value == 1


@pytest.mark.parametrize(("answer", "reference"), WRONG)
def test_wrong(answer: str, reference: str) -> None:
    assert exact(answer, [reference]).value == 0


@pytest.mark.parametrize(("answer", "reference"), UNGRADED)
def test_ungraded(answer: str, reference: str) -> None:
    assert exact(answer, [reference]).value is None


def test_case_21_the_answer_field_decides() -> None:
    """The text beside it is a fallback, for when there is no field."""
    assert exact("42", ["42"]).value == 1
    assert exact("Not 41, but 42. I considered 7 cases.\nThe answer is 42.", ["42"]).value == 1


def test_any_accepted_answer_will_do() -> None:
    accepted = ["guarani", "Paraguayan guarani", "PYG"]
    assert all(exact(text, accepted).value == 1 for text in ["PYG", "Guaraní (PYG)", "the Paraguayan guaraní"])
    assert exact("peso", accepted).value == 0


def test_needs_a_reference() -> None:
    with pytest.raises(ValueError, match="at least one accepted answer"):
        exact("42", [])


def test_explains_itself() -> None:
    right, wrong = exact("It is **42**.", ["42"]), exact("41", ["42"])
    assert (right.answer, right.explanation) == ("It is 42.", "States the accepted answer '42'.")
    assert (wrong.answer, wrong.explanation) == ("41", "States none of the accepted answers, such as '42'.")


@pytest.mark.parametrize("sample", load_starter("all"), ids=lambda sample: sample.id)
def test_starter_references_are_right_and_no_others(sample: Sample) -> None:
    for reference in sample.answers:
        for form in ("{}", "{}.", "**{}**", "The answer is {}.", "<answer>{}</answer>", "\\boxed{{\\text{{{}}}}}"):
            assert exact(form.format(reference), sample.answers).value == 1, form
    for other in load_starter("all"):
        if set(other.answers).isdisjoint(sample.answers) and _figure(other) != _figure(sample):
            assert exact(other.answers[0], sample.answers).value == 0, other.answers[0]


def _figure(sample: Sample) -> str:
    return sample.answers[0].split()[0].rstrip("%")


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_integers_are_right_exactly_when_equal(answer: int, reference: int) -> None:
    assert exact(f"{answer:,}", [str(reference)]).value == float(answer == reference)
    assert exact(f"The answer is ${reference}$.", [f"{reference:,}"]).value == 1


@given(st.decimals(-1000, 1000, places=3), st.sampled_from(["", " m", " dollars", " km/h"]))
def test_decimals_differ_in_the_last_digit(reference: object, unit: str) -> None:
    assert exact(f"{reference}0{unit}", [f"{reference}{unit}"]).value == 1
    assert exact(f"{reference}1{unit}", [f"{reference}{unit}"]).value == 0
    assert exact(f"{reference} kg", [f"{reference}{unit}"]).value == float(unit == "")


@given(st.dates())
def test_dates_in_every_form(day: object) -> None:
    for form in (
        f"{day:%B} {day.day}, {day.year:04}",
        f"{day.day} {day:%b} {day.year:04}",
        f"{day:%A}, {day.isoformat()}",
    ):
        assert exact(form, [day.isoformat()]).value == 1


@given(st.text(max_size=200), st.text(min_size=1, max_size=50))
def test_any_text_is_graded_without_an_error(answer: str, reference: str) -> None:
    exact(answer, [reference])


@given(
    st.text("0123456789.,-+*/^%$€{}()[]\\ abcdfgimorstx<>", max_size=80),
    st.sampled_from(["42", "50%", "1,2", "2^{10}"]),
)
def test_mathematical_noise_is_graded_without_an_error(answer: str, reference: str) -> None:
    exact(answer, [reference])


HOSTILE = [
    "9**" * 3000 + "9",
    "(" * 10_000,
    "{" * 10_000,
    "\\boxed{" * 2000,
    "\\boxed{" * 1000 + "}" * 1000,
    "\\frac{" * 2000,
    "\\text or" * 2000 + "!",
    "<answer>" * 2000,
    "<think>" * 2000,
    "<answer>1</answer> or " * 600,
    "__a " * 3000,
    "*a" * 5000,
    "." * 10_000 + "a",
    " " * 10_000 + "a",
    "$a" * 5000,
    "1," * 5000,
    "1 000 " * 2000,
    "1/" * 5000,
    "- " * 5000 + "1",
    "is " * 3000,
    "answer is " * 1000,
    "answer to " * 1000,
    "not " * 2500,
    "a (" * 3000,
    "five hundred and " * 600,
    "a" * 10_000_000,
    "1" * 1_000_000,
    "2020-01-01 " * 900,
    "square " * 1500,
]


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda text: text[:12])
@pytest.mark.parametrize("reference", ["42", "2^{10}", "1,2", "2023-11-19", "Pequod"])
def test_hostile_text_is_graded_in_bounded_time(answer: str, reference: str) -> None:
    start = time.process_time()
    assert exact(answer, [reference]).value != 1
    assert time.process_time() - start < 5


def test_case_25_threads_and_asyncio_agree_with_the_main_thread() -> None:
    cases = RIGHT + WRONG + UNGRADED
    expected = [exact(*_arguments(case)).value for case in cases]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda case: exact(*_arguments(case)).value, cases)) == expected

    async def under_asyncio() -> list[float | None]:
        assert threading.current_thread() is not threading.main_thread()
        return [exact(*_arguments(case)).value for case in cases]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(under_asyncio())).result() == expected


def _arguments(case: tuple[str, str]) -> tuple[str, list[str]]:
    return case[0], [case[1]]
