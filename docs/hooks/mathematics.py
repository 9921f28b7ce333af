"""Turn fences marked `math` into MathML when the documentation is built.

Browsers show MathML by themselves, so that equations need no script and no network; code hosts
render the same fences from the Markdown source.
"""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert


def on_config(config: Any) -> Any:
    """Register the fence with the extension that reads code blocks."""
    fences = config["mdx_configs"].setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [{"name": "math", "class": "math", "format": _to_mathml}]
    return config


def _to_mathml(source: str, *_: Any, **__: Any) -> str:
    return f'<div class="equation">{convert(source.strip(), display="block")}</div>'
