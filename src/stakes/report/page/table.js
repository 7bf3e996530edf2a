"use strict";

// A table that is searched, sorted and paged: only the rows in view are in the page.
// Cells are filled only through textContent, so no label is ever read as markup.

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

function formatNumber(value, decimals) {
  if (value === null || Number.isNaN(value)) return "–";
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return value.toLocaleString("en-US", options).replace("-", "−").replace(/^−(0(\.0*)?)$/, "$1");
}

function textColumn(values) {
  return { text: (row) => String(values[row]), value: (row) => values[row], isText: true };
}

function numberColumn(value, decimals) {
  return { text: (row) => formatNumber(value(row), decimals), value };
}

function compareValues(a, b) {
  const missingA = a === null || Number.isNaN(a);
  const missingB = b === null || Number.isNaN(b);
  if (missingA || missingB) return missingA - missingB;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}

// Where there is little room, all labels of a row stand in its first cell.
function withLabelsBeneath([first, ...others]) {
  return first ? [{ ...first, beneath: others }, ...others] : [];
}

class PagedTable {
  constructor(root, columns, count) {
    this.root = root;
    this.columns = columns;
    this.count = count;
    this.page = 0;
    this.sorted = { column: -1, descending: false };
    this.order = Uint32Array.from({ length: count }, (_, row) => row);
    this.shown = this.order;
    this.body = root.querySelector("tbody");
    this.status = root.querySelector("[role=status]");
    this.search = root.querySelector("input[type=search]");
    this.size = root.querySelector("select");
    this.headers = [...root.querySelectorAll("th[data-column]")];
    root.querySelector(".below").hidden = count <= 10;
    this.listen();
    this.draw();
  }

  listen() {
    let waiting = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.filter(), 80);
    });
    this.size.addEventListener("change", () => this.turn(-Infinity));
    this.headers.forEach((header, column) => {
      header.querySelector("button").addEventListener("click", () => this.sort(column));
    });
    for (const [name, by] of [["first", -Infinity], ["back", -1], ["next", 1], ["last", Infinity]]) {
      this.root.querySelector(`[data-turn=${name}]`).addEventListener("click", () => this.turn(by));
    }
  }

  get pages() {
    return Math.max(1, Math.ceil(this.shown.length / Number(this.size.value)));
  }

  turn(by) {
    this.page = Math.min(Math.max(this.page + by, 0), this.pages - 1);
    this.draw();
  }

  sort(column) {
    const again = this.sorted.column === column;
    this.sorted = { column, descending: again && !this.sorted.descending };
    const sign = this.sorted.descending ? -1 : 1;
    const values = Array.from({ length: this.count }, (_, row) => this.columns[column].value(row));
    const isMissing = (value) => value === null || Number.isNaN(value);
    this.order = Uint32Array.from({ length: this.count }, (_, row) => row).sort((a, b) => {
      if (isMissing(values[a]) || isMissing(values[b])) return compareValues(values[a], values[b]);
      return sign * compareValues(values[a], values[b]) || a - b;
    });
    this.headers.forEach((header, i) => {
      const direction = this.sorted.descending ? "descending" : "ascending";
      header.setAttribute("aria-sort", i === column ? direction : "none");
    });
    this.filter();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.haystack ??= Array.from({ length: this.count }, (_, row) =>
      this.columns.filter((c) => c.isText).map((c) => c.text(row)).join("\n").toLowerCase());
    this.shown = words.length === 0
      ? this.order
      : this.order.filter((row) => words.every((word) => this.haystack[row].includes(word)));
    this.turn(-Infinity);
  }

  draw() {
    const size = Number(this.size.value);
    const start = this.page * size;
    const rows = [...this.shown.slice(start, start + size)];
    this.body.replaceChildren(...rows.map((row, i) => this.line(row, start + i, rows)));
    const all = this.count.toLocaleString("en-US");
    const found = this.shown.length.toLocaleString("en-US");
    const range = rows.length === 0
      ? "No row matches"
      : `Rows ${(start + 1).toLocaleString("en-US")} to ${(start + rows.length).toLocaleString("en-US")} of ${found}`;
    this.status.textContent = this.shown.length === this.count ? range : `${range} (of ${all} in all)`;
    this.root.querySelector(".pager").hidden = this.pages === 1;
    for (const button of this.root.querySelectorAll("[data-turn]")) {
      const backwards = button.dataset.turn === "first" || button.dataset.turn === "back";
      button.disabled = backwards ? this.page === 0 : this.page >= this.pages - 1;
    }
  }

  line(row, place, rows) {
    const line = document.createElement("tr");
    line.setAttribute("aria-rowindex", String(place + 2));
    for (const column of this.columns) {
      const cell = document.createElement(column.isText ? "th" : "td");
      if (column.isText) cell.scope = "row";
      if (column.className) cell.className = column.className;
      if (column.draw) cell.append(column.draw(row, rows));
      else cell.textContent = column.text(row);
      for (const label of column.beneath ?? []) {
        const under = document.createElement("span");
        under.className = "beneath";
        under.textContent = label.text(row);
        cell.append(under);
      }
      line.append(cell);
    }
    return line;
  }
}

// A line for the range, a bar for the observed outcome, and marks for decisions.
// None where the table has no ranges.
function sketchColumn(columns) {
  const width = 150;
  const height = 18;
  const middle = height / 2;
  const named = (name) => columns.find((column) => column.name === name)?.values;
  const [low, high, observed] = ["low", "high", "observed"].map(named);
  const [vi, calibrated, chosen] = ["vi", "calibrated", "chosen"].map(named);
  if (!low || typeof (chosen ?? calibrated)[0] === "string") return null;
  const shape = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const all = [low, high, observed, vi, calibrated, chosen].filter(Boolean);
  const draw = (row, rows) => {
    const values = rows.flatMap((i) => all.map((column) => column[i])).filter((value) => value !== null);
    const least = Math.min(...values);
    const span = Math.max(...values) - least || 1;
    const at = (value) => 6 + ((width - 12) * (value - least)) / span;
    const known = (column) => column && column[row] !== null;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    if (known(low) && known(high)) {
      svg.append(shape("line", { x1: at(low[row]), x2: at(high[row]), y1: middle, y2: middle, class: "interval" }));
    }
    if (known(observed)) {
      svg.append(shape("line", { x1: at(observed[row]), x2: at(observed[row]), y1: 2, y2: height - 2, class: "observed" }));
    }
    if (known(vi)) svg.append(shape("circle", { cx: at(vi[row]), cy: middle, r: 3.5, class: "vi" }));
    if (known(calibrated)) {
      svg.append(shape("path", { d: `M${at(calibrated[row]) - 4.5} ${middle + 4}h9l-4.5-8z`, class: "calibrated" }));
    }
    if (known(chosen)) {
      svg.append(shape("path", { d: `M${at(chosen[row])} ${middle - 6}l5 6l-5 6l-5 -6z`, class: "chosen" }));
    }
    return svg;
  };
  return { text: () => "", value: () => null, draw, className: "sketch wide" };
}
