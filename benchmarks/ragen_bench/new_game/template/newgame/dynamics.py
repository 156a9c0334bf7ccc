"""The rules, once, for every face of the game."""

ACTION_NAMES = ("Left", "Right")


def step(player: int, coin: int, length: int, action: int) -> tuple[int, float, bool]:
    """Play one action; return the player's cell, the reward, and whether the game has ended."""
    player = min(max(player + (1 if action else -1), 0), length - 1)
    return player, float(player == coin), player == coin
