// One variable and its neighbours: causes above, effects below, the undecided beside it.

function around(centre, edges, across, cell) {
  const above = [], below = [], beside = [];
  for (const edge of edges) {
    if (edge.i !== centre && edge.j !== centre) continue;
    const other = edge.i === centre ? edge.j : edge.i;
    if (!edge.d) beside.push(other);
    else (edge.j === centre ? above : below).push(other);
  }
  const at = { [centre]: { x: 0, y: 0 } };
  const rows = (nodes, sign) => {
    for (let start = 0; start < nodes.length; start += across) {
      const row = nodes.slice(start, start + across), level = start / across;
      const shift = nodes.length > across && level % 2 ? cell / 2 : 0;
      row.forEach((node, k) => {
        at[node] = { x: (k - (row.length - 1) / 2) * cell + shift, y: sign * NEAR * (1.15 + 0.8 * level) };
      });
    }
  };
  rows(above, -1);
  rows(below, 1);
  beside.forEach((node, k) => {
    const side = k % 2 ? -1 : 1, place = Math.floor(k / 2);
    at[node] = { x: side * (place + 1) * cell, y: (place % 2 ? 0.36 : 0.22) * NEAR };
  });
  return { at, above, below, beside };
}

// The nearest variable in the direction of an arrow key.
function nearest(from, at, dx, dy) {
  let best = null, least = Infinity;
  for (const [node, place] of Object.entries(at)) {
    const x = place.x - at[from].x, y = place.y - at[from].y;
    const along = x * dx + y * dy, off = Math.abs(x * dy) + Math.abs(y * dx);
    if (along < 4) continue;
    const cost = along + 2.2 * off;
    if (cost < least) [best, least] = [Number(node), cost];
  }
  return best;
}

// Pan and zoom by changing the viewBox.
class Lens {
  constructor(svg) {
    this.svg = svg;
    this.moved = false;
    this.pointers = new Map();
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.press(event));
    svg.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) {
      svg.addEventListener(end, (event) => this.release(event));
    }
  }

  fit(box) {
    this.home = box;
    this.box = { ...box };
    this.show();
  }

  show() {
    const { x, y, w, h } = this.box;
    this.svg.setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
  }

  zoom(factor, at = null) {
    const { box, home } = this;
    const w = Math.min(home.w * 1.5, Math.max(120, box.w * factor)), scale = w / box.w;
    const centre = at || { x: box.x + box.w / 2, y: box.y + box.h / 2 };
    box.x = centre.x - (centre.x - box.x) * scale;
    box.y = centre.y - (centre.y - box.y) * scale;
    box.w = w;
    box.h *= scale;
    this.show();
  }

  // Pixels of the screen to units of the drawing.
  point(event) {
    const matrix = this.svg.getScreenCTM().inverse();
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(Math.exp(0.0016 * event.deltaY), this.point(event));
  }

  press(event) {
    this.pointers.set(event.pointerId, event);
    this.moved = false;
  }

  drag(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    if (this.pointers.size === 2) this.pinch(event);
    const from = this.point(last), to = this.point(event);
    if (Math.hypot(event.clientX - last.clientX, event.clientY - last.clientY) < (this.moved ? 0 : 5)) return;
    this.moved = true;
    this.svg.classList.add("dragged");
    this.pointers.set(event.pointerId, event);
    this.box.x -= to.x - from.x;
    this.box.y -= to.y - from.y;
    this.show();
  }

  pinch(event) {
    const [other] = [...this.pointers.values()].filter((p) => p.pointerId !== event.pointerId);
    const before = this.pointers.get(event.pointerId);
    const apart = (p) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY) || 1;
    this.zoom(apart(before) / apart(event), this.point(other));
    this.pointers.set(event.pointerId, event);
  }

  release(event) {
    this.pointers.delete(event.pointerId);
    this.svg.classList.remove("dragged");
  }
}
