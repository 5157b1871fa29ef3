"""Looking at pages of the UI."""

import os
import time
from pathlib import Path

WAIT_S = 60


def see(browser, *texts: str) -> str:
    """Wait until the page shows all texts; return what it shows."""
    deadline = time.monotonic() + WAIT_S
    while True:
        shown = browser.execute_script("return document.body.innerText")
        if all(text in shown for text in texts):
            return str(shown)
        assert time.monotonic() < deadline, f"{texts} not all on the page:\n{shown[:3000]}"
        time.sleep(0.5)


def keep(browser, name: str) -> None:
    folder = os.environ.get("EGO_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))
