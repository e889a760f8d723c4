"""Where settings come from, and what is said about bad ones."""

import pytest

from graph.config import FlowConfig, ModelsConfig, leaves, load_config
from graph.errors import ConfigError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("AGENTFLOW_MODELS", "AGENTFLOW_BUDGETS__MAX_TURNS"):
        monkeypatch.delenv(name, raising=False)


def write(tmp_path, text: str, name: str = "agentflow.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_need_no_file():
    loaded = load_config()
    assert loaded.config == FlowConfig()
    assert loaded.sources == {}
    assert loaded.config.budgets.max_turns == 10
    assert loaded.config.models.of("planner").temperature == 0.7
    assert {loaded.config.models.of(role).temperature for role in ("executor", "verifier", "generator")} == {0.0}


def test_each_source_overrides_the_one_before(tmp_path, monkeypatch):
    write(tmp_path, "[budgets]\nmax_turns = 3\nmax_seconds = 10\nmax_tokens = 100\n")
    monkeypatch.setenv("AGENTFLOW_BUDGETS__MAX_SECONDS", "20")
    monkeypatch.setenv("AGENTFLOW_BUDGETS__MAX_TOKENS", "200")
    loaded = load_config(overrides=["budgets.max_tokens=300"])
    budgets = loaded.config.budgets
    assert (budgets.max_turns, budgets.max_seconds, budgets.max_tokens) == (3, 20.0, 300)
    assert loaded.sources == {
        "budgets.max_turns": "agentflow.toml",
        "budgets.max_seconds": "environment",
        "budgets.max_tokens": "--set",
    }
    assert dict(leaves(loaded.config))["budgets.max_tokens"] == 300


def test_a_role_takes_its_own_table_then_default_then_its_own_defaults():
    models = ModelsConfig.model_validate(
        {"default": {"model": "m", "max_tokens": 77}, "planner": {"temperature": 0.5}, "verifier": {"max_tokens": 5}}
    )
    assert (models.of("planner").model, models.of("planner").temperature) == ("m", 0.5)
    assert models.of("planner").max_tokens == 77
    assert models.of("verifier").max_tokens == 5
    assert models.of("generate").temperature == 0.0
    assert ModelsConfig.model_validate({"default": {"temperature": 0.2}}).of("planner").temperature == 0.2


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("models.planner.temperature=0.5", "temperature", 0.5),
        ("models.planner.model=qwen", "model", "qwen"),
        ('models.planner.model="qwen"', "model", "qwen"),
        ("models.planner.model=openai:gpt-5", "model", "openai:gpt-5"),
        ("models.planner.base_url=http://127.0.0.1:8000/v1", "base_url", "http://127.0.0.1:8000/v1"),
        ('models.planner.extra={top_k = 5, stop = ["a"]}', "extra", {"top_k": 5, "stop": ["a"]}),
    ],
)
def test_overrides_are_written_as_toml_or_as_text(override, key, value):
    assert getattr(load_config(overrides=[override]).config.models.of("planner"), key) == value


def test_lists_from_the_environment_are_json(monkeypatch):
    monkeypatch.setenv("AGENTFLOW_TOOLS__ENABLED", '["python"]')
    assert load_config().config.tools.enabled == ("python",)


@pytest.mark.parametrize("name", ["CACHE_DIR", "CONTACT", "DEBUG", "VLLM_PYTHON"])
def test_other_variables_of_ours_are_no_settings(monkeypatch, name):
    monkeypatch.setenv(f"AGENTFLOW_{name}", "/somewhere")
    assert load_config().config == FlowConfig()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[budgets\n", "agentflow.toml is not valid TOML"),
        ("[budgets]\nmax_turn = 3\n", "no setting budgets.max_turn in agentflow.toml: did you mean max_turns?"),
        ("[budget]\nmax_turns = 3\n", "no setting budget in agentflow.toml: did you mean budgets?"),
        ("[models.plannr]\nmodel = 'x'\n", "no setting models.plannr in agentflow.toml: did you mean planner?"),
        ("[models.nobody]\nmodel = 'x'\n", "known here are default, analyzer"),
        ("[budgets]\nmax_turns = -1\n", "budgets.max_turns in agentflow.toml does not fit: .*, not -1"),
        ("[budgets]\nmax_turns = 'many'\n", "budgets.max_turns in agentflow.toml does not fit: .*, not 'many'"),
        ("[models.planner]\ntemperature = 9\n", "models.planner.temperature in agentflow.toml does not fit"),
        ("models = 3\n", "models in agentflow.toml does not fit"),
        ("[tools.python]\ntimout = 3\n", "no setting tools.python.timout in agentflow.toml: did you mean timeout?"),
        ("[tools]\nenabled = 'python'\n", "tools.enabled in agentflow.toml does not fit"),
        ("[models.planner]\napi_key = 'sk-planted'\n", "no setting models.planner.api_key .*did you mean api_key_env?"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, sentence):
    write(tmp_path, text)
    with pytest.raises(ConfigError, match=sentence) as raised:
        load_config()
    assert "\n" not in str(raised.value)
    assert "sk-planted" not in str(raised.value)


def test_a_key_in_place_of_its_variables_name_is_refused_and_not_repeated(tmp_path):
    write(tmp_path, "[models.default]\napi_key_env = 'sk-planted-123'\n")
    with pytest.raises(ConfigError, match=r"api_key_env in agentflow.toml .*name of an environment variable") as raised:
        load_config()
    assert "planted" not in str(raised.value)


def test_a_key_inside_an_address_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match=r"base_url .*api_key_env") as raised:
        load_config(overrides=["models.default.base_url=http://user:planted@127.0.0.1/v1"])
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.test/v1?api_key=planted",
        "https://models.test/v1?x=1&access-token=planted",
        "user:planted@models.test/v1",
        "http://user:planted@[x/v1",
    ],
)
def test_a_key_anywhere_in_an_address_is_refused_and_not_repeated(url):
    with pytest.raises(ConfigError, match=r"base_url \(--set\) does not fit: .*address") as raised:
        load_config(overrides=[f"models.default.base_url={url}"])
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    "extra",
    [
        '{api_key = "planted"}',
        '{openai_api_key = "planted"}',
        '{apiKey = "planted"}',
        '{default_headers = {Authorization = "Bearer planted"}}',
        '{default_headers = {"X-Auth-Token" = "planted"}}',
        '{extra_body = {clients = [{"client_secret" = "planted"}]}}',
        '{password = "planted"}',
        '{proxy = "http://me:planted@proxy.test"}',
    ],
)
def test_a_key_among_further_fields_is_refused_and_not_repeated(tmp_path, extra):
    write(tmp_path, f"[models.default]\nextra = {extra}\n")
    with pytest.raises(ConfigError, match=r"default.extra in agentflow.toml .*variable in api_key_env") as raised:
        load_config()
    assert "planted" not in str(raised.value)


