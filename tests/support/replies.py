"""What several test files say to the conversation face."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ragen_envs.conversation import format_reply
from ragen_envs.registration import text_ids

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])
NAMES = ["Up", "Down", "Left", "Right"]
TEXTS = list(text_ids())

PIECES = [
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "Up",
    "right",
    "Fly",
    "||",
    "|",
    " ",
    "\n",
]
REPLIES = st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join)


def say(*actions, think=True):
    return format_reply(actions, "hm" if think else None)
