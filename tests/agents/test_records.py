"""What records accept and write of the reasons for which episodes end."""

import pytest
from pydantic import ValidationError

from ragen_agents.rollout import SeatRecord
from ragen_envs.conversation import EndReason

LINE = (
    '{"agent":"a","system":"s","turns":[],"closing":"","success":false,"episode_return":0.0,'
    '"end":"%s","error":null}'
)


@pytest.mark.parametrize(
    ("end", "is_failure"),
    [
        ("terminated", False),
        ("truncated", False),
        ("budget", False),
        ("invalid", False),
        ("overflow", True),
        ("error", True),
    ],
)
def test_a_record_keeps_the_word(end, is_failure):
    record = SeatRecord.model_validate_json(LINE % end, strict=True)
    assert record.end is EndReason(end)
    assert record.end == end
    assert record.end.is_failure == is_failure
    assert record.model_dump_json() == LINE % end


@pytest.mark.parametrize("end", ["", "Budget", "BUDGET", "none"])
def test_other_words_are_refused(end):
    with pytest.raises(ValidationError, match="'terminated', 'truncated', 'budget', 'invalid'"):
        SeatRecord.model_validate_json(LINE % end, strict=True)
