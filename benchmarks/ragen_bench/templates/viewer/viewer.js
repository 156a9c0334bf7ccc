// The viewer of episodes. Texts are set as text, never as HTML; the address holds #LEVEL/STEP.
"use strict";

const source = document.getElementById("data");
const { tiles, episodes } = JSON.parse(source.textContent);
const at = (id) => document.getElementById(id);
const state = { shown: [], episode: null, step: 0, timer: null };
const PACE = 700; // milliseconds a step

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// --- which episodes ---------------------------------------------------------

function wanted(episode) {
  const outcome = at("outcome").value;
  const defect = at("defect").value;
  const found = episode.turns.flatMap((turn) => turn.defects);
  if (outcome && (outcome === "solved") !== episode.success) return false;
  const blunder = at("blunder").value;
  if (blunder && blunderOf(episode) !== blunder) return false;
  const allowed = episode.turns.flatMap((turn) => turn.soft_defects);
  return !defect || (defect === "*" ? found.length > 0 : [...found, ...allowed].includes(defect));
}

function blunderOf(episode) {
  return episode.turns.find((turn) => turn.decision?.blunder)?.decision.blunder ?? "none";
}

function outcomeOf({ success }) {
  if (success === null) return ["·", "played", ""];
  return success ? ["✓", "solved", "solved"] : ["✗", "not solved", "unsolved"];
}

function fillList() {
  state.shown = episodes.filter(wanted);
  at("count").textContent = `${state.shown.length} of ${episodes.length} episodes`;
  at("episodes").replaceChildren(
    ...state.shown.map((episode) => {
      const [mark, outcome, style] = outcomeOf(episode);
      const link = make("a", `${mark} ${episode.name}`);
      link.href = `#${episode.name}`;
      link.title = `level ${episode.name}: ${outcome}, return ${episode.return}`;
      link.className = style;
      const item = make("li");
      item.append(link);
      return item;
    }),
  );
}

function share(chance) {
  return `${Math.round(1000 * chance) / 10}%`;
}

// The first agent of the other page is this one, the second one another.
function besideLink() {
  const number = at("entry").selectedIndex;
  return `${at("beside").dataset.page}#${number}/${number ? 0 : 1}/${state.episode.index}`;
}

// --- one moment of one episode ----------------------------------------------

function drawBoard(board) {
  const place = at("board");
  place.classList.toggle("words", !tiles);
  if (!tiles) {
    place.classList.toggle("long", board.length > 2);
    place.replaceChildren(...board.map((line) => make("p", line)));
    return;
  }
  const rows = board.map((line) => {
    const row = make("div", undefined, "row");
    for (const sign of line) {
      const cell = make("img");
      cell.alt = tiles.cells[sign];
      cell.src = `${source.dataset.root}tiles/${tiles.folder}/${tiles.cells[sign].replaceAll(" ", "-")}.png`;
      row.append(cell);
    }
    return row;
  });
  place.replaceChildren(...rows);
}

function drawReply(turn, error) {
  if (turn && !turn.reply.trim()) {
    at("reply").replaceChildren(make("span", "(empty reply)", "think"));
    return;
  }
  let part = "plain";
  let read = 0;
  const pieces = (turn ? turn.reply : error).split(/(<\/?(?:think|answer)>)/).flatMap((piece) => {
    const tag = /^<(\/?)(think|answer)>$/.exec(piece);
    const begin = read;
    read += piece.length;
    if (!tag) return markClaims(piece, begin, part, turn ? turn.claims : []);
    part = tag[1] ? "plain" : tag[2];
    return make("span", piece, "tag");
  });
  at("reply").replaceChildren(...pieces);
}

