"""NewGame: walk along a corridor to the coin. Replace it with your own game."""

from ragen_envs import GameSpec, register_game
from ragen_envs.game import GameEnv, Rng

LENGTH = 12


class NewGameEnv(GameEnv[str]):
    """Walk left (0) or right (1) until you are at the coin."""

    rules = (
        f"You (P) walk along a corridor of {LENGTH} cells. Reach the coin (C). "
        "Rewards: 1 at the coin, otherwise 0."
    )
    action_names = ("Left", "Right")
    deterministic = True

    def draw_level(self, rng: Rng) -> str:
        player, coin = rng.sample(range(LENGTH), 2)
        return f"{player} {coin}"

    def start(self, level: str) -> None:
        self.player, self.coin = map(int, level.split())

    def play(self, action: int) -> tuple[float, bool, bool]:
        before = self.player
        self.player = min(max(before + (1 if action else -1), 0), LENGTH - 1)
        return float(self.success), self.success, self.player != before

    @property
    def success(self) -> bool:
        return self.player == self.coin

    def observe(self) -> str:
        cells = ["_"] * LENGTH
        cells[self.coin], cells[self.player] = "C", "P"
        return "".join(cells)

    def solution(self) -> list[int]:
        way = self.coin - self.player
        return [int(way > 0)] * abs(way)


GAME = GameSpec("NewGame", "newgame:NewGameEnv", "walk to the coin", 100, namespace="newgame")
register_game(GAME)
