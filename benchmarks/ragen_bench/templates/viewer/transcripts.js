// Conversations, chosen from a list; the address holds #NUMBER.
"use strict";

const all = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
let shown = [];
let current = null;

function make(tag, text, name) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}

function fits(each) {
  const text = at("text").value.trim().toLowerCase();
  return (
    (!at("of").value || each.of === at("of").value) &&
    (!at("kind").value || each.kind === at("kind").value) &&
    (!at("outcome").value || String(each.success) === at("outcome").value) &&
    (!text || each.messages.some((message) => `${message.reasoning}\n${message.content}`.toLowerCase().includes(text)))
  );
}

function fill() {
  const moves = at("episodes").contains(document.activeElement);
  shown = all.filter(fits);
  at("count").textContent = `${shown.length} of ${all.length}`;
  at("episodes").replaceChildren(
    ...shown.map((each) => {
      const link = make("a", `${each.success ? "✓" : "✗"} ${each.name}`, each.success ? "solved" : "unsolved");
      link.href = `#${all.indexOf(each)}`;
      if (each === current) link.setAttribute("aria-current", "true");
      else link.tabIndex = -1; // one stop for the list; arrow keys go on from there
      const item = document.createElement("li");
      item.append(link);
      return item;
    }),
  );
  if (moves) at("episodes").querySelector("[aria-current]")?.focus();
}

function message(each) {
  const block = make("article", "", each.role);
  block.append(make("h3", each.note ? `${each.role} · ${each.note}` : each.role));
  if (each.reasoning) {
    const apart = make("details", "");
    apart.open = true;
    apart.append(make("summary", "Reasoning (returned separately)"), make("pre", each.reasoning));
    block.append(apart);
  }
  block.append(make("pre", each.content));
  return block;
}

function show() {
  const number = location.hash === "" ? NaN : Number(location.hash.slice(1));
  current = all[number] ?? shown[0] ?? all[0];
  at("heading").textContent = `${current.of} · ${current.kind} · ${current.name}`;
  at("facts").textContent = `${current.success ? "solved" : "not solved"}, return ${current.return}, ${current.end}${current.error ? ` · ${current.error}` : ""}`;
  at("messages").replaceChildren(...current.messages.map(message));
  fill();
}

function move(offset) {
  const next = shown[shown.indexOf(current) + offset];
  if (next) location.hash = `#${all.indexOf(next)}`;
}

for (const id of ["of", "kind", "outcome", "text"]) {
  at(id).addEventListener("input", () => {
    fill();
    if (shown.length && !shown.includes(current)) location.hash = `#${all.indexOf(shown[0])}`;
  });
}
window.addEventListener("keydown", (event) => {
  if (["SELECT", "INPUT"].includes(event.target.tagName)) return;
  const offset = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (offset === undefined) return;
  event.preventDefault();
  move(offset);
});
window.addEventListener("hashchange", show);
fill();
show();
