"""The JSON Schema of ``entry.json``, for those who write or read one elsewhere."""

import json

from ragen_bench.leaderboard.entry import Entry


def entry_schema() -> str:
    """Return the schema as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Entry.model_json_schema(),
    }
    return json.dumps(schema, indent=1) + "\n"
