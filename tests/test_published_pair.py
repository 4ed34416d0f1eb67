"""The published exponents, in the package and as a file."""

from pathlib import Path

import pandas as pd

from twoclock.published import published

FILE = Path(__file__).parent.parent / "data" / "published.csv"


def test_the_shipped_table_is_the_packages_own():
    """data/published.csv holds what fit shows beside our exponents."""
    pd.testing.assert_frame_equal(pd.read_csv(FILE), published(), check_dtype=False)
