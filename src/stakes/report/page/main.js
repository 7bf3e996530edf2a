"use strict";

function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function shownColumn({ kind, values, decimals, style }) {
  if (kind === "text") return { ...textColumn(values), className: style };
  if (kind === "given") return { text: (row) => String(values[row]), value: (row) => values[row], className: style };
  return { ...numberColumn((row) => values[row], decimals), className: style };
}

// Where a table is wider than the page, numbers matter more than sketches of them.
function leaveRoom(root) {
  const section = root.closest("section");
  const box = root.querySelector(".scroll");
  section.classList.remove("crowded");
  section.classList.toggle("crowded", box.scrollWidth > box.clientWidth);
}

function start() {
  const { decisions, whatIf } = readJson("report-data");
  const shown = decisions.columns.map(shownColumn);
  const labels = decisions.columns.filter((column) => column.name === "label").length;
  const columns = [...withLabelsBeneath(shown.slice(0, labels)), ...shown.slice(labels)];
  const sketch = sketchColumn(decisions.columns);
  const root = document.getElementById("decision-table");
  new PagedTable(root, sketch ? [...columns, sketch] : columns, decisions.rows);
  if (whatIf) new WhatIfPanel(document.getElementById("what-if-panel"), whatIf, decisions);
  document.documentElement.classList.add("scripted");
  leaveRoom(root);
  window.addEventListener("resize", () => leaveRoom(root));
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
}

start();
