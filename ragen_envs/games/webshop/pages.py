"""The pages of the shop as text: as a person would write them down, and as published."""

from collections.abc import Iterator
from typing import Final

from ragen_envs.games.webshop.catalogue import Catalogue, Product
from ragen_envs.games.webshop.dynamics import BACK, BUY, PREVIOUS, SUBPAGES, Page, buttons

_SEPARATOR: Final = " [SEP] "
_RICH: Final = {
    "text": "{}", "button": "[button] {} [button_]", "clicked": "[clicked button] {} [clicked button_]"
}  # fmt: skip


def published_text(instruction: str, page: Page, catalogue: Catalogue, rich: bool) -> str:
    """Return a page in one of the published forms: visible texts, or lines with marked buttons."""
    pieces = _pieces(instruction, page, catalogue)
    if rich:
        return "\n".join(_RICH[kind].format(text) for text, kind in pieces)
    return _SEPARATOR.join(text for text, _ in pieces)


def _pieces(instruction: str, page: Page, catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the visible texts of a page in their order, each "text", "button" or "clicked"."""
    pieces = [("Instruction:", "text"), (instruction, "text")]
    if page.query is None:
        return [("WebShop", "text"), *pieces, ("Search", "button")]
    pieces.append((BACK, "button"))
    if page.product is None:
        pieces.append((f"Page {page.number} (Total results: {len(page.hits)})", "text"))
        turns = [label for label in buttons(page, catalogue)[1:] if label in ("< Prev", "Next >")]
        pieces += [(label, "button") for label in turns]
        for number in page.shown:
            product = catalogue[number]
            pieces += [(product.id, "button"), (product.title, "text"), (_price(product), "text")]
        return pieces
    pieces.append((PREVIOUS, "button"))
    if page.subpage is not None:
        return [*pieces, *((line, "text") for line in subpage_lines(page.product, page.subpage))]
    labels = page.option_labels
    for name, values in page.product.options:
        pieces.append((name, "text"))
        for value in values:
            pieces.append((labels[name, value], "clicked" if (name, value) in page.chosen else "button"))
    product = page.product
    pieces += [(product.title, "text"), (f"Price: {_price(product)}", "text")]
    pieces += [(f"Rating: {_rating(product)}", "text")]
    return [*pieces, *((label, "button") for label in (*SUBPAGES, BUY))]


def plain_text(instruction: str, page: Page, catalogue: Catalogue) -> str:
    """Return a page as a person would write it down."""
    return "\n".join([f"Instruction: {instruction}", *_plain_lines(page, catalogue)])


def _plain_lines(page: Page, catalogue: Catalogue) -> Iterator[str]:
    if page.query is None:
        yield "You are on the search page. Search for something."
        return
    product = page.product
    if product is None:
        yield (
            f"Results for '{page.query[:100]}': {len(page.hits)} products, page {page.number} of {page.pages}"
        )
        for number in page.shown:
            each = catalogue[number]
            yield f"[{each.id}] {each.title}, {_price(each)}"
    elif page.subpage is not None:
        yield f"{page.subpage} of {product.title}"
        yield from subpage_lines(product, page.subpage)
    else:
        yield f"{product.title}, {_price(product)}, {_rating(product)}"
        labels = page.option_labels
        for name, values in product.options:
            mark = page.options.get(name)
            shown = " ".join(f"[{labels[name, value]}]" for value in values)
            yield f"{name}: {shown}" + (f" (chosen: {mark})" if mark in values else "")
        if page.bought:
            return
    ids = {catalogue[number].id for number in page.shown} if product is None else set()
    options = page.option_buttons
    others = [label for label in buttons(page, catalogue) if label not in ids | set(options)]
    if others:
        yield "Buttons: " + " ".join(f"[{label}]" for label in others)


def subpage_lines(product: Product, subpage: str) -> tuple[str, ...]:
    """Return the lines of a sub-page of a product."""
    if subpage == "Description":
        return (product.description or "There is no description.",)
    if subpage == "Features":
        return product.bullets or ("There are no features.",)
    return product.reviews or ("There are no reviews.",)


def _price(product: Product) -> str:
    return f"${product.price:.2f}"


def _rating(product: Product) -> str:
    return f"{product.rating:.1f} stars" if product.rating else "no rating"
