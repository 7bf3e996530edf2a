"use strict";

// Bokeh draws on canvases, which style sheets do not reach: axes take their colours from here.

const inks = {
  light: { text: "#4a4a4a", line: "#8a8a8a", grid: "#e6e6e6" },
  dark: { text: "#c4c4c4", line: "#8a8a8a", grid: "#3a3a3a" },
};
const darkMode = window.matchMedia("(prefers-color-scheme: dark)");

function paint(theme) {
  const ink = inks[theme];
  for (const view of Bokeh.documents) {
    for (const model of view.all_models) {
      if (model.type.endsWith("Axis")) {
        model.setv({ axis_label_text_color: ink.text, major_label_text_color: ink.text });
        if (model.axis_line_color !== null) model.setv({ axis_line_color: ink.line });
        if (model.major_tick_line_color !== null) model.setv({ major_tick_line_color: ink.line });
      } else if (model.type === "Grid") {
        if (model.grid_line_color !== null) model.setv({ grid_line_color: ink.grid });
      } else if (model.type === "Legend") {
        model.setv({ label_text_color: ink.text });
      }
    }
  }
}

function modelNamed(name) {
  for (const view of Bokeh.documents) {
    const model = view.get_model_by_name(name);
    if (model) return model;
  }
  return null;
}

// On paper a chart keeps the size that it was drawn in, so it is made to fit the page: two side by side, or one.
const PAPER = { beside: 330, alone: 690 };

function shrinkForPaper() {
  for (const chart of document.querySelectorAll(".chart")) {
    const room = chart.closest(".charts") ? PAPER.beside : PAPER.alone;
    chart.style.setProperty("--on-paper", String(Math.min(1, room / (chart.scrollWidth || room))));
  }
}

async function drawCharts(items) {
  for (const item of items) await Bokeh.embed.embed_item(item);
  const onPaper = window.matchMedia("print");
  const repaint = () => paint(darkMode.matches && !onPaper.matches ? "dark" : "light");
  repaint();
  darkMode.addEventListener("change", repaint);
  onPaper.addEventListener("change", repaint);
  window.addEventListener("beforeprint", () => {
    paint("light");
    shrinkForPaper();
  });
  window.addEventListener("afterprint", repaint);
}
