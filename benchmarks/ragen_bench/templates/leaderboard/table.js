// Tables sort by the column whose heading is chosen; rows without a value stay below.
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
