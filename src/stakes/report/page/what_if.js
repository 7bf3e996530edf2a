"use strict";

// Decisions and expected cost for other parameters of the loss.

class WhatIf {
  constructor(data, fitted) {
    this.data = data;
    this.levels = data.levels;
    this.count = data.rows.length;
    this.fitted = fitted;
    this.parameters = data.handles.map((handle) => handle.value);
  }

  // A slider's position, from -1 to 1, as a parameter: it changes by factors.
  parameterAt(handle, position) {
    const { value, span } = this.data.handles[handle];
    return value * span ** position;
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

// From predictive quantiles, which stand for a distribution with an atom at each of them. The
// parameters are the costs of a unit short and of one too many, or the c of a LinEx loss.
class QuantileWhatIf extends WhatIf {
  constructor(data, table) {
    super(data, Float64Array.from(data.rows, (row) => table.taken[row]));
    this.decimals = table.decimals;
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
    return this.data.whole_numbers ? Math.round(value) : value;
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

  column(decisions) {
    return numberColumn((i) => decisions()[i], this.decimals);
  }

  changes(decisions) {
    return numberColumn((i) => decisions()[i] - this.fitted[i], this.decimals);
  }

  summary(decisions) {
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const change = mean(decisions) - mean(this.fitted);
    return [significant(mean(decisions)), significant(Math.abs(change) < 1e-9 ? 0 : change)];
  }
}

// From the chances of classes. The parameters are costs of an action for a class, or what costs
// that differ from row to row are multiplied by.
class TableWhatIf extends WhatIf {
  constructor(data) {
    super(data, Int32Array.from(data.dial.taken));
    this.chances = data.quantiles;
    // What the action of the fit is allowed to cost more: chances come from draws.
    this.allowed = new Float64Array(this.count);
    const best = this.decide(this.parameters);
    for (let i = 0; i < this.count; i++) {
      const over = (action) => this.cost(i, action, this.parameters);
      this.allowed[i] = over(this.fitted[i]) - over(best[i]);
    }
  }

  cost(i, action, parameters) {
    const { cells, factors } = this.data.dial;
    const classes = this.levels.length;
    let sum = 0;
    for (let k = 0; k < classes; k++) {
      const handle = cells[action * classes + k];
      if (handle < 0) continue;
      const factor = factors[handle] === null ? 1 : factors[handle][i];
      sum += this.chances[i * classes + k] * parameters[handle] * factor;
    }
    return sum;
  }

  decide(parameters) {
    const actions = this.data.dial.actions.map((_, action) => action);
    return Int32Array.from({ length: this.count }, (_, i) => {
      const costs = actions.map((action) =>
        this.cost(i, action, parameters) - (action === this.fitted[i] ? this.allowed[i] + 1e-12 : 0));
      return costs.indexOf(Math.min(...costs));
    });
  }

  expectedLoss(parameters, decisions) {
    let sum = 0;
    for (let i = 0; i < this.count; i++) sum += this.cost(i, decisions[i], parameters);
    return sum / Math.max(this.count, 1);
  }

  column(decisions) {
    const named = (i) => this.data.dial.actions[decisions()[i]];
    return { text: named, value: named };
  }

  changes(decisions) {
    const other = (i) => (decisions()[i] === this.fitted[i] ? "" : "yes");
    return { text: other, value: other };
  }

  summary(decisions) {
    const counts = this.data.dial.actions.map((name, action) =>
      `${decisions.reduce((sum, each) => sum + (each === action), 0).toLocaleString("en-US")} × ${name}`);
    const others = decisions.reduce((sum, each, i) => sum + (each !== this.fitted[i]), 0);
    return [counts.join(", "), others.toLocaleString("en-US")];
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
    this.model = data.dial ? new TableWhatIf(data) : new QuantileWhatIf(data, table);
    this.decisions = this.model.fitted;
    this.chart = new LineChart(root.querySelector(".chart"), {
      across: data.handles[0].name,
      upwards: "expected cost",
      // Away from the c of the fit the loss of decisions made for it grows exponentially.
      logarithmic: data.kind === "linex",
    });
    this.sliders = [...root.querySelectorAll("input[type=range]")];
    const { rows } = data;
    const columns = table.columns.slice(0, root.querySelectorAll("th.text").length);
    const labels = columns.map((label, i) => ({
      ...textColumn(rows.map((row) => label.values[row])),
      className: i === 0 ? "" : "wide",
    }));
    this.table = new PagedTable(root.querySelector(".data"), [
      ...withLabelsBeneath(labels),
      this.model.column(() => this.model.fitted),
      { ...this.model.column(() => this.decisions), className: "decision" },
      this.model.changes(() => this.decisions),
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
    const [mean, change] = model.summary(this.decisions);
    this.say("best", significant(this.best));
    this.say("kept", significant(this.kept));
    this.say("mean", mean);
    this.say("change", change);
    parameters.forEach((value, i) => {
      this.root.querySelector(`[data-value="${i}"]`).textContent = significant(value);
      this.sliders[i].setAttribute("aria-valuetext", significant(value));
    });
    this.table.draw();
    this.draw();
  }

  draw() {
    const { x, best, kept } = this.model.curve(this.parameters);
    const lines = [
      { name: "kept", title: "decisions as they are", y: kept, here: this.kept },
      { name: "best", title: "new decisions", y: best, here: this.best },
    ];
    this.chart.draw(x, lines, this.parameters[0]);
  }

  say(name, text) {
    this.root.querySelector(`[data-out=${name}]`).textContent = text;
  }
}
