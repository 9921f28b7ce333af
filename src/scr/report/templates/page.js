"use strict";
// Search, sort and save tables of nodes. Without this script they are plain tables.
for (const finder of document.querySelectorAll(".finder")) {
  const table = finder.querySelector("table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const headings = Array.from(table.tHead.rows[0].cells);
  const names = headings.map((cell) => cell.textContent.trim());
  const field = finder.querySelector("input");
  const count = finder.querySelector("output");
  const texts = new Map(rows.map((row) => [row, searched(row)]));
  let shown = rows;

  function searched(row) {
    return Array.from(row.cells, (cell) => cell.textContent.trim()).join("\n").toLowerCase();
  }

  function value(cell) {
    return cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
  }

  function find() {
    const wanted = field.value.trim().toLowerCase();
    shown = Array.from(body.rows).filter((row) => texts.get(row).includes(wanted));
    const visible = new Set(shown);
    for (const row of rows) row.hidden = !visible.has(row);
    count.textContent = `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  }

  function sort(column) {
    const falling = headings[column].getAttribute("aria-sort") === "ascending";
    const isNumber = rows.every((row) => row.cells[column].dataset.value !== undefined);
    const order = new Intl.Collator("en", { numeric: true });
    const sorted = rows.map((row) => [value(row.cells[column]), row]);
    sorted.sort(([a], [b]) => (isNumber ? Number(a) - Number(b) : order.compare(a, b)) * (falling ? -1 : 1));
    headings.forEach((cell) => cell.removeAttribute("aria-sort"));
    headings[column].setAttribute("aria-sort", falling ? "descending" : "ascending");
    body.append(...sorted.map(([, row]) => row));
    find();
  }

  function save() {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [names, ...shown.map((row) => Array.from(row.cells, value))];
    const text = lines.map((line) => line.map(quoted).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = finder.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  headings.forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = names[column];
    button.addEventListener("click", () => sort(column));
    cell.replaceChildren(button);
  });
  field.addEventListener("input", find);
  finder.querySelector(".save").addEventListener("click", save);
  finder.querySelector(".tools").hidden = false;
  find();
}
