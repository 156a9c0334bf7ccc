"""The page of training's settings, from the docstrings of their fields."""

import json
import re
from typing import Any, Final

from ragen_agents.sft import SftConfig
from ragen_agents.starpo import AGGREGATIONS, ESTIMATORS, FILTERS, POLICY_LOSSES, TrainConfig
from ragen_agents.starpo.parts.registry import Registry

_PARTS: Final[tuple[Registry[Any], ...]] = (FILTERS, ESTIMATORS, POLICY_LOSSES, AGGREGATIONS)
_TOP: Final = """\
# Settings of a training run

Pass settings to `ragen train` as `section.field=value` on the command line, or in a YAML file. A preset and a
scale set [some of them](training.md#presets); all others have the defaults shown here. `config.yaml` of a run
contains all settings.

```yaml
game: ragen/SokobanText-v0
iterations: 50
rollout: {prompts_per_iteration: 8, group_size: 8}
update:
  mini_batch_size: 16
  learning_rate: 3.0e-4
```
"""
_IMITATION: Final = """
## Settings of imitation

Pass these settings to [`ragen sft`](imitation.md) as `field=value`. A run has
`epochs` × `demonstrations` / `batch_size` optimizer steps.
"""


def settings_page() -> str:
    """Return the page as Markdown."""
    schema = TrainConfig.model_json_schema()
    sections, plain = {}, {}
    for name, field in schema["properties"].items():
        parts = _variants(field)
        section = next((v["$ref"].split("/")[-1] for v in parts if "$ref" in v), None)
        (plain if section is None else sections)[name] = section or field
    blocks = [_TOP, _table("", plain)]
    for name, section in sections.items():
        found = schema["$defs"][section]
        told = found["description"].replace("``", "`")
        blocks += [f"\n## {name}\n\n{told}\n", _table(f"{name}.", found["properties"])]
        blocks += [_parts(parts) for parts in _PARTS if parts.field.startswith(f"{name}.")]
    imitation = SftConfig.model_json_schema()["properties"]
    return "\n".join([*blocks, _IMITATION, _table("", imitation)])


def _parts(registry: Registry[Any]) -> str:
    """Return the table of what a field chooses among."""
    cites = any(getattr(part, "published", None) for part in registry)
    heads = ["name", "", *["published with"] * cites]
    rows = [f"`{registry.field}`:\n", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for part in registry:
        published = getattr(part, "published", {}).items()
        settings = ", ".join(f"`{name.split('.')[-1]}={value}`" for name, value in published)
        cells = [f"`{part.name}`", part.summary, *[settings] * cites]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _table(prefix: str, fields: dict[str, Any]) -> str:
    rows = ["| field | default | |", "|---|---|---|"]
    for name, field in fields.items():
        default = json.dumps(field["default"]) if field.get("default") is not None else ""
        shown = f"`{default}`" if default else ""
        told = " ".join(field["description"].split()).replace("``", "`")
        is_part = f"{prefix}{name}" in {parts.field for parts in _PARTS}  # a table below has its choices
        rows.append(f"| `{prefix}{name}` | {shown} | {told}{'' if is_part else choices(field)} |")
    return "\n".join(rows) + "\n"


def choices(field: dict[str, Any]) -> str:
    """Return the names among which a field of a JSON schema chooses, unless its description has them."""
    names = [name for v in _variants(field) for name in v.get("enum") or v.get("examples") or ()]
    if all(re.search(rf"\b{re.escape(name)}\b", field["description"]) for name in names):
        return ""
    return f" One of {', '.join(f'`{name}`' for name in names)}."


def _variants(field: dict[str, Any]) -> list[dict[str, Any]]:
    variants: list[dict[str, Any]] = field.get("anyOf", [field])
    return variants
