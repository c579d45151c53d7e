"""A small local proxy for the Messages API: `python -m ipy_websearch.proxy --platform URL`.

Claude Code, or any tool with a base URL, points at it and gains web search on a model that has none. It listens on this
machine alone unless told otherwise; keys pass through and are neither kept nor logged. Needs `ipy_websearch[proxy]`.
"""
