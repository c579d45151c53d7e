"""What a reader should know of why the model stopped. Every stop reason is named here; unknown ones are shown. Pure."""

from __future__ import annotations

from ipy_websearch.model.reply import Reply


def stop_note(reply: Reply) -> str:
    """Return what a reader should know of why the model stopped, "" when it ended as it should."""
    match reply.stop_reason:
        case "end_turn" | "stop_sequence" | "tool_use" | "pause_turn":
            return ""
        case "max_tokens":
            return "the answer was cut off at max_tokens; raise it with %config WebSearch.max_tokens"
        case "refusal":
            category = (reply.stop_details or {}).get("category")
            return f"the model declined to answer{f' ({category})' if category else ''}"
        case "model_context_window_exceeded":
            return "the answer was cut off: the model's context window is full; %ask --reset begins anew"
        case other:
            return f"the model stopped for a reason unknown here: {other}"
