"""The dashboard in a process of its own on a test's graph, with a page open on it."""

from __future__ import annotations

import re
import socket
from typing import Any

from browsing import complaints_of
from graph import DEADLINE_S, Graph, Process


class Panel:
    """Starts the dashboard, opens its page, waits for what the page says."""

    def __init__(self, graph: Graph, browser: Any, **parameters: object) -> None:
        self.graph = graph
        self.port = free_port()
        self.parameters = parameters
        self.process = self.start()
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page = self.context.new_page()
        self.complaints = complaints_of(self.context)

    @property
    def address(self) -> str:
        """Of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> Process:
        """Start the dashboard, also again on the same port."""
        self.process = self.graph.start("dashboard_node", port=self.port, **self.parameters)
        self.process.said("dashboard: http")
        return self.process

    def open(self, path: str = "") -> Any:
        """Load the page and wait until it is connected."""
        self.page.goto(self.address + path)
        self.until("the page is connected", lambda: self.page.get_attribute("body", "class") == "")
        return self.page

    def until(self, what: str, check: Any, deadline_s: float = DEADLINE_S) -> Any:
        """Wait for a condition, receiving messages meanwhile; a failure tells what the page says."""
        try:
            return self.graph.until(what, check, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\nthe page says: {self.page.inner_text('body')}") from None

    def shows(self, selector: str, words: str, deadline_s: float = DEADLINE_S) -> str:
        """Wait until an element holds the words, which are a regular expression; the element's text."""
        texts: list[str] = []

        def found() -> bool:
            texts[:] = self.page.locator(selector).all_inner_texts()
            return any(re.search(words, text) for text in texts)

        self.until(f"{selector} says {words!r}", found, deadline_s)
        return texts[0]

    def close(self) -> None:
        """Close the page."""
        self.context.close()


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
