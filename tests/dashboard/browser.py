"""Chromium, as the tests and `make screenshots` use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.support import eventually


@contextmanager
def start(chromium: str, driver: str) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new", "--window-size=1280,1000", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--hide-scrollbars",
    ):  # fmt: skip
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    try:
        yield found
    finally:
        found.quit()


class Browser:
    def __init__(self, chromium: webdriver.Chrome, url: str) -> None:
        self.chromium = chromium
        self.url = url

    def sign_in(self, user: User) -> None:
        client = Client()
        client.force_login(user)
        self.chromium.get(f"{self.url}/static/duebox_dashboard/icon.svg")
        self.chromium.delete_all_cookies()
        self.chromium.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value, "path": "/"})
        self.complaints()

    def open(self, path: str = "") -> Browser:
        self.chromium.get(f"{self.url}/admin/duebox/{path}")
        return self

    def leave(self) -> None:
        """So that no page asks a server that is gone."""
        self.chromium.get("about:blank")
        self.complaints()

    @property
    def text(self) -> str:
        return str(self.script("return document.body ? document.body.innerText : ''"))

    def shows(self, text: str, seconds: float = 30.0) -> bool:
        """Once it does; fails after the time."""
        return bool(eventually(lambda: text in self.text, seconds))

    def find(self, selector: str) -> WebElement:
        return self.chromium.find_element(By.CSS_SELECTOR, selector)

    def click(self, text: str) -> None:
        """A link or button by what it says, once it is there. A live page may replace it before the click."""
        xpath = f"//main//*[self::a or self::button][normalize-space()='{text}']"

        def clicked() -> bool:
            try:
                self.chromium.find_element(By.XPATH, xpath).click()
            except (NoSuchElementException, StaleElementReferenceException, ElementClickInterceptedException):
                return False
            return True

        eventually(clicked, 10.0)

    def fill(self, name: str, text: str) -> None:
        element = self.find(f"main [name={name}]")
        element.clear()
        element.send_keys(text)

    def script(self, code: str, *arguments: Any) -> Any:
        return self.chromium.execute_script(code, *arguments)

    def complaints(self) -> list[str]:
        """What the console says since the last time: errors of scripts, violations of the policy, failed requests."""
        found = [each["message"] for each in self.chromium.get_log("browser") if each["level"] != "INFO"]
        return [each for each in found if "/favicon.ico" not in each]  # of the picture that `sign_in` opens

    def size(self, width: int, height: int = 1000) -> None:
        self.chromium.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def scheme(self, name: str) -> None:
        self.chromium.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]}
        )
