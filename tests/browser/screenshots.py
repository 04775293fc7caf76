"""Photograph the main states of the page: ``make screenshots``, to be looked at."""

import argparse
import tempfile
import time
from pathlib import Path

import pages
from browser import address, chromium

EVENT = "bequest.page.details.goTo(0, bequest.page.stories[0].events[{}])"
HOLD = (
    "const {{clock}} = bequest.page; clock.seek({0}); clock.hold = {{round: {0}, progress: {1}}};"
)
OPEN = "document.querySelectorAll('details.data').forEach((one) => (one.open = true))"

# name -> page, state, window, script
STATES = {
    "pair-light": ("pair", {"round": 950, "theme": "light"}, (1440, 1000), ""),
    "pair-dark": ("pair", {"round": 2600, "theme": "dark"}, (1440, 1000), ""),
    "pair-whole": ("pair", {"round": 1200}, (1440, 1900), EVENT.format(3)),
    "farewell": ("eventful", {}, (1440, 1000), HOLD.format(200, 0.5)),
    "crash-and-farewell": ("eventful", {}, (1440, 1000), HOLD.format(620, 0.5)),
    "story": ("eventful", {"round": 380, "node": 3}, (1440, 1000), ""),
    "departure-dark": ("eventful", {"theme": "dark"}, (1440, 1000), EVENT.format(5)),
    "whole": ("eventful", {"round": 430}, (1440, 2400), OPEN),
    "200-nodes": ("large", {"round": 1000}, (1440, 1000), ""),
    "overview": ("huge", {"round": 200}, (1440, 1000), ""),
    "tablet": ("eventful", {"round": 430}, (900, 1300), ""),
    "phone": ("eventful", {"round": 430}, (420, 1500), ""),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/screenshots"))
    parser.add_argument("names", nargs="*", help="only these")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    wanted = {name: STATES[name] for name in asked.names or STATES}
    with tempfile.TemporaryDirectory() as place:
        made = {
            "pair": lambda: pages.pair(),
            "eventful": lambda: [pages.eventful()[0]],
            "large": lambda: [pages.large(200, 2000)],
            "huge": lambda: [pages.large(1200, 300)],
        }
        files = {
            name: pages.write(Path(place), name, *made[name]())
            for name in {page for page, *_ in wanted.values()}
        }
        for name, (page, state, size, script) in wanted.items():
            with chromium(size=size) as driver:
                driver.get(address(files[page], **state))
                driver.execute_script(script)
                time.sleep(0.6)
                driver.save_screenshot(str(asked.output / f"{name}.png"))
            print(asked.output / f"{name}.png")


if __name__ == "__main__":
    main()
