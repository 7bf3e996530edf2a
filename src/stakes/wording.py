"""Numbers in words: percentages, spans of percentages and counts.

Tables, sentences and the report use these three; nothing else writes a percentage by hand.
"""

import math


def percent(share: float | None, decimals: int = 1, unknown: str = "") -> str:
    """Write a share in per cent: 0.123 is "12.3 %".

    Args:
        share: None or nan where it is not known.
        decimals: digits after the decimal point.
        unknown: what to write where the share is not known.

    Examples:
        >>> percent(0.123), percent(-0.0001), percent(None, unknown="?")
        ('12.3 %', '0.0 %', '?')
    """
    if share is None or math.isnan(share):
        return unknown
    return f"{100 * share:z.{decimals}f} %"


def percent_span(
    low: float | None, high: float | None, decimals: int = 1, unknown: str = ""
) -> str:
    """Write an interval of shares in per cent; an end that is infinite is left open.

    Examples:
        >>> percent_span(0.004, 0.056)
        '0.4 % to 5.6 %'
        >>> percent_span(0.004, math.inf)
        '0.4 % or more'
    """
    if low is not None and high is not None:
        if math.isinf(high) and math.isfinite(low):
            return f"{percent(low, decimals)} or more"
        if math.isinf(low) and math.isfinite(high):
            return f"{percent(high, decimals)} or less"
        if not math.isnan(low) and not math.isnan(high):
            return f"{percent(low, decimals)} to {percent(high, decimals)}"
    return unknown


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Write how many there are: "1 row", "2,000 rows".

    Examples:
        >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
        ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
