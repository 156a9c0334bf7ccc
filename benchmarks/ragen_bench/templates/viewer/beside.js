// Two agents on the same level; the address holds #LEFT/RIGHT/LEVEL, agents by number.
"use strict";

const agents = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const SIDES = ["left", "right"];
let level = null;

function solved(side) {
  return agents[Number(at(side).value)].solved;
}

function wanted(index) {
  const [left, right] = SIDES.map((side) => solved(side)[index]);
  const which = at("which").value;
  if (left === undefined || right === undefined) return false;
  if (left === null || right === null) return which === "";
  if (which === "differ") return left !== right;
  if (which === "left") return left && !right;
  if (which === "right") return right && !left;
  if (which === "both") return left && right;
  return which !== "neither" || (!left && !right);
}

function mark(side, index) {
  return { true: "✓", false: "✗", null: "–" }[solved(side)[index]];
}

function levels() {
  return Object.keys(solved("left")).map(Number).sort((a, b) => a - b).filter(wanted);
}

function fillList() {
  const found = levels();
  at("count").textContent = `${found.length} levels`;
  at("episodes").replaceChildren(
    ...found.map((index) => {
      const link = document.createElement("a");
      link.textContent = `${mark("left", index)}${mark("right", index)} ${index}`;
      link.href = address(index);
      if (index === level) link.setAttribute("aria-current", "true");
      const item = document.createElement("li");
      item.append(link);
      return item;
    }),
  );
}

function address(index) {
  return `#${at("left").value}/${at("right").value}/${index}`;
}

function show() {
  const [left, right, index] = location.hash.slice(1).split("/").map(Number);
  at("left").value = agents[left] ? left : 0;
  at("right").value = agents[right] ? right : Math.min(1, agents.length - 1);
  const found = levels();
  level = SIDES.every((side) => index in solved(side)) ? index : (found[0] ?? null);
  for (const side of SIDES) {
    const page = level === null ? "about:blank" : `${agents[Number(at(side).value)].link}?embedded#${level}`;
    // A new address of the same page moves it without loading it again.
    if (at(`${side}-page`).getAttribute("src") !== page) at(`${side}-page`).setAttribute("src", page);
  }
  fillList();
}

for (const side of SIDES) {
  at(side).addEventListener("change", () => {
    location.hash = address(level ?? 0);
  });
}
at("which").addEventListener("change", () => {
  const found = levels();
  if (found.length && !found.includes(level)) location.hash = address(found[0]);
  fillList();
});
window.addEventListener("message", ({ source, data }) => {
  const frame = SIDES.map((side) => at(`${side}-page`)).find((each) => each.contentWindow === source);
  if (frame && Number.isInteger(data)) frame.style.height = `${data + 2}px`; // its border
});
window.addEventListener("hashchange", show);
show();
