from agentflow.console.counter import Counter


def test_elsewhere_than_on_a_terminal_every_thousand_is_a_line(capsys):
    with Counter("Sent", "trajectories") as count:
        for number in (1, 999, 1_000, 1_001, 2_500, 2_600, 3_000):
            count(number)
    assert capsys.readouterr().err.splitlines() == [
        "Sent 1,000 trajectories",
        "Sent 2,500 trajectories",
        "Sent 3,000 trajectories",
    ]
