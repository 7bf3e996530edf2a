"use strict";

function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function shownColumn({ kind, values, decimals, style }) {
  if (kind === "text") return { ...textColumn(values), className: style };
  if (kind === "given") return { text: (row) => String(values[row]), value: (row) => values[row], className: style };
  return { ...numberColumn((row) => values[row], decimals), className: style };
}

async function start() {
  const { decisions, whatIf } = readJson("report-data");
  const shown = decisions.columns.map(shownColumn);
  const labels = decisions.columns.filter((column) => column.name === "label").length;
  const columns = [...withLabelsBeneath(shown.slice(0, labels)), ...shown.slice(labels)];
  const sketch = sketchColumn(decisions.columns);
  new PagedTable(document.getElementById("decision-table"), sketch ? [...columns, sketch] : columns, decisions.rows);
  const panel = whatIf && new WhatIfPanel(document.getElementById("what-if-panel"), whatIf, decisions);
  document.documentElement.classList.add("scripted");
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  await drawCharts(readJson("chart-data"));
  if (panel) {
    panel.onUpdate = (here, { x, best, kept }) => {
      modelNamed("what-if-best").data = { x, y: best };
      modelNamed("what-if-kept").data = { x, y: kept };
      modelNamed("what-if-here").data = here;
    };
    panel.draw();
  }
  document.documentElement.classList.add("drawn");
}

start();
