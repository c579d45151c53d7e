"""One-call interception: `client = intercept(client)`, and `messages.create` with a web search tool searches by itself.

The loop of `%%ask` runs inside the call, whatever the platform behind the client; the reply has the shape of the API's own
web search, streamed or whole, so that a client that was written for that one cannot tell.
"""

from __future__ import annotations

from ipy_websearch.interception.interceptor import WebSearchInterceptor, intercept
from ipy_websearch.interception.tools import web_search_tool

__all__ = ["WebSearchInterceptor", "intercept", "web_search_tool"]
