"""The Contents API of one GitHub repository."""

from __future__ import annotations

import base64
from typing import Any

from aiohttp import web

from tests.fakes.server import Server

TOKEN = "ghp_fakeTokenOfTheTests0123456789"


class GitHub(Server):
    """The Contents API of one repository, `acme/research`; `files` maps full paths to what is answered for them."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, Any] = {}
        self.asked: list[web.Request] = []
        self.status: int | None = None

    def routes(self) -> list[tuple[str, str, Any]]:
        """Serve one endpoint."""
        return [("GET", "/repos/acme/research/contents/{path:.+}", self._contents)]

    async def _contents(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        if self.status is not None:
            return web.json_response({"message": f"no, {TOKEN}"}, status=self.status)
        found = self.files.get(request.match_info["path"])
        return web.json_response(found or {"message": "Not Found"}, status=200 if found else 404)

    @staticmethod
    def file(data: bytes, **changed: Any) -> dict[str, Any]:
        """Return the object that stands for a file; a value of None takes a field out."""
        text = base64.encodebytes(data).decode()
        found = {"type": "file", "size": len(data), "encoding": "base64", "content": text, **changed}
        return {name: value for name, value in found.items() if value is not None}
