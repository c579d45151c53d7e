"""The schemas of seed 002, to the letter: what the two searches and the fetch are called, say and take.

They are plain data, so that the executables can print and check them without pydantic; the tools that the model gets take
their schemas from here as well.
"""

from __future__ import annotations

from typing import Any

_SEARCH_DESCRIPTION = (
    "Search the web using {provider} and use the results to inform responses. Provides up-to-date information for current "
    "events and recent data. Returns search result information formatted as search result blocks, including links as "
    "markdown hyperlinks."
)

_SEARCH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "The search query to use", "minLength": 2},
        "allowed_domains": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Only include search results from these domains",
        },
        "blocked_domains": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Never include search results from these domains",
        },
    },
    "required": ["query"],
}

# Each tool's name, description and parameters, in the order in which the seed prints them.
SCHEMAS: dict[str, dict[str, Any]] = {
    "web_search_brave": {
        "name": "web_search_brave",
        "description": _SEARCH_DESCRIPTION.format(provider="Brave Search API"),
        "parameters": _SEARCH_PARAMETERS,
    },
    "web_search_google": {
        "name": "web_search_google",
        "description": _SEARCH_DESCRIPTION.format(provider="Google Custom Search API"),
        "parameters": _SEARCH_PARAMETERS,
    },
    "web_fetch": {
        "name": "web_fetch",
        "description": (
            "Fetches content from a specified URL and returns it as markdown. Converts HTML to markdown using libxml2. "
            "Supports pagination via offset and limit parameters similar to file_read."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "url": {"type": "string", "format": "uri", "description": "The URL to fetch content from"},
                "offset": {"type": "integer", "description": "Line number to start reading from (1-based)", "minimum": 1},
                "limit": {"type": "integer", "description": "Maximum number of lines to return", "minimum": 1},
            },
            "required": ["url"],
        },
    },
}
