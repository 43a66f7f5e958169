// What an intervention on a chosen cause would do to the other variables.

const NO_PATH = 0.99; // in so many graphs: not listed

function digits(x) {
  if (x === 0) return "0";
  const text = Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(3)));
  return text.replace("-", "−");
}

class EffectTable {
  constructor(names, effects) {
    this.names = names;
    this.effects = effects;
    this.select = document.getElementById("cause");
    this.body = document.getElementById("effect-table").tBodies[0];
    this.note = document.getElementById("effect-note");
    const reach = effects.zero.map((row) => row.reduce((sum, p) => sum + 1 - p, 0));
    names.forEach((name, k) => this.select.append(new Option(name.length > 40 ? name.slice(0, 40) + "…" : name, String(k))));
    this.select.value = String(reach.indexOf(Math.max(...reach)));
    this.select.addEventListener("input", () => this.show());
    this.show();
  }

  choose(cause) {
    this.select.value = String(cause);
    this.show();
  }

  show() {
    const i = Number(this.select.value), { mean, low, high, zero, change, beyond } = this.effects;
    const size = (j) => Math.abs(mean[i][j]) / change[j];
    const others = this.names.map((_, j) => j).filter((j) => j !== i);
    const moved = others.filter((j) => zero[i][j] < NO_PATH).sort((a, b) => size(b) - size(a));
    const ends = moved.flatMap((j) => [low[i][j] / change[j], high[i][j] / change[j]]);
    const scale = Math.max(0.1, ...ends.map(Math.abs));
    this.body.replaceChildren(...moved.map((j) => this.row(i, j, scale)));
    const rest = others.length - moved.length;
    this.note.textContent =
      `Raising ${this.names[i]} by one standard deviation (${digits(change[i])}) from its mean. ` +
      (beyond[i] ? "That is above every value that was observed, so that the answer rests on the model alone. " : "") +
      (moved.length ? "" : "Nothing follows from it in nearly every graph. ") +
      (rest && moved.length ? `${plural(rest, "other variable", "other variables")}: no path leads there in nearly every graph.` : "");
  }

  row(i, j, scale) {
    const { mean, low, high, zero, change } = this.effects;
    const row = document.createElement("tr");
    const name = document.createElement("bdi");
    name.className = "name";
    name.textContent = name.title = this.names[j];
    row.insertCell().append(name);
    row.insertCell().append(this.forest(mean[i][j] / change[j] / scale, low[i][j] / change[j] / scale, high[i][j] / change[j] / scale));
    for (const text of [digits(mean[i][j]), `${digits(low[i][j])} to ${digits(high[i][j])}`, shown(zero[i][j])]) {
      const cell = row.insertCell();
      cell.className = "number";
      cell.textContent = text;
    }
    return row;
  }

  // The interval as a line and the mean as a point, in standard deviations of the effect.
  forest(mean, low, high) {
    const x = (share) => 80 + 74 * share;
    const svg = make("svg", { class: "forest", viewBox: "0 0 160 20", "aria-hidden": "true" });
    svg.append(make("path", { class: "axis", d: "M80 1V19" }));
    svg.append(make("path", { class: "span", d: `M${x(low).toFixed(1)} 10H${x(high).toFixed(1)}` }));
    svg.append(make("circle", { cx: x(mean).toFixed(1), cy: 10, r: 4.2 }));
    return svg;
  }
}
