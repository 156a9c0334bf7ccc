"""Record the animated picture of the episode viewer in README.md.

    ragen bench --agent starter --game Sokoban --episodes 64 --out RUN
    ragen view RUN --out SITE
    python docs/record_viewer.py SITE/episodes/0-starter/Sokoban.html

Needs Playwright, and Chromium in ``CHROMIUM`` or on the path.
"""

import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import sync_playwright

FILE: Final = Path(__file__).parent / "images" / "viewer.gif"
LEVEL: Final = 2
"""A level on which the starter loses by an overrun, after turns that were fine."""
SECONDS: Final = 1.3


def frames(page_file: Path) -> list[Image.Image]:
    """Return a picture of each step of the level's episode."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 860})
        page.goto(f"{page_file.resolve().as_uri()}#{LEVEL}")
        page.locator("#heading").wait_for()
        scrubber = page.locator("#scrubber")
        last = int(scrubber.get_attribute("max") or 0)
        found = []
        for step in range(last + 1):
            scrubber.fill(str(step))
            page.evaluate("window.scrollTo(0, 0)")
            found.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
        browser.close()
    return found


def main() -> None:
    """Write the picture."""
    small = [frame.resize((750, 645)) for frame in frames(Path(sys.argv[1]))]
    pictures = [frame.quantize(160, dither=Image.Dither.NONE) for frame in small]
    pictures[0].save(FILE, save_all=True, append_images=pictures[1:], duration=int(1000 * SECONDS), loop=0)


if __name__ == "__main__":
    main()
