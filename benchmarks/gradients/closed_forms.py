"""Closed forms of what the enumeration shows."""

from math import comb, sqrt


def centring(size: int) -> float:
    """Return the factor by which subtracting the mean of the whole group shrinks the gradient: (G - 1) / G.

    A member is part of the mean that it is compared with; RLOO's mean of the others is not.
    """
    return (size - 1) / size


def deviation_factor(chance: float, size: int) -> float:
    """Return the factor of a prompt's gradient under (return - mean) / deviation, for rewards 0 and 1.

    Args:
        chance: Of success, p.
        size: Members of the group, G.

    Returns:
        E[sqrt(K (G - K) (G - 1) / G)] / (G p (1 - p)), where K, the number of successes, is binomial. With
        G it goes to 1 / sqrt(p (1 - p)): hard and easy prompts weigh more than those in between (Dr.GRPO,
        arXiv 2503.20783).
    """
    mean = sum(
        comb(size, k) * chance**k * (1 - chance) ** (size - k)
        * sqrt(k * (size - k) * (size - 1) / size)
        for k in range(1, size)
    )  # fmt: skip
    return mean / (size * chance * (1 - chance))


def filtered_gamble(sure: float, jackpot: float, chance: float, take: float) -> tuple[float, float]:
    """Return how the gamble's logits move, summed over two bandits with groups of two, under Dr.GRPO.

    The first number is without a filter, the second where only the group with the larger deviation is kept,
    the first one if both are equal. A group is one of: both sure, or both won, or both lost (no deviation);
    sure and lost (SL); sure and won (SW); won and lost (WL), whose gradient is 0, because both took the
    gamble. Their deviations are in this order if the jackpot is more than twice the sure pay.
    """
    both = 2 * take * (1 - take)
    sw, sl = both * chance, both * (1 - chance)
    wl = 2 * take**2 * chance * (1 - chance)
    up, down = (jackpot - sure) / 4, sure / 4
    unfiltered = 2 * (sw * up - sl * down) / 2  # two groups, and the mean is over both
    kept_sw = (1 - wl) + (1 - wl - sw)  # as the first group, and as the second
    kept_sl = (1 - wl - sw) + (1 - wl - sw - sl)
    return unfiltered, sw * kept_sw * up - sl * kept_sl * down
