from tests.unit.agentflow.conftest import Call


def test_no_engine(call: Call):
    assert call("engine", "status") == "No engine runs; the next question starts one.\n"
    assert call("engine", "status", "--json") == ""
    assert call("engine", "stop") == "No engine runs.\n"
