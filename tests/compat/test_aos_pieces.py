"""The small modules of the AoS names: schemas, estimates, briefs, episodes, settings, the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from strongroom.compat.aos_context.cli import main as cli
from strongroom.compat.aos_context.config import DEFAULT_CONFIG, ContextConfig, LLMConfig
from strongroom.compat.aos_context.context_brief import render_context_brief
from strongroom.compat.aos_context.episode import create_episode
from strongroom.compat.aos_context.llm_adapter import LLMClient, create_llm_client
from strongroom.compat.aos_context.memory import MemorySearchResult
from strongroom.compat.aos_context.token_estimator import estimate_tokens, estimate_tokens_any
from strongroom.compat.aos_context.validation import (
    SchemaRegistry,
    ValidationError,
    assert_valid,
    validate_instance,
)
from tests.compat.aos_samples import event, item, mcr, patch, working_set

MINIMAL: dict[str, dict[str, Any]] = {
    "working_set": working_set(),
    "ws_patch": patch(0),
    "ledger_event": event(),
    "mcr": mcr(),
    "memory_item": item(),
    "episode": {
        "_schema_version": "2.1",
        "episode_id": "ep_ab",
        "created_at": "2026-01-01T00:00:00Z",
        "summary": "",
        "ws_before": working_set(),
        "ws_after": working_set(),
        "memory_commits": [],
        "next_entry_point": "",
    },
    "manifest": {
        "_schema_version": "2.1",
        "pack_id": "pack_ab",
        "created_at": "2026-01-01T00:00:00Z",
        "compatible_engine_versions": ["aos-context/2.1.0"],
        "files": {},
        "pointers": {},
    },
}


# ---- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MINIMAL)
@pytest.mark.parametrize("form", ["{}", "{}.v2.1", "{}.v2.1.schema.json", "{}.json", "{}.schema.json", "{}_v2_1"])
def test_schemas_accept_minimal_documents_under_each_of_their_names(name: str, form: str) -> None:
    assert validate_instance(form.format(name), MINIMAL[name]).ok
    assert SchemaRegistry().load(form.format(name))["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("name", MINIMAL)
@pytest.mark.parametrize("wrong", [{"more": 1}, {"_schema_version": "2.0"}])
def test_schemas_refuse_what_they_do_not_know(name: str, wrong: dict[str, Any]) -> None:
    result = validate_instance(name, {**MINIMAL[name], **wrong})
    assert not result.ok and result.error


def test_a_time_must_be_a_time() -> None:
    items = [{"id": "a", "content": "x", "timestamp": "banana", "priority": 1}]
    assert not validate_instance("working_set", working_set(sliding_context=items)).ok


def test_asserting_raises_what_callers_catch() -> None:
    with pytest.raises(ValidationError) as caught:
        assert_valid("mcr", {})
    assert isinstance(caught.value, ValueError) and caught.value.message


def test_the_error_is_a_jsonschema_error_too() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        assert_valid("mcr", {})


@pytest.mark.parametrize("name", ["nothing", "../secrets", "working_set/../mcr"])
def test_a_schema_that_does_not_exist_is_not_found(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        validate_instance(name, {})


# ---- estimates and briefs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 8, 2)])
def test_four_characters_are_a_token(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == estimate_tokens_any(text) == tokens


def test_any_value_costs_its_json() -> None:
    assert (estimate_tokens_any(None), estimate_tokens_any(["a", 1])) == (0, estimate_tokens('["a",1]'))


def test_a_brief_has_seven_headings_and_fillers() -> None:
    text = render_context_brief(working_set(acceptance_criteria=[], constraints=[]))
    assert text.count("\n## ") == 7
    assert "(none)" in text and "(unset)" in text


def test_a_brief_hides_what_is_not_certain_enough() -> None:
    sure = {"memory_id": "m1", "content": "grass is green", "confidence": 0.9}
    doubtful = MemorySearchResult(memory_id="m2", content="sky is red", confidence=0.5, score=1.0)
    text = render_context_brief(working_set(), ltm_results=[sure, doubtful])
    assert "grass is green" in text and "sky is red" not in text
    assert "sky is red" in render_context_brief(working_set(), ltm_results=[doubtful], min_confidence=0.4)


def test_a_brief_of_half_a_working_set_is_still_a_brief() -> None:
    assert "Find out" in render_context_brief({"objective": "Find out"})


def test_the_same_input_gives_the_same_brief() -> None:
    assert render_context_brief(working_set()) == render_context_brief(working_set())


# ---- episodes -------------------------------------------------------------------------------------------------------


def test_an_episode_is_a_file_that_fits_its_schema(tmp_path: Path) -> None:
    made = create_episode(
        episodes_dir=tmp_path / "episodes",
        ws_before=working_set(),
        ws_after=working_set(_update_seq=2),
        ledger_events_since_last=[event(str(number)) for number in range(300)],
        memory_commit_ids=["mem_one"],
        next_entry_point="go on",
    )
    assert made.ok and made.episode_path is not None and str(made.episode_id).startswith("ep_")
    assert made.episode_path == tmp_path / "episodes" / f"{made.episode_id}.v2.1.json"
    episode = json.loads(made.episode_path.read_text())
    assert validate_instance("episode", episode).ok
    assert "TOOL_CALL 300" in episode["summary"] and len(episode["summary"]) <= 1200


def test_an_episode_of_something_else_is_refused_and_not_written(tmp_path: Path) -> None:
    made = create_episode(episodes_dir=tmp_path / "episodes", ws_before={}, ws_after={}, ledger_events_since_last=[])
    assert not made.ok and made.error and not (tmp_path / "episodes").exists()


# ---- settings and models --------------------------------------------------------------------------------------------


def test_the_defaults_are_the_old_ones() -> None:
    assert (DEFAULT_CONFIG.ws_max_tokens, DEFAULT_CONFIG.pinned_context_max_items) == (2000, 10)
    assert (ContextConfig().drift_warn_threshold, ContextConfig().drift_block_threshold) == (0.6, 0.5)
    assert (ContextConfig().milestone_step_cap, ContextConfig().milestone_error_cap) == (10, 3)


def test_the_environment_says_which_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LLM_PROVIDER", "anthropic")
    monkeypatch.setenv("LLM_MODEL_NAME", "some-model")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    monkeypatch.setenv("LLM_TEMPERATURE", "0.1")
    config = LLMConfig.from_env()
    assert (config.provider, config.model_name, config.api_key) == ("anthropic", "some-model", "hush")
    assert (config.temperature, config.max_tokens) == (0.1, 2000)
    assert "hush" not in repr(ContextConfig(llm_config=config))


class Recorder:
    """A stand-in for a provider's client: keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.asked: dict[str, Any] = {}
        self.answer = answer

    def create(self, **asked: Any) -> Any:
        self.asked = asked
        return self.answer


