"use strict";

function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function decisionColumns(table) {
  const column = (name) => numberColumn((row) => table[name][row], table.decimals);
  const decided = (name) => table.actions.length === 0
    ? column(name)
    : textColumn(table[name].map((number) => table.actions[number]));
  return [
    ...table.labels.map((label) => textColumn(label.values)),
    ...(table.chosen ? [decided("chosen")] : []),
    decided("vi"),
    decided("calibrated"),
    column("low"),
    column("high"),
    column("observed"),
    sketchColumn(table),
  ];
}

async function start() {
  const { decisions, whatIf } = readJson("report-data");
  new PagedTable(document.getElementById("decision-table"), decisionColumns(decisions), decisions.calibrated.length);
  const panel = whatIf && new WhatIfPanel(document.getElementById("what-if-panel"), whatIf, decisions);
  document.documentElement.classList.add("scripted");
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  await drawCharts(readJson("chart-data"));
  if (panel) {
    const { x, best, kept } = panel.model.curve();
    modelNamed("what-if-best").data = { x, y: best };
    modelNamed("what-if-kept").data = { x, y: kept };
    panel.onUpdate = (here) => { modelNamed("what-if-here").data = here; };
    panel.onUpdate(panel.here);
  }
  document.documentElement.classList.add("drawn");
}

start();
