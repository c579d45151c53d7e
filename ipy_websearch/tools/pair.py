"""The pair `web_search_brave` and `web_search_google`: one schema, two engines, so that either can stand in for the other.

The schemas differ in the name and in the engine's name in the description, in nothing else (seed 002). Unlike `web_search`,
a call goes to the engine that it names and to no other; its failure is told to the model, which can ask the other one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ipy_websearch.errors import ConfigError, WebSearchError
from ipy_websearch.providers.base import SearchRequest, clean_domain
from ipy_websearch.providers.engine import permitted
from ipy_websearch.results import SearchResults
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.inputs import Optional, ToolInput
from ipy_websearch.tools.outputs import rich_passage
from ipy_websearch.tools.schemas import SCHEMAS, SEARCH_PARAMETERS
from ipy_websearch.tools.web_search import UNAVAILABLE, Search, failed, narrowed, search_output
from ipy_websearch.usage import Charge
