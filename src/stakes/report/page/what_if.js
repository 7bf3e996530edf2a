"use strict";

// Decisions and expected loss for another parameter of the loss, from predictive quantiles.
// The quantiles stand for a distribution with an atom at each of them.

class WhatIf {
  constructor(data, fitted) {
    this.data = data;
    this.levels = data.levels;
    this.count = data.rows.length;
    this.fitted = Float64Array.from(data.rows, (row) => fitted[row]);
    this.weights = this.levels.map((level, k) => {
      const below = k === 0 ? 0 : (this.levels[k - 1] + level) / 2;
      const above = k === this.levels.length - 1 ? 1 : (level + this.levels[k + 1]) / 2;
      return above - below;
    });
    this.quantiles = Float64Array.from(data.quantiles);
    // Shifted so that the fit's parameter gives the fit's decisions: quantiles come from draws.
    const raw = this.decide(data.parameter);
    for (let i = 0; i < this.count; i++) {
      for (let k = 0; k < this.levels.length; k++) {
        this.quantiles[i * this.levels.length + k] += this.fitted[i] - raw[i];
      }
    }
  }

  // The slider's position, from -1 to 1, as a parameter: c changes by factors.
  parameterAt(position) {
    const { kind, low, high, parameter } = this.data;
    if (kind === "linex") {
      const widest = Math.max(Math.abs(low), Math.abs(high)) / Math.abs(parameter);
      return parameter * widest ** position;
    }
    return low + ((high - low) * (position + 1)) / 2;
  }

  positionOf(parameter) {
    if (this.data.kind === "linex") return 0;
    return (2 * (parameter - this.data.low)) / (this.data.high - this.data.low) - 1;
  }

  decide(parameter) {
    const one = this.data.kind === "tilted" ? this.quantile : this.certaintyEquivalent;
    return Float64Array.from({ length: this.count }, (_, i) => one.call(this, i, parameter));
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
  expectedLoss(parameter, decisions) {
    const { weights, quantiles } = this;
    const loss = this.data.kind === "tilted"
      ? (y, h) => Math.max(parameter * (y - h), (parameter - 1) * (y - h))
      : (y, h) => Math.expm1(parameter * (h - y)) - parameter * (h - y);
    let sum = 0;
    for (let i = 0; i < this.count; i++) {
      const start = i * weights.length;
      for (let k = 0; k < weights.length; k++) {
        sum += weights[k] * loss(quantiles[start + k], decisions[i]);
      }
    }
    return (this.data.factor * sum) / Math.max(this.count, 1);
  }

  curve() {
    const positions = Array.from({ length: 49 }, (_, i) => -1 + i / 24);
    const x = positions.map((position) => this.parameterAt(position));
    return {
      x,
      best: x.map((parameter) => this.expectedLoss(parameter, this.decide(parameter))),
      kept: x.map((parameter) => this.expectedLoss(parameter, this.fitted)),
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
    this.model = new WhatIf(data, table.calibrated);
    this.decisions = this.model.fitted;
    this.slider = root.querySelector("input[type=range]");
    this.slider.value = this.model.positionOf(data.parameter);
    const { rows } = data;
    const labels = table.labels.map((label) => textColumn(rows.map((row) => label.values[row])));
    const change = (i) => this.decisions[i] - this.model.fitted[i];
    this.table = new PagedTable(root.querySelector(".data"), [
      ...labels,
      numberColumn((i) => this.model.fitted[i], table.decimals),
      numberColumn((i) => this.decisions[i], table.decimals),
      numberColumn(change, table.decimals),
    ], rows.length);
    this.slider.addEventListener("input", () => {
      this.update(this.model.parameterAt(Number(this.slider.value)));
    });
    root.querySelector("[data-reset]").addEventListener("click", () => {
      this.slider.value = this.model.positionOf(data.parameter);
      this.update(data.parameter);
    });
    this.update(data.parameter);
  }

  update(parameter) {
    const { model } = this;
    this.decisions = model.decide(parameter);
    const best = model.expectedLoss(parameter, this.decisions);
    const kept = model.expectedLoss(parameter, model.fitted);
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    this.say("parameter", significant(parameter));
    this.say("best", significant(best));
    this.say("kept", significant(kept));
    this.say("mean", significant(mean(this.decisions)));
    const tilted = model.data.kind === "tilted";
    if (tilted) this.say("ratio", significant(parameter / (1 - parameter)));
    const name = tilted ? "q" : "c";
    this.slider.setAttribute("aria-valuetext", `${name} = ${significant(parameter)}`);
    this.table.draw();
    this.here = { x: [parameter, parameter], y: [kept, best], color: ["#767676", "#D55E00"] };
    this.onUpdate?.(this.here);
  }

  say(name, text) {
    this.root.querySelector(`[data-out=${name}]`).textContent = text;
  }
}
