// Tables sort by the column whose heading is chosen; rows without a value stay below.
// The fields above a table choose its rows; the controls always stay.
"use strict";

function valueOf(row, column) {
  const text = row.cells[column].dataset.value ?? "";
  const number = Number(text);
  return text !== "" && Number.isFinite(number) ? number : text;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { sensitivity: "base" });
}

function sort(table, heading) {
  const column = heading.cellIndex;
  const now = heading.getAttribute("aria-sort");
  const other = { ascending: "descending", descending: "ascending" };
  const order = now ? other[now] : heading.dataset.first;
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [valueOf(a, column), valueOf(b, column)];
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * compare(x, y);
  });
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    heading.querySelector("button")?.addEventListener("click", () => sort(table, heading));
  }
}

function choose(form) {
  const table = document.getElementById(form.dataset.table);
  const wanted = new FormData(form);
  const text = String(wanted.get("text")).trim().toLowerCase();
  let shown = 0;
  let all = 0;
  for (const row of table.tBodies[0].rows) {
    if (row.classList.contains("control")) continue;
    const fits = (name) => !wanted.get(name) || row.dataset[name] === wanted.get(name);
    row.hidden = !(row.dataset.text.toLowerCase().includes(text) && ["prompt", "weights", "trained"].every(fits));
    all += 1;
    shown += row.hidden ? 0 : 1;
  }
  form.querySelector("output").textContent = shown === all ? "" : `${shown} of ${all} entries`;
}

for (const form of document.querySelectorAll("form[data-table]")) {
  form.addEventListener("input", () => choose(form));
  form.addEventListener("submit", (event) => event.preventDefault());
  choose(form);
}
