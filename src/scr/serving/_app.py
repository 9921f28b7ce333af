"""The HTTP side of the service: routes, the size of requests, errors as short JSON."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from scr.serving import _requests
from scr.serving._service import Service

log = logging.getLogger("scr.serving")


def make_app(service: Service) -> FastAPI:
    """The application that answers `GET /`, `GET /health` and `POST /predict`."""
    # No pages of documentation: they load scripts from elsewhere.
    app = FastAPI(title="scr", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/")
    async def describe() -> dict[str, Any]:
        return service.describe()

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        try:
            body = await _read(request, service.limits.bytes)
            return await run_in_threadpool(_answer, service, body)
        except _requests.RequestError as error:
            return JSONResponse(error.body(), error.status)
        except ClientDisconnect:
            return Response(status_code=_requests.BAD_REQUEST)
        except Exception as error:  # noqa: BLE001  the last door: no traceback leaves it
            log.error("unexpected %s: %s", type(error).__name__, error)
            message = "The service could not answer; what happened is in its log"
            return JSONResponse({"error": message}, _requests.FAILED)

    @app.exception_handler(HTTPException)
    async def refuse(_: Request, error: HTTPException) -> Response:
        message = f"{error.detail}; there are `GET /`, `GET /health` and `POST /predict`"
        return JSONResponse({"error": message}, error.status_code, error.headers)

    return app


def _answer(service: Service, body: bytes) -> Response:
    """Read and answer a request, outside the event loop: large ones take a while."""
    limits = service.limits
    asked = _requests.Request.parse(body, limits.nodes, limits.edges)
    return JSONResponse(service.answer(asked))


async def _read(request: Request, most: int) -> bytes:
    """The body of a request, of which never more than what is allowed is held."""
    too_large = _requests.RequestError(
        _requests.TOO_LARGE, f"The request is larger than {most:,} bytes; expected less",
        "ask in several requests",
    )  # fmt: skip
    named = request.headers.get("content-length", "")
    if named.isdecimal() and int(named[:20]) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)
