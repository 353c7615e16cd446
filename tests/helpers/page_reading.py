"""Parser of a report: its tables, its text, and the data of its explorer."""

import json
from html.parser import HTMLParser
from pathlib import Path


class Report(HTMLParser):
    """Parser that collects tables by id (rows of (text, value)), all text, and the data of the explorer."""

    def __init__(self, path):
        super().__init__()
        self.html = Path(path).read_text(encoding="utf-8")
        self.tables, self.text, self.explorer, self.tags = {}, "", None, []
        self._table, self._cell, self._data, self._inside = None, None, False, []
        self.feed(self.html)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self._inside.append(tag)
        if tag == "table":
            self._table = self.tables.setdefault(attributes.get("id"), [])
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th"):
            value = attributes.get("data-value")
            self._cell = ["", float(value) if value else None]
            self._table[-1].append(self._cell)
        self._data = attributes.get("id") == "explorer-data"

    def handle_endtag(self, tag):
        self._cell = None if tag in ("td", "th") else self._cell
        self._table = None if tag == "table" else self._table
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data):
        if self._data and data.strip():
            self.explorer = json.loads(data)
        elif not {"style", "script"} & set(self._inside):
            self.text += data + " "
        if self._cell is not None:
            self._cell[0] += data

    def column(self, table, name):
        """Return the texts and values of a column, without its header."""
        head, *rows = self.tables[table]
        place = [cell[0] for cell in head].index(name)
        return [tuple(row[place]) for row in rows]

    def values(self, table, name):
        return [value for _, value in self.column(table, name)]

    def words(self, table, name):
        return [text for text, _ in self.column(table, name)]
