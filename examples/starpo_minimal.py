"""StarPO-S with group-relative advantages, in one file and without anything that is not needed.

    python examples/starpo_minimal.py --game ragen/BanditText-v0 --iterations 60

It is for reading. `ragen train` does the same with a critic, key-value caches over turns, checkpoints, an
echo-trap monitor and everything else; the numbers in brackets are those of docs/trainer-details.md.
"""

import argparse

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ragen_agents.starter import STARTER
from ragen_envs.conversation import make
from ragen_envs.levels.seeding import new_stream

parser = argparse.ArgumentParser()
parser.add_argument("--game", default="ragen/BanditText-v0", help="a conversation env")
parser.add_argument("--model", default=str(STARTER))
parser.add_argument("--iterations", type=int, default=60)
parser.add_argument("--prompts-per-iteration", type=int, default=8, help="P, initial states an iteration")
parser.add_argument("--group-size", type=int, default=16, help="N, episodes from each")
parser.add_argument("--filter-ratio", type=float, default=0.25, help="share of groups that is learned from")
parser.add_argument("--clip-ratio-low", type=float, default=0.2)
parser.add_argument("--clip-ratio-high", type=float, default=0.28)
parser.add_argument("--entropy-coef", type=float, default=0.001)
parser.add_argument("--mini-batch-size", type=int, default=32, help="E, trajectories of an optimizer step")
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--max-tokens", type=int, default=64, help="of one reply")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
tokenizer = AutoTokenizer.from_pretrained(args.model, padding_side="left")
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate, betas=(0.9, 0.999))
END = tokenizer.eos_token_id


def template(messages, reply):
    return tokenizer.apply_chat_template(messages, add_generation_prompt=reply, return_dict=False)


BASE = [{"role": r, "content": r[0]} for r in ("system", "user", "assistant")]
CUT = max(i for i, token in enumerate(template(BASE, False)) if token == END) + 1


def bridge(user):
    """What stands between the end of a reply and the next one: cut from the template [2]."""
    return template([*BASE, {"role": "user", "content": user}], True)[CUT:]


@torch.no_grad()
def write(prompts):
    """Sample a reply to each prompt at temperature 1, top-p off; returns ids and log-probabilities."""
    batch = tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
    output = model.generate(
        **batch, max_new_tokens=args.max_tokens, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        eos_token_id=END, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    replies = []
    for row in output[:, batch["input_ids"].shape[1] :].tolist():
        replies.append(row[: row.index(END) + 1] if END in row else row)
    return replies


def collect(iteration):
    """Play P groups of N episodes. A trajectory is ids and a mask of what the model wrote [1, 3]."""
    episodes = []
    for group in range(args.prompts_per_iteration):
        seed = new_stream(f"minimal {args.seed}", args.game, iteration * args.prompts_per_iteration + group)
        for member in range(args.group_size):  # one level, independent noise [4]
            env = make(args.game)
            env.reset(seed=seed, options={"noise": member})
            ids = template(env.messages, True)
            episodes.append({"env": env, "group": group, "ids": ids, "mask": [0] * len(ids), "return": 0.0})
    while open_ := [e for e in episodes if e["env"].end is None]:
        for episode, reply in zip(open_, write([e["ids"] for e in open_]), strict=True):
            closed = reply[-1] == END
            text = tokenizer.decode(reply[:-1] if closed else reply)
            result = episode["env"].play(text, truncated=not closed)
            episode["return"] += result.reward
            episode["ids"] += reply
            episode["mask"] += [1] * len(reply)
            if result.end is None:
                context = ([] if closed else [END]) + bridge(result.text)
                episode["ids"] += context
                episode["mask"] += [0] * len(context)
    return episodes


def score(episodes):
    """Log-probabilities and entropies of every token but the first, and the mask; (B, T - 1) each."""
    longest = max(len(e["ids"]) for e in episodes)
    ids = torch.tensor([e["ids"] + [tokenizer.pad_token_id] * (longest - len(e["ids"])) for e in episodes])
    mask = torch.tensor([e["mask"] + [0] * (longest - len(e["mask"])) for e in episodes])[:, 1:].bool()
    real = torch.arange(longest) < torch.tensor([len(e["ids"]) for e in episodes])[:, None]
    logs = torch.log_softmax(model(input_ids=ids, attention_mask=real.long()).logits[:, :-1], dim=-1)
    chosen = logs.gather(2, ids[:, 1:, None])[..., 0]
    return chosen, -(logs.exp() * logs).sum(-1), mask


for iteration in range(args.iterations):
    episodes = collect(iteration)
    returns = np.array([e["return"] for e in episodes]).reshape(args.prompts_per_iteration, args.group_size)
    success = np.mean([e["env"].success for e in episodes])

    # Keep the groups whose returns differ most: uncertainty is where there is something to learn. [9]
    spread = returns.std(axis=1, ddof=1)
    best = np.argsort(-spread, kind="stable")[: int(np.ceil(args.filter_ratio * args.prompts_per_iteration))]
    kept = [e for e in episodes if e["group"] in best and spread[e["group"]] > 1e-8]

    norms = []
    if kept:
        with torch.no_grad():
            old = [score([e])[0][0] for e in kept]
        gains = [(e["return"] - returns[e["group"]].mean()) / spread[e["group"]] for e in kept]  # [6]
        order = np.random.default_rng([args.seed, iteration]).permutation(len(kept))
        for part in np.array_split(order, max(1, round(len(kept) / args.mini_batch_size))):
            chosen = [kept[i] for i in part]
            logprobs, entropies, mask = score(chosen)
            before = torch.nn.utils.rnn.pad_sequence([old[i] for i in part], batch_first=True)
            gain = torch.tensor([gains[i] for i in part], dtype=torch.float32)[:, None]
            ratio = torch.exp(logprobs - before)
            clipped = ratio.clamp(1 - args.clip_ratio_low, 1 + args.clip_ratio_high)
            loss = -torch.minimum(ratio * gain, clipped * gain)[mask].mean()  # one mean of tokens [10]
            loss = loss - args.entropy_coef * entropies[mask].mean()
            loss.backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
            optimizer.step()
            optimizer.zero_grad()
    print(
        f"{iteration + 1:4d}  success {success:.3f}  return {returns.mean():.3f}  "
        f"std {spread.mean():.3f}  gradient {np.mean(norms or [0.0]):.3f}",
        flush=True,
    )