def client_with(monkeypatch: pytest.MonkeyPatch, provider: str, inside: Any) -> LLMClient:
    monkeypatch.setattr(LLMClient, "_create_client", lambda self: inside)
    return create_llm_client(LLMConfig(provider=provider, model_name="m"))


def test_openai_is_asked_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    said = SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="hello"))])
    recorder = Recorder(said)
    client = client_with(monkeypatch, "openai", SimpleNamespace(chat=SimpleNamespace(completions=recorder)))
    assert client.complete([{"role": "user", "content": "hi"}], temperature=0.0) == "hello"
    assert (recorder.asked["model"], recorder.asked["temperature"], recorder.asked["max_tokens"]) == ("m", 0.0, 2000)


def test_anthropic_gets_the_system_prompt_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(SimpleNamespace(content=[SimpleNamespace(type="text", text="hello")]))
    client = client_with(monkeypatch, "anthropic", SimpleNamespace(messages=recorder))
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert client.complete(messages) == "hello"
    assert (recorder.asked["system"], recorder.asked["messages"]) == ("be brief", messages[1:])


@pytest.mark.parametrize(
    ("provider", "package"), [("openai", "openai"), ("local", "openai"), ("anthropic", "anthropic")]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, provider: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        LLMClient(LLMConfig(provider=provider))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of both providers, as they lie around on a developer's machine, and an address of OpenAI's package."""
    for name in ("LLM_PROVIDER", "LLM_BASE_URL", "LLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1")


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("provider", ["ollama", "local", "Ollama", " LOCAL "])
@pytest.mark.parametrize("base_url", [None, "", "http://localhost:11434", "http://localhost:11434/v1/"])
def test_what_is_meant_for_a_local_model_goes_there_without_a_key_of_openai(
    monkeypatch: pytest.MonkeyPatch, provider: str, base_url: str | None
) -> None:
    monkeypatch.setenv("LLM_PROVIDER", provider)
    if base_url is not None:
        monkeypatch.setenv("LLM_BASE_URL", base_url)
    given = LLMConfig(provider=provider, base_url=base_url, api_key="sk-mine")
    for client in (create_llm_client(), create_llm_client(given)):
        assert str(client.client.base_url) == "http://localhost:11434/v1/"
        assert client.client.api_key == "not-needed"


@pytest.mark.usefixtures("keys")
def test_a_local_model_takes_no_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "ollama")
    assert LLMConfig.from_env().api_key is None


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("provider", ["antropic", "lmstudio", "", "open ai"])
def test_a_provider_that_is_not_known_is_refused_not_guessed(provider: str) -> None:
    with pytest.raises(ValueError, match="there are openai, anthropic, ollama, local; nothing was sent"):
        LLMClient(LLMConfig(provider=provider))


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(("provider", "host"), [("Anthropic", "api.anthropic.com"), ("OpenAI", "api.openai.com")])
def test_a_provider_is_known_in_any_case(provider: str, host: str) -> None:
    client = LLMClient(LLMConfig(provider=provider, api_key="mine")).client
    assert (client.base_url.host, client.api_key) == (host, "mine")


# ---- the command line -----------------------------------------------------------------------------------------------


def test_the_demo_runs_and_leaves_a_run_behind(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["demo", "--root", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    assert "LOCK_ERROR expected_seq=0 current_seq=1" in done.output
    assert len(list((tmp_path / "runs").glob("run_*/resume/pack_*.zip"))) == 1
