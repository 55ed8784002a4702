"""A report as one HTML file: pictures are inside it, and nothing is fetched from a network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

__all__ = ["Links", "Notes", "Page", "Picture", "Table"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.about { opacity: 0.75; margin-top: 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: 0.2rem 0.5rem; text-align: right; }
td.text, th.text { text-align: left; }
th { background: var(--soft); } .wide { overflow-x: auto; }
figure { margin: 1.2rem 0; } img { max-width: 100%; background: white; border-radius: 6px; }
figcaption { opacity: 0.75; font-size: 0.9rem; }
"""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 0
    """How many columns, from the left, have words in them: they are aligned as such."""

    def html(self) -> str:
        """Return it as HTML."""
        head = self._row("th", self.columns)
        body = "".join(f"<tr>{self._row('td', row)}</tr>\n" for row in self.rows)
        return (
            f"<h2>{escape(self.title)}</h2>\n<div class=wide><table>\n<tr>{head}</tr>\n{body}"
            "</table></div>\n"
        )

    def _row(self, tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=text' if number < self.text_columns else ''}>{escape(cell)}</{tag}>"
            for number, cell in enumerate(cells)
        )


@dataclass(frozen=True, slots=True)
class Notes:
    """Sentences under a heading."""

    title: str
    sentences: Sequence[str]

    def html(self) -> str:
        """Return them as HTML."""
        items = "".join(f"<li>{escape(each)}</li>\n" for each in self.sentences)
        return f"<h2>{escape(self.title)}</h2>\n<ul>\n{items}</ul>\n"


@dataclass(frozen=True, slots=True)
class Links:
    """Rows of links to files beside the page; they lead nowhere else."""

    title: str
    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    """What a row is about, and for each link its text and its path relative to the page."""

    def html(self) -> str:
        """Return them as HTML."""
        body = "".join(
            f"<tr><td class=text>{escape(about)}</td>{''.join(map(self._cell, links))}</tr>\n"
            for about, links in self.rows
        )
        return f"<h2>{escape(self.title)}</h2>\n<div class=wide><table>\n{body}</table></div>\n"

    def _cell(self, link: tuple[str, str]) -> str:
        text, path = link
        return f'<td><a href="{escape(quote(path))}">{escape(text)}</a></td>'


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG file with a sentence about it."""

    path: Path
    caption: str

    def html(self) -> str:
        """Return it as HTML, the picture inside."""
        data = base64.b64encode(self.path.read_bytes()).decode("ascii")
        caption = escape(self.caption)
        return (
            f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>\n"
        )


@dataclass(frozen=True, slots=True)
class Page:
    """The report of one run."""

    title: str
    about: str
    findings: Sequence[str]
    parts: Sequence[Table | Picture | Notes | Links]

    def html(self) -> str:
        """Return the whole file."""
        items = "".join(f"<li>{escape(each)}</li>\n" for each in self.findings)
        parts = "".join(each.html() for each in self.parts)
        return (
            "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
            '<meta name=viewport content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
            f"<h1>{escape(self.title)}</h1>\n<p class=about>{escape(self.about)}</p>\n"
            f"<ul>\n{items}</ul>\n{parts}</body></html>\n"
        )
