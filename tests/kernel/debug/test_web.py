"""Prompts in a page: what a browser is sent, what it sends, and who is refused."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.introspect.errors import ArgumentValueError
from pellucid_kernel.debug import prompt
from pellucid_kernel.debug.web import Page, page

SECONDS = 60


@pl.jit
def scaled(x):
    y = 2 * x
    pl.debug.breakpoint(backend="web", stdout=announced)
    return y


announced = io.StringIO()


def announced_address(stream: io.StringIO) -> str:
    deadline = time.monotonic() + SECONDS
    while "http" not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.02)
    return stream.getvalue().split()[-1]


def dialog(address: str, commands: list[str]) -> str:
    """The text of a page that enters `commands`, one whenever a prompt waits."""

    async def talk() -> str:
        parts = urlsplit(address)
        connection = await websocket_connect(f"ws://{parts.netloc}/lines?{parts.query}")
        shown = ""
        waiting = iter(commands)
        while True:
            message = json.loads(await connection.read_message() or "null")
            shown += message.get("text", "")
            if message.get("is_waiting"):
                await connection.write_message(next(waiting))
            elif message.get("is_waiting") is False and shown.count("(pellucid) ") == len(commands):
                connection.close()
                return shown

    return asyncio.run(asyncio.wait_for(talk(), SECONDS))


def test_a_program_waits_for_the_page_and_goes_on() -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(float(scaled(np.float32(3)))))
    thread.start()
    shown = dialog(announced_address(announced), ["p y", "nonsense", "c"])
    thread.join(SECONDS)
    assert results == [6.0]
    assert "-> " in shown
    assert "Array(6., dtype=float32" in shown
    assert "NameError" in shown


def test_a_session_is_stepped_from_the_page() -> None:
    def twice(x):
        y = jnp.sin(x)
        return y + y

    page.cache_clear()
    stream = io.StringIO()
    thread = threading.Thread(target=prompt(twice, backend="web", stdout=stream), args=[1.0])
    thread.start()
    shown = dialog(announced_address(stream), ["n", "a", "q"])
    thread.join(SECONDS)
    assert "y = f32[] in [0.841471, 0.841471]" in shown


def status(address: str, headers: dict[str, str] | None = None) -> int:
    async def fetch() -> int:
        try:
            return (await AsyncHTTPClient().fetch(HTTPRequest(address, headers=headers))).code
        except HTTPClientError as error:
            return error.code

    return asyncio.run(fetch())


def test_only_who_knows_the_token_is_answered() -> None:
    shown = Page()
    assert status(shown.url) == 200
    assert status(shown.url[:-1]) == 403
    assert status(shown.url.replace("/?", "/lines?wrong")) == 403
    assert status(shown.url, headers={"Host": f"evil.example:{shown.port}"}) == 403
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    upgrade |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": "http://evil.example"}
    assert status(shown.url.replace("/?", "/lines?"), headers=upgrade) == 403


def test_a_port_that_is_taken_and_a_back_end_that_is_none() -> None:
    with pytest.raises(ArgumentValueError, match="can't be served on port"):
        page(Page().port)
    with pytest.raises(ArgumentValueError, match="Take one of cli, web"):
        prompt(jnp.sin, backend="paper")
