"use strict";
// The drawing: variables in layers, arrows with their probability as width and colour.
// Text from the data reaches the page by textContent and setAttribute alone.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 34, GAP = 26, LONGEST = 128;
const DECIDED = 2, FAVOURED = 1;
const NEAR = 92, FAR = 200; // between rows, drawn downward
const BESIDE = 52, LOOSE = 96, APART = 170; // between variables and between layers, drawn sideways

function make(tag, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}

function heat(p) {
  return "h" + Math.round(20 * Math.min(1, Math.max(0, p)));
}

function shown(p) {
  if (p <= 0 || p >= 1) return p <= 0 ? "0" : "1";
  if (p < 0.005) return "<0.01";
  return p > 0.995 ? ">0.99" : p.toFixed(2);
}

// Labels cut to a width, by characters and not by halves of them.
function labels(names) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "550 13px system-ui, sans-serif";
  const cut = names.map((name) => {
    const letters = Array.from(name);
    if (pen.measureText(name).width <= LONGEST) return name;
    let low = 0, high = Math.min(letters.length, 60);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (pen.measureText(letters.slice(0, middle).join("") + "…").width <= LONGEST) low = middle;
      else high = middle - 1;
    }
    return letters.slice(0, low).join("") + "…";
  });
  const width = Math.max(...cut.map((text) => pen.measureText(text).width));
  return { cut, width: Math.max(46, Math.min(LONGEST, width) + 22) };
}

// What is drawn of a pair: i → j (decided or favoured), or a link without direction.
function drawn(pair) {
  return { ...pair, s: pair.d ? pair.p : Math.min(1, pair.p + pair.q) };
}

function viewEdges(view) {
  const edge = (d) => ([i, j]) => ({ i, j, p: 1, q: 0, d, s: 1, route: null });
  return [...view.arrows.map(edge(DECIDED)), ...view.links.map(edge(0))];
}

function edgeTitle(edge, names) {
  const [a, b] = [names[edge.i], names[edge.j]];
  if (edge.view) return edge.d ? `${a} → ${b}` : `${a} — ${b}`;
  const kind = ["connected, direction open", "direction favoured, not decided", "direction decided"][edge.d];
  return `${a} ${edge.d ? "→" : "—"} ${b}: ${kind}\n${a} → ${b} ${shown(edge.p)}\n${b} → ${a} ${shown(edge.q)}`;
}

// Edges run along one axis, v, from layer to layer, and spread over the other, u. Drawn sideways,
// v goes to the right; otherwise it goes down.
class Flow {
  constructor(sideways, width) {
    this.sideways = sideways;
    this.spread = sideways ? HEIGHT : width;
    this.thick = sideways ? width : HEIGHT;
  }

  uv({ x, y }) { return this.sideways ? { u: y, v: x } : { u: x, v: y }; }

  text(u, v) { return this.sideways ? `${v.toFixed(1)} ${u.toFixed(1)}` : `${u.toFixed(1)} ${v.toFixed(1)}`; }
}

// The way of an edge from cause to effect, and the side of each variable it leaves and enters.
function ends(edge, at, flow) {
  const a = flow.uv(at[edge.i]), b = flow.uv(at[edge.j]);
  const between = edge.route && at.routed ? edge.route.map((point) => flow.uv(at.routed(point))) : [];
  const along = b.v > a.v, level = Math.abs(b.v - a.v) < 1;
  return { a, b, between, out: level || along ? 1 : -1, into: level || !along ? 1 : -1, level };
}

// Where edges meet a variable: side by side, sorted by where they come from.
function ports(edges, flow) {
  const sides = new Map();
  const enter = (node, side, edge, key, from) => {
    const name = `${node} ${side}`;
    if (!sides.has(name)) sides.set(name, []);
    sides.get(name).push({ edge, key, from });
  };
  for (const edge of edges) {
    const e = edge.ends;
    enter(edge.i, e.out, edge, "start", (e.between[0] || e.b).u);
    enter(edge.j, e.into, edge, "end", (e.between[e.between.length - 1] || e.a).u);
  }
  for (const list of sides.values()) {
    list.sort((x, y) => x.from - y.from);
    const step = Math.min(13, (flow.spread - 14) / list.length);
    list.forEach((port, k) => { port.edge[port.key] = (k - (list.length - 1) / 2) * step; });
  }
}

function path(edge, stroke, flow) {
  const e = edge.ends, head = edge.d ? 6 + 1.5 * stroke : 0, w = 0.42 * head + 1;
  const from = { u: e.a.u + edge.start, v: e.a.v + e.out * flow.thick / 2 };
  const to = { u: e.b.u + edge.end, v: e.b.v + e.into * (flow.thick / 2 + 1) };
  const stop = { u: to.u, v: to.v + e.into * head };
  const curve = (a, b, c) => `C${flow.text(a.u, a.v)} ${flow.text(b.u, b.v)} ${flow.text(c.u, c.v)}`;
  let d = `M${flow.text(from.u, from.v)}`, last = from;
  if (e.level) {
    const sag = Math.min(60, 22 + 0.16 * Math.abs(to.u - from.u));
    d += curve({ u: from.u, v: from.v + sag }, { u: stop.u, v: stop.v + sag }, stop);
  } else {
    // Past the variables of a layer an edge runs straight, so that it touches none.
    const bend = (point) => {
      const half = (last.v + point.v) / 2;
      d += curve({ u: last.u, v: half }, { u: point.u, v: half }, point);
      last = point;
    };
    for (const { u, v } of e.between) {
      bend({ u, v: v - e.out * flow.thick / 2 });
      last = { u, v: v + e.out * flow.thick / 2 };
      d += `L${flow.text(last.u, last.v)}`;
    }
    bend(stop);
  }
  const base = stop.v + e.into;
  const tip = [flow.text(to.u, to.v), flow.text(to.u - w, base), flow.text(to.u + w, base)];
  return { d, head: head && tip.join(" ") };
}

function drawEdge(edge, names, aside, flow) {
  const stroke = 1 + 3.6 * edge.s * edge.s;
  const shape = path(edge, stroke, flow);
  const open = edge.d === DECIDED ? "" : " open";
  const group = make("g", { class: "link" + (aside ? " aside" : ""), "data-i": edge.i, "data-j": edge.j });
  const line = { class: `edge ${heat(edge.s)}${open}`, d: shape.d, "stroke-width": stroke.toFixed(2) };
  if (open) line["stroke-dasharray"] = "7 5";
  group.append(make("path", line));
  if (shape.head) {
    const hollow = edge.d === FAVOURED ? " open hollow" : "";
    group.append(make("polygon", { class: `head ${heat(edge.s)}${hollow}`, points: shape.head }));
  }
  const touch = make("path", { class: "touch", d: shape.d });
  touch.append(make("title", {}, edgeTitle(edge, names)));
  group.append(touch);
  return group;
}

function drawNode(k, at, label, name, width) {
  const node = make("g", { class: "node", role: "button", tabindex: "-1", "data-node": k, transform: `translate(${at.x} ${at.y})` });
  node.append(make("rect", { x: -width / 2, y: -HEIGHT / 2, width, height: HEIGHT, rx: 9 }));
  node.append(make("text", {}, label));
  node.append(make("title", {}, name));
  return node;
}