function markClaims(piece, begin, part, claims) {
  const spans = [];
  let last = 0;
  for (const [start, end, holds, fact] of claims) {
    if (start - begin < last || end - begin > piece.length) continue;
    spans.push(make("span", piece.slice(last, start - begin), part));
    spans.push(make("span", piece.slice(start - begin, end - begin), holds ? "claim true" : "claim false"));
    if (!holds) spans.push(make("span", ` [true: ${fact}]`, "fact"));
    last = end - begin;
  }
  return [...spans, make("span", piece.slice(last), part)];
}

function captionOf(frame) {
  if (frame.action === undefined) return `before turn ${frame.turn + 1}`;
  const effect = frame.effective ? "" : ", which changed nothing";
  return `${frame.action}${frame.slipped ? ", which slipped" : ""}${effect}: reward ${frame.reward}`;
}

function drawChances() {
  const { episode } = state;
  const judged = episode.turns.every((turn) => turn.decision) ? episode.turns : [];
  const bars = judged.map(({ decision }, number) => {
    const link = make("a", undefined, decision.blunder ? "blunder" : "");
    link.href = `#${episode.name}/${episode.frames.findIndex((f) => f.turn === number)}`;
    link.title = `before turn ${number + 1}: ${share(decision.value)}${decision.blunder ? `, then a ${decision.blunder}` : ""}`;
    link.append(make("span", share(decision.value)), meter(decision.value));
    const item = make("li");
    item.append(link);
    return item;
  });
  if (judged.length) {
    const end = make("li", undefined, "end");
    const last = judged.at(-1).decision.after;
    end.append(make("span", share(last)), meter(last));
    bars.push(end);
  }
  at("chances").replaceChildren(...bars);
}

function meter(chance) {
  const bar = make("meter");
  bar.value = chance;
  return bar;
}

function judgement(decision) {
  if (!decision) return "";
  const parts = [`chance ${share(decision.value)} → ${share(decision.after)}`];
  if (decision.regret > 1e-6) parts.push(`the turn cost ${share(decision.regret)}`);
  if (Math.abs(decision.luck) > 1e-6) parts.push(`luck ${decision.luck > 0 ? "gave" : "took"} ${share(Math.abs(decision.luck))}`);
  if (decision.blunder) parts.push(decision.blunder);
  return parts.join(", ");
}

function draw() {
  const { episode, step } = state;
  const frame = episode.frames[step];
  const turn = episode.turns[frame.turn];
  drawBoard(frame.board);
  at("board").classList.toggle("slipped", Boolean(frame.slipped));
  at("scrubber").max = episode.frames.length - 1;
  at("scrubber").value = step;
  at("judged").textContent = judgement(turn?.decision);
  at("judged").className = turn?.decision?.blunder ? "blunder" : "";
  at("actions").textContent = turn ? `Read as: ${turn.actions.join(" · ") || "no actions"}` : "";
  at("caption").textContent = captionOf(frame);
  at("step").textContent = `${step} / ${episode.frames.length - 1}`;
  const best = episode.frames.findLast((f, i) => i <= step && f.best !== undefined).best;
  at("best").textContent = planOf(best);
  at("turn").textContent = turn ? `Turn ${frame.turn + 1} of ${episode.turns.length}${turn.tokens === null ? "" : `, ${turn.tokens} tokens`}` : "No reply";
  drawReply(turn, episode.error);
  at("reasoned").hidden = !turn?.reasoning;
  at("reasoning").textContent = turn?.reasoning ?? "";
  at("defects").textContent = turn && turn.defects.length ? `Defects: ${turn.defects.join(", ")} (${turn.penalty})` : "";
  at("soft-defects").textContent = turn && turn.soft_defects.length ? `Allowed: ${turn.soft_defects.join(", ")}` : "";
  at("user").textContent = turn ? turn.user : "";
  at("system").textContent = episode.system;
  for (const id of ["first", "back"]) at(id).disabled = step === 0;
  for (const id of ["next", "last"]) at(id).disabled = step === episode.frames.length - 1;
}

