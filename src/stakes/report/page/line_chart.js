"use strict";

// Lines over one number, drawn again as the reader turns it; style sheets set the colours.

function svgElement(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// Round numbers between the ends, three to seven of them.
function ticksBetween(low, high) {
  const raw = (high - low) / 7 || Math.abs(high) || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * size).find((width) => width >= raw);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(10)));
}

// Powers of ten between the ends, or every so many of them.
function powersBetween(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const count = Math.floor(Math.log10(high) + 1e-9) - first + 1;
  const every = Math.ceil(count / 6);
  return Array.from({ length: Math.ceil(Math.max(count, 0) / every) }, (_, i) => 10 ** (first + i * every));
}

class LineChart {
  constructor(root, { across, upwards, logarithmic }) {
    this.root = root;
    this.names = { across, upwards };
    this.logarithmic = logarithmic;
  }

  // Where a value stands on an axis from one pixel to another.
  scale(low, high, from, to, logarithmic) {
    const on = logarithmic ? Math.log : (value) => value;
    const span = on(high) - on(low) || 1;
    return (value) => from + ((to - from) * (on(value) - on(low))) / span;
  }

  draw(x, lines, here) {
    const width = Math.min(Math.max(this.root.clientWidth, 320), 740); // so that names keep their size
    const [height, left, right, top, bottom] = [260, 74, 12, 30, 44];
    const values = lines.flatMap(({ y }) => y).filter((y) => Number.isFinite(y) && (y > 0 || !this.logarithmic));
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const [first, last] = [Math.min(...x), Math.max(...x)];
    const room = this.logarithmic ? 0 : 0.05 * (high - low || 1);
    const across = this.scale(first, last, left, width - right, false);
    const up = this.scale(low - room, high + room, height - bottom, top, this.logarithmic);
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}` });
    for (const y of this.logarithmic ? powersBetween(low, high) : ticksBetween(low, high)) {
      svg.append(
        svgElement("line", { x1: left, x2: width - right, y1: up(y), y2: up(y), class: "grid" }),
        svgElement("text", { x: left - 8, y: up(y) + 4, "text-anchor": "end" }, significant(y)),
      );
    }
    for (const tick of ticksBetween(first, last)) {
      const y = height - bottom + 18;
      svg.append(svgElement("text", { x: across(tick), y, "text-anchor": "middle" }, significant(tick)));
    }
    const middle = (top + height - bottom) / 2;
    svg.append(
      svgElement("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" }),
      svgElement("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, this.names.across),
      svgElement("text", { transform: `translate(14 ${middle}) rotate(-90)`, "text-anchor": "middle" }, this.names.upwards),
      svgElement("line", { x1: across(here), x2: across(here), y1: top, y2: height - bottom, class: "here" }),
    );
    lines.forEach(({ name, title, y, here: at }, i) => {
      const known = x.map((value, k) => [value, y[k]]).filter(([, value]) => values.includes(value));
      const path = known.map(([value, height]) => `${across(value).toFixed(1)} ${up(height).toFixed(1)}`);
      const key = (width < 420 ? 0 : left) + 180 * i;
      svg.append(
        svgElement("path", { d: `M${path.join("L")}`, class: name }),
        svgElement("path", { d: `M${key} 12h24`, class: name }),
        svgElement("text", { x: key + 30, y: 16 }, title),
      );
      if (values.length > 0 && (at > 0 || !this.logarithmic)) {
        svg.append(svgElement("circle", { cx: across(here), cy: up(at), r: 5, class: name }));
      }
    });
    this.root.replaceChildren(svg);
  }
}
