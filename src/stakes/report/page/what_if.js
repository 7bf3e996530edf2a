"use strict";

// Decisions and expected cost for other parameters of the loss, from predictive quantiles.
// The quantiles stand for a distribution with an atom at each of them. The parameters are the costs
// of a unit short and of one too many, or the c of a LinEx loss.

class WhatIf {
  constructor(data, taken) {
    this.data = data;
    this.levels = data.levels;
    this.count = data.rows.length;
    this.fitted = Float64Array.from(data.rows, (row) => taken[row]);
    this.parameters = data.handles.map((handle) => handle.value);
    this.weights = this.levels.map((level, k) => {
      const below = k === 0 ? 0 : (this.levels[k - 1] + level) / 2;
      const above = k === this.levels.length - 1 ? 1 : (level + this.levels[k + 1]) / 2;
      return above - below;
    });
    this.quantiles = Float64Array.from(data.quantiles);
    // Shifted so that the parameters of the fit give its decisions: quantiles come from draws.
    const raw = this.decide(this.parameters);
    for (let i = 0; i < this.count; i++) {
      for (let k = 0; k < this.levels.length; k++) {
        this.quantiles[i * this.levels.length + k] += this.fitted[i] - raw[i];
      }
    }
  }

  // A slider's position, from -1 to 1, as a parameter: it changes by factors.
  parameterAt(handle, position) {
    const { value, span } = this.data.handles[handle];
    return value * span ** position;
  }

  decide(parameters) {
    const one = this.data.kind === "costs"
      ? (i) => this.quantile(i, parameters[0] / (parameters[0] + parameters[1]))
      : (i) => this.certaintyEquivalent(i, parameters[0]);
    return Float64Array.from({ length: this.count }, (_, i) => one(i));
  }

  quantile(i, level) {
    const { levels, quantiles } = this;
    const start = i * levels.length;
    let k = 0;
    while (k < levels.length && levels[k] < level) k++;
    if (k === 0) return quantiles[start];
    if (k === levels.length) return quantiles[start + k - 1];
    const share = (level - levels[k - 1]) / (levels[k] - levels[k - 1]);
    const value = quantiles[start + k - 1] * (1 - share) + quantiles[start + k] * share;
    return this.data.wholeNumbers ? Math.round(value) : value;
  }

  // -(1/c) log E exp(-cy)
  certaintyEquivalent(i, c) {
    const start = i * this.levels.length;
    const exponents = this.weights.map((_, k) => -c * this.quantiles[start + k]);
    const largest = Math.max(...exponents);
    const sum = this.weights.reduce((s, w, k) => s + w * Math.exp(exponents[k] - largest), 0);
    return -(largest + Math.log(sum)) / c;
  }

  // Mean over instances of E loss(y, h).
  expectedLoss(parameters, decisions) {
    const { weights, quantiles } = this;
    const [a, b] = parameters;
    const loss = this.data.kind === "costs"
      ? (y, h) => Math.max(a * (y - h), b * (h - y))
      : (y, h) => Math.expm1(a * (h - y)) - a * (h - y);
    let sum = 0;
    for (let i = 0; i < this.count; i++) {
      const start = i * weights.length;
      for (let k = 0; k < weights.length; k++) {
        sum += weights[k] * loss(quantiles[start + k], decisions[i]);
      }
    }
    return sum / Math.max(this.count, 1);
  }

  // Over the first parameter, with the others as they are.
  curve([, ...others]) {
    const x = Array.from({ length: 25 }, (_, i) => this.parameterAt(0, -1 + i / 12));
    return {
      x,
      best: x.map((value) => this.expectedLoss([value, ...others], this.decide([value, ...others]))),
      kept: x.map((value) => this.expectedLoss([value, ...others], this.fitted)),
    };
  }
}

function significant(value) {
  if (!Number.isFinite(value)) return "–";
  const size = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  if (size < -4 || size > 8) return value.toExponential(3).replace("-", "−");
  const options = { maximumFractionDigits: Math.max(3 - size, 0) };
  return value.toLocaleString("en-US", options).replace("-", "−");
}

class WhatIfPanel {
  constructor(root, data, table) {
    this.root = root;
    this.model = new WhatIf(data, table.taken);
    this.decisions = this.model.fitted;
    this.sliders = [...root.querySelectorAll("input[type=range]")];
    const { rows } = data;
    const columns = table.columns.slice(0, root.querySelectorAll("th.text").length);
    const labels = columns.map((label) => textColumn(rows.map((row) => label.values[row])));
    const change = (i) => this.decisions[i] - this.model.fitted[i];
    this.table = new PagedTable(root.querySelector(".data"), [
      ...labels,
      numberColumn((i) => this.model.fitted[i], table.decimals),
      { ...numberColumn((i) => this.decisions[i], table.decimals), className: "decision" },
      numberColumn(change, table.decimals),
    ], rows.length);
    for (const slider of this.sliders) slider.addEventListener("input", () => this.update());
    root.querySelector("[data-reset]").addEventListener("click", () => {
      for (const slider of this.sliders) slider.value = 0;
      this.update();
    });
    this.update();
  }

  get parameters() {
    return this.sliders.map((slider, i) => this.model.parameterAt(i, Number(slider.value)));
  }

  update() {
    const { model, parameters } = this;
    this.decisions = model.decide(parameters);
    this.best = model.expectedLoss(parameters, this.decisions);
    this.kept = model.expectedLoss(parameters, model.fitted);
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    this.say("best", significant(this.best));
    this.say("kept", significant(this.kept));
    this.say("mean", significant(mean(this.decisions)));
    const change = mean(this.decisions) - mean(model.fitted);
    this.say("change", significant(Math.abs(change) < 1e-9 ? 0 : change));
    parameters.forEach((value, i) => {
      this.root.querySelector(`[data-value="${i}"]`).textContent = significant(value);
      this.sliders[i].setAttribute("aria-valuetext", significant(value));
    });
    this.table.draw();
    this.draw();
  }

  draw() {
    if (!this.onUpdate) return;
    const [x] = this.parameters;
    const here = { x: [x, x], y: [this.kept, this.best], color: ["#767676", "#D55E00"] };
    this.onUpdate(here, this.model.curve(this.parameters));
  }

  say(name, text) {
    this.root.querySelector(`[data-out=${name}]`).textContent = text;
  }
}
