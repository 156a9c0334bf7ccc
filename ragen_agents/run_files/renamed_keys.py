"""Settings whose old keys are refused with an error that gives the new ones."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, model_validator


class RenamedKeys(BaseModel):
    """Base of settings that once had other keys."""

    _renamed: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions and what they are called now, with the section before a dot."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_keys(cls, data: Any) -> Any:
        for old, new in cls._renamed.items():
            if isinstance(data, dict) and old in data:
                section, dot, _ = new.rpartition(".")
                raise ValueError(f"{section}{dot}{old} was renamed; use {new}")
        return data
