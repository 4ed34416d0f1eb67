"""Row selection by a small, safe expression: ``batch_size >= 256 and task == 'addition'``.

The text is parsed, never evaluated: comparisons of a column with a literal, joined by and, or, not.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.errors import SettingsError

Mask = NDArray[np.bool_]

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def select_rows(frame: pd.DataFrame, expression: str) -> Mask:
    """Return which rows of `frame` satisfy `expression`; a missing value satisfies nothing.

    Parameters
    ----------
    frame : DataFrame
        Any table, n rows.
    expression : str
        Comparisons of columns with numbers, strings or lists, joined by ``and``, ``or``, ``not``.

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    SettingsError
        The expression does not parse, or names an unknown column.

    Examples
    --------
    >>> frame = pd.DataFrame({"batch_size": [64, 256], "task": ["addition", "sorting"]})
    >>> select_rows(frame, "batch_size > 100 and task in ['sorting']").tolist()
    [False, True]
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as err:
        msg = f'--select {expression!r}: {err.msg}; write e.g. "batch_size >= 256 and seed < 5"'
        raise SettingsError(msg) from None
    return _mask(tree.body, frame, expression)


def _mask(node: ast.expr, frame: pd.DataFrame, text: str) -> Mask:
    if isinstance(node, ast.BoolOp):
        masks = [_mask(value, frame, text) for value in node.values]
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return np.asarray(join.reduce(masks), dtype=bool)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~_mask(node.operand, frame, text)
    if isinstance(node, ast.Compare):
        return _comparison(node, frame, text)
    msg = f"--select {text!r}: only comparisons joined by and, or, not are understood"
    raise SettingsError(msg)


def _comparison(node: ast.Compare, frame: pd.DataFrame, text: str) -> Mask:
    left, out = node.left, np.ones(len(frame), dtype=bool)
    for op, right in zip(node.ops, node.comparators, strict=True):
        a, b = _operand(left, frame, text), _operand(right, frame, text)
        try:
            if isinstance(op, (ast.In, ast.NotIn)):
                result = pd.Series(a).isin(b)
                result = ~result if isinstance(op, ast.NotIn) else result
            elif type(op) in _COMPARE:
                result = pd.Series(_COMPARE[type(op)](a, b), index=frame.index)
            else:
                msg = f"--select {text!r}: comparison not understood"
                raise SettingsError(msg)
        except TypeError:
            msg = f"--select {text!r}: a column of numbers is compared with text, or the reverse"
            raise SettingsError(msg) from None
        out &= result.fillna(value=False).to_numpy(dtype=bool)
        left = right
    return out


def _operand(node: ast.expr, frame: pd.DataFrame, text: str) -> Any:
    if isinstance(node, ast.Name):
        if node.id not in frame.columns:
            msg = f"--select {text!r}: no column {node.id!r}; known: {', '.join(frame.columns)}"
            raise SettingsError(msg)
        return frame[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError:
        msg = f"--select {text!r}: {ast.unparse(node)!r} is neither a column nor a literal"
        raise SettingsError(msg) from None
