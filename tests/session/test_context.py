"""`%ask --context` shows the request that would be sent, part by part, and sends nothing; unknown model names get a note."""

from __future__ import annotations

from typing import Any

from tests.fakes.replies import text, tool_use


def sent(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("stream", "max_tokens")}


def test_the_context_is_the_request_that_goes_out_afterwards(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """What is shown as JSON equals the body that the same question then sends; showing it sends nothing."""
    shown = shell.run("c = %ask --context who wrote Ruby?")
    assert shown.ok and messages_api.bodies == []
    messages_api.reply(text("Matz."))
    shell.run("%ask who wrote Ruby?")
    expected = sent(dict(shell.ns["c"].request))
    assert expected == sent(messages_api.bodies[0])


def test_the_context_of_a_follow_up_has_the_conversation(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """Questions, calls, results and answers are rows in the order of the request, each with its tokens."""
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply(text("Matz wrote Ruby."))
    shell.run("%ask who wrote Ruby?")
    shell.run("c = %ask --context --follow and when?")
    frame = shell.ns["c"]
    rows = list(zip(frame["role"], frame["what"], strict=True))
    assert rows[-6:-2] == [
        ("user", "earlier question"),
        ("assistant", "call of web_search"),
        ("user", frame["what"].iloc[-4]),
        ("assistant", "text"),
    ]
    assert frame["what"].iloc[-4].startswith("result with ")
    assert rows[-2:] == [("user", "question"), ("api", "frame of the request")]
    assert (frame["tokens"] > 0).all()
    assert frame["tokens"].sum() == frame.input_tokens < frame.most_input_tokens


def test_without_a_question_the_context_is_that_of_the_next_follow_up(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """With a conversation its turns are shown; without one, one line says what to write."""
    refused = shell.run("%ask --context")
    assert not refused.ok and "there is no conversation yet" in str(refused.error)
    messages_api.reply(text("Matz."))
    shell.run("%ask who wrote Ruby?")
    shell.run("c = %ask --context")
    assert "earlier question" in set(shell.ns["c"]["what"])
    assert len(messages_api.bodies) == 1


def test_the_context_shows_no_key_and_no_live_html(messages_api: Any, shell: Any) -> None:
    """A key pasted into the question is masked in every form; markup in it stays text."""
    ran = shell.run(f"%ask --context <script>alert(1)</script> {messages_api.key}")
    html = ran.value.to_html()
    assert "<script" not in html and "&lt;script&gt;" in html
    shown = html + ran.value.to_string() + ran.stdout + repr(ran.value.request)
    assert messages_api.key not in shown and "[key]" in shown


def test_the_context_of_native_search_is_what_is_sent(messages_api: Any, shell: Any) -> None:
    """What the API's own tools may find is no part of it: it is said to come on top."""
    ran = shell.run("c = %ask --context --tools native who wrote Ruby?")
    frame = shell.ns["c"]
    assert frame.tokens.sum() == frame.input_tokens < frame.most_input_tokens < 4_000
    assert "under 1 % of the 1,000,000" in ran.stdout and "the API's own tools find comes on top" in ran.stdout
    assert "on top" not in shell.run("%ask --context who wrote Ruby?").stdout


def test_an_unknown_model_name_is_passed_on_with_a_note(messages_api: Any, shell: Any) -> None:
    """The request carries the name as typed; the answer says that it is not known."""
    messages_api.models["my-own-model"] = 200_000
    messages_api.reply(text("Hello."))
    ran = shell.run("a = %ask --model my-own-model hi there")
    assert ran.ok and messages_api.bodies[0]["model"] == "my-own-model"
    assert any("'my-own-model' is not a model that is known here" in notice for notice in shell.ns["a"].notices)


def test_a_model_that_the_api_does_not_know_is_answered_with_the_nearest_name(messages_api: Any, shell: Any) -> None:
    """A typing error costs one line."""
    messages_api.allow_refusals = True
    ran = shell.run("%ask --model claude-sonet-5-5 hi there")
    assert not ran.ok and "did you mean 'claude-sonnet-5-5'?" in str(ran.error)


def test_known_names_and_aliases_get_no_note(messages_api: Any, shell: Any) -> None:
    """`haiku` stands for its newest id, and nothing is said about it."""
    messages_api.reply(text("Hello."))
    shell.run("a = %ask --model haiku hi there")
    assert messages_api.bodies[0]["model"] == "claude-haiku-5-5" and shell.ns["a"].notices == ()


def test_the_context_of_a_named_model_needs_no_key(brave_api: Any, shell: Any, offline: list[str]) -> None:
    """Nothing is sent, so `--context --model` asks for none, as `--estimate` does; asking the model itself does."""
    shown = shell.run("c = %ask --context --model sonnet who wrote Ruby?")
    assert shown.ok, shown.error
    assert shell.ns["c"].request["model"] == "claude-sonnet-5-5" and (shell.ns["c"].role == "tools").any()
    refused = shell.run("%ask --model sonnet who wrote Ruby?")
    assert not refused.ok and "ANTHROPIC_API_KEY" in str(refused.error)
    assert offline == []
