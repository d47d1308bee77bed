"""The tool that a person approves."""

from pathlib import Path


def refund(order: int) -> str:
    """Pay an order back."""
    Path("refunded").write_text(str(order))
    return f"order {order} is paid back"
