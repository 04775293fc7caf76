"""A headless Chromium that tells everything it complains about, and everything it asks for."""

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


def is_installed() -> bool:
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def chromium(*more: str, size=(1440, 900)):
    """A browser with a profile of its own, which is gone afterwards."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (
            *FLAGS,
            *more,
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
        ):
            options.add_argument(flag)
        options.add_argument("about:blank")
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            driver.set_window_size(*size)
            yield driver
        finally:
            driver.quit()


def complaints(driver) -> list[str]:
    """What the console has said since it was last asked."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] != "DEBUG"]


def requests(driver) -> list[str]:
    """The addresses that were asked for since this was last asked, but for data and files."""
    asked = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    return [url for url in asked if not url.startswith(("file:", "data:", "chrome"))]


def address(page: Path, **state: object) -> str:
    """The address of a page, at a round or with a node chosen."""
    wanted = "&".join(f"{name}={value}" for name, value in state.items())
    return page.resolve().as_uri() + (f"#{wanted}" if wanted else "")
