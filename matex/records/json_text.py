"""JSON as its standard has it: without NaN and infinities, which other readers refuse. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["to_json"]


def to_json(content: Any, *, indent: int | None = None) -> str:
    """*content* as JSON text, with null in the place of numbers that are not finite."""
    try:
        return json.dumps(content, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(content), indent=indent, allow_nan=False)


def _finite(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content
