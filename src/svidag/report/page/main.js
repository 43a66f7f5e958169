// Holds the state of the page and redraws when it changes.

class Graph {
  constructor(data) {
    this.names = data.names;
    this.places = data.places;
    this.size = data.size;
    this.pairs = data.pairs.map(drawn);
    this.views = data.views;
    const { cut, width } = labels(data.names);
    this.labels = cut;
    this.width = width;
    this.cell = width + GAP;
    this.svg = document.getElementById("drawing");
    this.lens = new Lens(this.svg);
    this.input = Object.fromEntries(["threshold", "focus", "view"].map((id) => [id, document.getElementById(id)]));
    this.options();
    this.listen();
    this.draw();
  }

  options() {
    this.names.forEach((name, k) => this.input.focus.append(new Option(this.labels[k], String(k))));
    this.views.forEach((view, k) => this.input.view.append(new Option(view.title, String(k))));
  }

  get focus() { return this.input.focus.value === "" ? null : Number(this.input.focus.value); }

  get view() { return this.input.view.value === "" ? null : this.views[Number(this.input.view.value)]; }

  listen() {
    for (const input of Object.values(this.input)) input.addEventListener("input", () => this.draw());
    const button = (id, act) => document.getElementById(id).addEventListener("click", act);
    button("zoom-in", () => this.lens.zoom(0.75));
    button("zoom-out", () => this.lens.zoom(1 / 0.75));
    button("zoom-fit", () => this.lens.fit(this.frame()));
    button("all", () => this.choose(this.focus));
    this.svg.addEventListener("click", (event) => {
      const node = event.target.closest(".node");
      if (node && !this.lens.moved) this.choose(Number(node.dataset.node));
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["mouseover", "mouseout", "focusin", "focusout"]) {
      this.svg.addEventListener(kind, (event) => this.hover(event));
    }
    for (const draw of document.querySelectorAll("button.draw")) {
      draw.addEventListener("click", () => {
        this.input.view.value = String(this.views.findIndex((view) => view.label === draw.dataset.view));
        this.input.focus.value = "";
        this.draw();
        document.getElementById("graph").scrollIntoView();
        this.input.view.focus({ preventScroll: true });
      });
    }
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  // Called when a variable is chosen; the table of effects sets it.
  chosen() {}

  choose(node) {
    this.input.focus.value = node === this.focus ? "" : String(node);
    this.draw();
    this.nodes.get(node).focus({ preventScroll: true });
  }

  key(event) {
    const at = event.target.closest(".node");
    const steps = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const acts = {
      "+": () => this.lens.zoom(0.75), "=": () => this.lens.zoom(0.75), "-": () => this.lens.zoom(1 / 0.75),
      0: () => this.lens.fit(this.frame()),
      Escape: () => { if (this.focus !== null) this.choose(this.focus); },
      Enter: () => { if (at) this.choose(Number(at.dataset.node)); },
      " ": () => { if (at) this.choose(Number(at.dataset.node)); },
    };
    const step = steps[event.key];
    if (step && at) {
      const next = nearest(Number(at.dataset.node), this.at, step[0], step[1]);
      if (next !== null) this.enter(next);
    } else if (acts[event.key] && !event.ctrlKey && !event.metaKey) acts[event.key]();
    else return;
    event.preventDefault();
  }

  enter(node) {
    for (const other of this.nodes.values()) other.setAttribute("tabindex", "-1");
    this.nodes.get(node).setAttribute("tabindex", "0");
    this.nodes.get(node).focus({ preventScroll: true });
  }

  // A variable under the pointer or the keyboard keeps its edges; the others fade.
  hover(event) {
    const node = event.type.endsWith("over") || event.type === "focusin" ? event.target.closest(".node") : null;
    const key = node && node.dataset.node;
    for (const link of this.svg.querySelectorAll(".link")) {
      link.classList.toggle("dim", key !== null && link.dataset.i !== key && link.dataset.j !== key);
    }
  }

  edges() {
    if (this.view) return viewEdges(this.view).map((edge) => ({ ...edge, view: true, route: this.routeOf(edge) }));
    const threshold = Number(this.input.threshold.value);
    return this.pairs.filter((pair) => pair.s >= threshold).map((pair) => ({ ...pair }));
  }

  routeOf(edge) {
    for (const pair of this.pairs) {
      if (pair.i === edge.i && pair.j === edge.j) return pair.route;
      if (pair.i === edge.j && pair.j === edge.i) return pair.route && [...pair.route].reverse();
    }
    return null;
  }

  // Layers run down, or to the right where that leaves the text larger, and fill the frame.
  placing() {
    const [columns, rows] = this.size, { clientWidth: wide, clientHeight: high } = this.svg;
    const down = Math.min(wide / (columns * this.cell), high / (rows * NEAR));
    const step = this.width + BESIDE;
    const right = Math.min(wide / (rows * step), high / (columns * BESIDE));
    this.flow = new Flow(right > 1.1 * down, this.width);
    const within = (low, value, high) => Math.max(low, Math.min(high, value));
    if (this.flow.sideways) {
      const layer = within(step, (columns * BESIDE * wide) / high / rows, this.width + APART);
      const beside = within(BESIDE, (rows * layer * high) / wide / columns, LOOSE);
      return ([x, y]) => ({ x: y * layer, y: x * beside });
    }
    const layer = within(NEAR, (columns * this.cell * high) / wide / rows, FAR);
    const beside = within(this.cell, (rows * layer * wide) / high / columns, 1.6 * this.cell);
    return ([x, y]) => ({ x: x * beside, y: y * layer });
  }

  arrangement(edges) {
    if (this.focus !== null) {
      this.flow = new Flow(false, this.width);
      const across = Math.max(3, Math.floor(this.svg.clientWidth / this.cell) - 1);
      return around(this.focus, edges, across, this.cell).at;
    }
    const place = this.placing();
    const at = Object.fromEntries(this.places.map((p, k) => [k, place(p)]));
    Object.defineProperty(at, "routed", { value: place });
    return at;
  }

  draw() {
    const edges = this.edges(), focus = this.focus;
    if (focus !== null) this.chosen(focus);
    this.at = this.arrangement(edges);
    const visible = edges.filter((edge) => this.at[edge.i] && this.at[edge.j]).sort((a, b) => a.s - b.s);
    for (const edge of visible) edge.ends = ends(edge, this.at, this.flow);
    const own = (edge) => focus === null || edge.i === focus || edge.j === focus;
    ports(visible.filter(own), this.flow);
    ports(visible.filter((edge) => !own(edge)), this.flow);
    const touched = new Set(visible.flatMap((edge) => [edge.i, edge.j]));
    this.nodes = new Map(Object.entries(this.at).map(([key, at]) => {
      const k = Number(key), node = drawNode(k, at, this.labels[k], this.names[k], this.width);
      if (!touched.has(k)) node.classList.add("alone");
      if (k === focus) node.classList.add("chosen");
      node.setAttribute("aria-pressed", String(k === focus));
      node.setAttribute("aria-label", this.described(k, visible));
      return [k, node];
    }));
    this.svg.replaceChildren(...visible.map((edge) => drawEdge(edge, this.names, !own(edge), this.flow)), ...this.nodes.values());
    this.nodes.get(focus === null ? this.first() : focus).setAttribute("tabindex", "0");
    this.visible = visible;
    this.lens.fit(this.frame());
    this.showCounts(edges);
  }

  first() {
    const order = this.places.map(([x, y], k) => [y, x, k]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return order[0][2];
  }

  described(node, edges) {
    const causes = edges.filter((e) => e.d && e.j === node).length;
    const effects = edges.filter((e) => e.d && e.i === node).length;
    const links = edges.filter((e) => !e.d && (e.i === node || e.j === node)).length;
    return `${this.names[node]}: ${plural(causes, "cause", "causes")}, ${plural(effects, "effect", "effects")}, ${plural(links, "link", "links")} without direction shown`;
  }

  frame() {
    const points = [...Object.values(this.at), ...this.visible.flatMap((edge) => (this.at.routed && edge.route ? edge.route.map(this.at.routed) : []))];
    const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
    const side = this.width / 2 + 22, top = HEIGHT / 2 + 34;
    const x = Math.min(...xs) - side, y = Math.min(...ys) - top;
    const w = Math.max(...xs) + side - x, h = Math.max(...ys) + top - y;
    // Few variables are not blown up beyond one and a half of their size.
    const most = 1.5, wide = this.svg.clientWidth / most, high = this.svg.clientHeight / most;
    const W = Math.max(w, wide), H = Math.max(h, high);
    return { x: x - (W - w) / 2, y: y - (H - h) / 2, w: W, h: H };
  }

  showCounts(edges) {
    const count = (d) => edges.filter((edge) => edge.d === d).length;
    document.getElementById("threshold-value").textContent = Number(this.input.threshold.value).toFixed(2);
    this.input.threshold.disabled = this.view !== null;
    const parts = this.view
      ? [plural(edges.length - count(0), "arrow", "arrows"), plural(count(0), "link without direction", "links without direction")]
      : [`${count(DECIDED)} with a decided direction`, `${count(FAVOURED)} with a favoured one`, `${count(0)} with an open one`];
    document.getElementById("count").textContent = `${plural(edges.length, "connection", "connections")} shown: ${parts.join(", ")}.`;
    document.getElementById("all").hidden = this.focus === null;
    this.neighbours(edges);
  }

  // The same in words, for the chosen variable.
  neighbours(edges) {
    const box = document.getElementById("neighbours"), focus = this.focus;
    box.hidden = focus === null;
    box.replaceChildren();
    if (focus === null) return;
    const groups = [
      [`Causes of ${this.names[focus]}`, edges.filter((e) => e.d && e.j === focus)],
      [`Effects of ${this.names[focus]}`, edges.filter((e) => e.d && e.i === focus)],
      ["Connected, direction open", edges.filter((e) => !e.d && (e.i === focus || e.j === focus))],
    ];
    for (const [title, found] of groups) {
      const part = document.createElement("div"), head = document.createElement("h3"), list = document.createElement("ul");
      head.textContent = title;
      for (const edge of found.sort((a, b) => b.s - a.s)) list.append(this.neighbour(edge, focus));
      if (!found.length) list.append(Object.assign(document.createElement("li"), { textContent: "none shown", className: "muted" }));
      part.append(head, list);
      box.append(part);
    }
  }

  neighbour(edge, focus) {
    const other = edge.i === focus ? edge.j : edge.i;
    const item = document.createElement("li"), button = document.createElement("button"), p = document.createElement("span");
    button.type = "button";
    button.textContent = button.title = this.names[other];
    button.addEventListener("click", () => { this.choose(other); });
    p.textContent = edge.view ? "" : shown(edge.s);
    item.append(button, p);
    return item;
  }
}

function start() {
  const data = JSON.parse(document.getElementById("drawing-data").textContent);
  const edges = new Map();
  for (const pair of data.pairs) {
    edges.set(`${pair.i} ${pair.j}`, pair.p);
    edges.set(`${pair.j} ${pair.i}`, pair.q);
  }
  startLists();
  startMatrix(data.names, (i, j) => edges.get(`${i} ${j}`) || 0);
  const graph = new Graph(data);
  if (data.effects) {
    const table = new EffectTable(data.names, data.effects);
    graph.chosen = (node) => table.choose(node);
  }
}

start();
