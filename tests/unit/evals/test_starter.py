"""The loader gives what the file holds."""

from evals.starter import load_starter


def test_splits_are_disjoint_and_complete() -> None:
    tune, held_out, everything = load_starter("tune"), load_starter("held_out"), load_starter("all")
    assert (len(tune), len(held_out), len(everything)) == (60, 30, 90)
    assert {s.id for s in tune} | {s.id for s in held_out} == {s.id for s in everything}
    assert {s.kind for s in tune} == {s.kind for s in held_out}


def test_sample() -> None:
    first = load_starter("all")[0]
    assert (first.id, first.kind, first.split, first.answers) == ("sums-01", "sums", "tune", ("867.05 dollars",))
    assert first.question.startswith("A café sold 137 coffees")
