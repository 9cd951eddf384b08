"""Where the rows and cells of a table stand among the lines of its text, and a row in one line."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .html_style import declared_in

_MAX_ROW = 300  # characters; the cells of a longer row keep their own lines


@dataclass(slots=True)
class Table:
    """An open table."""

    attributes: Mapping[str, str]
    row_start: int = 0
    holds_table: bool = False
    _cell_start: int = 0
    _told_up_to: int = 0
    """The line after the row's last cell: what stands between is text beside cells."""
    _has_loose_text: bool = False
    _cells: list[list[str]] = field(default_factory=list)
    _has_grid: bool = False
    """It shows data: an empty cell means something there, and nothing where cells only lay out a page."""

    def __post_init__(self) -> None:
        self._has_grid = self.attributes.get("border", "0").strip() not in ("", "0")

    def start_row(self, line: int) -> None:
        self.row_start, self.holds_table, self._cells = line, False, []
        self._told_up_to, self._has_loose_text = line, False

    def start_cell(self, tag: str, attributes: Mapping[str, str], line: int) -> None:
        self._cell_start = line
        self._has_loose_text = self._has_loose_text or line > self._told_up_to
        self._has_grid = self._has_grid or tag == "th" or "solid" in declared_in(attributes).get("border", "")

    def end_cell(self, lines: list[str]) -> None:
        if not self.holds_table:
            self._cells.append(lines[self._cell_start :])
        self._told_up_to = len(lines)

    def row(self, prefix: str, end: int) -> str:
        """The row in one line, where it ends before line `end`; empty if it has no text, more than fits, or text beside
        its cells."""
        cells = [[line.removeprefix(prefix) for line in cell if line] for cell in self._cells]
        full = [cell for cell in cells if cell]
        has_blocks = any(len(cell) > 1 for cell in full)
        length = sum(len(line) for cell in full for line in cell)
        stays = self.holds_table or self._has_loose_text or end > self._told_up_to
        if stays or len(full) == 0 or (has_blocks and (len(full) == 1 or length > _MAX_ROW)):
            return ""
        while not cells[-1]:
            cells.pop()
        return " | ".join(" ".join(cell) for cell in (cells if self._has_grid else full))
