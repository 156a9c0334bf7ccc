"""The ways to compute an update that are compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from gpu_check.ceilings import tf32_products


class Variant(NamedTuple):
    """Settings of an update, and whether products of float32 matrices may be rounded to TF32."""

    name: str
    settings: dict[str, Any]
    tf32: bool = False

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """Compute as the variant says."""
        with tf32_products(self.tf32):
            yield


def _bfloat16(head: str, recomputed: bool) -> Variant:
    update = {"precision": "bfloat16", "gradient_checkpointing": recomputed}
    update["float32_head"] = head != "bfloat16"
    name = f"bfloat16, head {head}{', checkpointing' if recomputed else ''}"
    # Under bfloat16 the head is the only large product of float32 matrices.
    return Variant(name, {"update": update}, tf32=head == "TF32")


HEADS: Final = ("float32", "TF32", "bfloat16")
BFLOAT16: Final = tuple(_bfloat16(head, again) for again in (False, True) for head in HEADS)
MORE: Final = (
    Variant(
        "bfloat16, LoRA",
        {
            "update": {"precision": "bfloat16", "gradient_checkpointing": False},
            "lora": {"rank": 64},
        },
    ),
    Variant("float32", {"update": {"precision": "float32", "gradient_checkpointing": False}}),
    Variant(
        "float32, checkpointing",
        {"update": {"precision": "float32", "gradient_checkpointing": True}},
    ),
)
