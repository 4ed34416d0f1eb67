"""What a table is: its name, key and columns with type, unit and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["str", "int", "float", "bool"]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Snake-case name, the same in tables, JSON, options and documentation.
    kind : {"str", "int", "float", "bool"}
        Type of the values; ints are held as pandas ``Int64``, so that missing stays missing.
    unit : str
        Unit of the values (``"responses"``, ``"1"`` for pure numbers, ``""`` for text).
    meaning : str
        One sentence.
    required : bool
        Must be present and not missing in every row.
    choices : tuple of str
        Allowed values of a text column (empty: any).
    sourced : bool
        A column ``NAME_from`` beside it says where the value came from.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    required: bool = False
    choices: tuple[str, ...] = ()
    sourced: bool = False


@dataclass(frozen=True)
class Table:
    """A table: its key and columns.

    Parameters
    ----------
    name : str
        Name of the table.
    key : tuple of str
        Columns that identify a row.
    columns : tuple of Column
        All columns.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order (``NAME_from`` columns not among them)."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        """Return the column called `name`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