function planOf(best) {
  if (best === null) return "The oracle's plan is not computed here";
  return `The oracle's plan at the start of this turn: ${best.join(" · ") || "nothing helps any more"}`;
}

function drawHead() {
  const { episode } = state;
  at("heading").textContent = `Level ${episode.name}: ${outcomeOf(episode)[1]}`;
  const best = episode.optimum === null ? "not computed" : `${Math.round(1000 * episode.optimum) / 10}%`;
  const optimum = `best possible chance: ${best}`;
  at("facts").textContent = `return ${episode.return} · ${episode.end} · ${optimum} · level key ${episode.key}${episode.error ? ` · ${episode.error}` : ""}`;
  const moves = at("episodes").contains(document.activeElement);
  for (const link of at("episodes").querySelectorAll("a")) {
    const here = link.hash === `#${episode.name}`;
    if (here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    link.tabIndex = here ? 0 : -1; // one stop for the list; arrow keys go on from there
    if (here && moves) link.focus();
    if (here) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

// --- moving about -------------------------------------------------------------

function show(episode, step) {
  state.episode = episode;
  state.step = Math.max(0, Math.min(step, episode.frames.length - 1));
  if (state.timer && state.step === episode.frames.length - 1) pause();
  history.replaceState(null, "", `#${episode.name}${state.step ? `/${state.step}` : ""}`);
  if (at("beside")) at("beside").href = besideLink();
  drawHead();
  drawChances();
  draw();
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
  at("run").textContent = "▶";
  at("run").setAttribute("aria-label", "Play");
}

function playOrPause() {
  if (state.timer) return pause();
  if (state.step === state.episode.frames.length - 1) show(state.episode, 0);
  state.timer = setInterval(() => show(state.episode, state.step + 1), PACE);
  at("run").textContent = "❚❚";
  at("run").setAttribute("aria-label", "Pause");
}

function readAddress() {
  const [name, place] = location.hash.slice(1).split("/");
  const step = Number(place);
  const episode = episodes.find((each) => each.name === name) ?? state.shown[0] ?? episodes[0];
  show(episode, Number.isInteger(step) ? step : 0);
}

function other(offset) {
  const place = state.shown.indexOf(state.episode);
  const next = state.shown[place < 0 ? 0 : place + offset];
  if (next) show(next, 0);
}

const KEYS = {
  ArrowRight: () => show(state.episode, state.step + 1),
  ArrowLeft: () => show(state.episode, state.step - 1),
  ArrowDown: () => other(1),
  ArrowUp: () => other(-1),
  Home: () => show(state.episode, 0),
  End: () => show(state.episode, Infinity),
  " ": playOrPause,
};

document.addEventListener("keydown", (event) => {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const own = event.target.closest("select, summary, input") || (event.key === " " && event.target.closest("button, a"));
  if (!plain || own || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
for (const [id, key] of [["first", "Home"], ["back", "ArrowLeft"], ["next", "ArrowRight"], ["last", "End"]]) {
  at(id).addEventListener("click", KEYS[key]);
}
at("run").addEventListener("click", playOrPause);
at("scrubber").addEventListener("input", (event) => show(state.episode, Number(event.target.value)));
for (const id of ["outcome", "defect", "blunder"]) {
  at(id).addEventListener("change", () => {
    fillList();
    if (state.shown.length && !state.shown.includes(state.episode)) show(state.shown[0], 0);
    else drawHead();
  });
}
for (const id of ["entry", "game"]) {
  at(id).addEventListener("change", (event) => {
    location.href = id === "entry" ? `${event.target.value}#${state.episode.name}` : event.target.value;
  });
}
window.addEventListener("hashchange", readAddress);
if (location.search === "?embedded") {
  document.body.classList.add("embedded");
  // The page around it makes the frame as high as what it shows.
  new ResizeObserver(() => parent.postMessage(document.body.offsetHeight, "*")).observe(document.body);
}
fillList();
readAddress();
