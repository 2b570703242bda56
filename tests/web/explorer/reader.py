"""A reader of pages in Chromium."""

from pathlib import Path

PAINTED = """(selector) => [...document.querySelectorAll(selector)].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3]) colours.add(data.slice(at, at + 3).join());
    return colours.size;
})"""
"""Counts the colours on some canvases; a blank one has none."""


class Reader:
    """A browser with one page; whatever it asks for or complains about is remembered."""

    def __init__(self, chromium, address: str, **options) -> None:
        options = {"viewport": {"width": 1400, "height": 900}, "accept_downloads": True} | options
        self.context = chromium.new_context(**options)
        self.page, self.address = self.context.new_page(), address
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda one: self.asked.append(one.url))
        self.page.on("pageerror", lambda one: self.complaints.append(str(one)))
        self.page.on("dialog", lambda one: self.complaints.append(f"dialog {one.message}"))
        self.page.on("console", self.on_console)

    def on_console(self, said) -> None:
        # canvases are read by these tests alone
        if said.type in ("error", "warning") and "willReadFrequently" not in said.text:
            self.complaints.append(said.text)

    def open(self, state: str = ""):
        self.page.goto(f"{self.address}#{state}")
        self.page.wait_for_selector("body[data-ready]", timeout=30_000)
        return self.page

    def drawn(self, selector: str = "#see canvas") -> int:
        """Return how many colours are on some canvases once they are painted."""
        self.page.wait_for_function(f"() => ({PAINTED})('{selector}').some((one) => one > 3)", timeout=10_000)
        return max(self.page.evaluate(PAINTED, selector))

    def check(self) -> None:
        """Assert that nothing was asked from elsewhere and nothing went wrong."""
        elsewhere = [
            url for url in self.asked if not url.startswith((self.address.split("#")[0], "data:", "blob:"))
        ]
        assert (elsewhere, self.complaints) == ([], [])


PICTURE_OF = "document.querySelector('#see .canvas')._cyreg.cy"
"""The first network of the page."""


def downloaded(page, selector: str) -> tuple[str, bytes]:
    """Click on something that downloads a file; return its name and content."""
    with page.expect_download() as found:
        page.click(selector)
    return found.value.suggested_filename, Path(found.value.path()).read_bytes()