def test_fields_that_only_sound_like_keys_are_taken(tmp_path):
    extra = {"prompt_cache_key": "runs", "return_token_ids": True, "eos_token": "</s>", "stop_token_ids": [1], "k": "a"}
    taken = ModelsConfig.model_validate({"planner": {"extra": extra}}).of("planner").extra
    assert taken == extra


@pytest.mark.parametrize("key", ["budgets.max_seconds", "models.planner.timeout", "local.idle_seconds"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_numbers_are_finite(key, value):
    with pytest.raises(ConfigError, match=rf"{key} \(--set\) does not fit: .*(finite|greater than)"):
        load_config(overrides=[f"{key}={value}"])


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "agentflow.toml").write_bytes(b"\xef\xbb\xbf[budgets]\nmax_turns = 3\n")
    assert load_config().config.budgets.max_turns == 3


def test_the_home_directory_is_meant_by_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config(overrides=["storage.url=~/runs.db"]).config.storage.url == str(tmp_path / "runs.db")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AGENTFLOW_BUDGET__MAX_TURNS", "AGENTFLOW_BUDGETS__MAX_TURNS"),
        ("AGENTFLOW_BUDGETS_MAX_TURNS", "AGENTFLOW_BUDGETS__MAX_TURNS"),
        ("agentflow_budget__max_turns", "AGENTFLOW_BUDGETS__MAX_TURNS"),
        ("AGENTFLOW_MODEL__PLANNER__TOP_P", "AGENTFLOW_MODELS__PLANNER__TOP_P"),
        ("AGENTFLOW_CACHEDIR", "AGENTFLOW_CACHE_DIR"),
    ],
)
def test_a_misspelt_variable_is_an_error(monkeypatch, name, meant):
    monkeypatch.setenv(name, "3")
    with pytest.raises(ConfigError, match=rf"no setting for the variable {name}: did you mean {meant}\?"):
        load_config()


def test_a_variable_that_resembles_none_is_an_error_that_says_what_they_look_like(monkeypatch):
    monkeypatch.setenv("AGENTFLOW_X", "3")
    with pytest.raises(ConfigError, match="variable AGENTFLOW_X: write AGENTFLOW_TABLE__SETTING, or unset it"):
        load_config()


def test_a_key_may_be_in_a_variable_with_our_prefix(monkeypatch):
    monkeypatch.setenv("AGENTFLOW_PLANNER_KEY", "x")
    assert load_config(overrides=["models.planner.api_key_env=AGENTFLOW_PLANNER_KEY"])


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"There is no configuration file .*missing.toml"):
        load_config(tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "bytes.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


@pytest.mark.parametrize("override", ["max_turns", "=3", "budgets..max_turns=3", ".=1", ""])
def test_an_override_without_key_or_value(override):
    with pytest.raises(ConfigError, match="must look like"):
        load_config(overrides=[override])


def test_bad_values_from_elsewhere_name_their_source(monkeypatch):
    with pytest.raises(ConfigError, match=r"budgets.max_turns \(--set\) does not fit"):
        load_config(overrides=["budgets.max_turns=x"])
    monkeypatch.setenv("AGENTFLOW_BUDGETS__MAX_TURNS", "x")
    with pytest.raises(ConfigError, match=r"budgets.max_turns \(environment\) does not fit"):
        load_config()
    monkeypatch.setenv("AGENTFLOW_MODELS", "{not json")
    with pytest.raises(ConfigError, match="AGENTFLOW_ variable cannot be read"):
        load_config()


def test_prices_by_the_name_of_a_model(tmp_path):
    file = tmp_path / "agentflow.toml"
    file.write_text('[prices."gpt-4.1"]\nprompt = 2\ncompletion = 8\n')
    price = load_config(file).config.prices["gpt-4.1"]
    assert (price.prompt, price.cached, price.completion) == (2, None, 8)
    with pytest.raises(ConfigError, match=r"prices.m.prompt \(--set\) does not fit: .* greater than or equal to 0"):
        load_config(file, overrides=["prices.m.prompt=-1", "prices.m.completion=0"])


def test_a_mistyped_field_of_a_price_is_told(tmp_path):
    file = tmp_path / "agentflow.toml"
    file.write_text('[prices."gpt-4.1"]\npromt = 2\nprompt = 2\ncompletion = 8\n')
    with pytest.raises(ConfigError, match=r"no setting prices.gpt-4.1.promt in agentflow.toml: did you mean prompt\?"):
        load_config(file)
