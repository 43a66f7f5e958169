// Tables that sort, filter and open page by page; the matrix by keyboard.

function plural(count, one, many) {
  return `${count} ${count === 1 ? one : many}`;
}

class List {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.limit = Number(table.dataset.page);
    this.keep = () => true;
    this.after = () => {};
    [...table.tHead.rows[0].cells].forEach((head, k) => this.sortable(head, k));
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.className = "more";
    this.button.addEventListener("click", () => { this.limit = Infinity; this.show(); });
    table.closest(".scroll").after(this.button);
  }

  sortable(head, column) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const number = head.classList.contains("number");
      const was = head.getAttribute("aria-sort");
      const down = was ? was === "ascending" : number;
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      this.sort(column, number, down ? -1 : 1);
    });
  }

  sort(column, number, sign) {
    const key = (row) => {
      const cell = row.cells[column];
      return number ? Number(cell.dataset.v) : cell.textContent;
    };
    const compare = number ? (a, b) => a - b : (a, b) => a.localeCompare(b, undefined, { numeric: true });
    this.rows.sort((a, b) => sign * compare(key(a), key(b)));
    this.body.append(...this.rows);
    this.show();
  }

  show() {
    const kept = this.rows.filter(this.keep);
    const visible = new Set(kept.slice(0, this.limit));
    for (const row of this.rows) row.hidden = !visible.has(row);
    this.button.hidden = kept.length <= this.limit;
    this.button.textContent = `Show all ${kept.length}`;
    this.after(kept.length);
  }
}

function startLists() {
  const lists = new Map();
  for (const table of document.querySelectorAll("table.sortable")) {
    const list = new List(table);
    lists.set(table.id, list);
    list.show();
  }
  const pairs = lists.get("pair-table");
  const text = document.getElementById("pair-text"), status = document.getElementById("pair-status");
  const count = document.getElementById("pair-count");
  pairs.after = (kept) => { count.textContent = plural(kept, "pair", "pairs"); };
  pairs.keep = (row) =>
    (!status.value || row.dataset.status === status.value) &&
    row.cells[0].textContent.toLowerCase().includes(text.value.toLowerCase());
  text.addEventListener("input", () => pairs.show());
  status.addEventListener("change", () => pairs.show());
  pairs.show();
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function startMatrix(names, probability) {
  const table = document.querySelector(".matrix"), readout = document.getElementById("readout");
  if (!table) return;
  const rows = [...table.tBodies[0].rows], heads = table.tHead.rows[0].cells;
  let lit = [];
  const showCell = (cell) => {
    for (const head of lit) head.classList.remove("lit");
    lit = [cell.parentNode.cells[0], heads[cell.cellIndex]];
    for (const head of lit) head.classList.add("lit");
    if (cell.dataset.i === undefined) { readout.textContent = "A variable does not cause itself."; return; }
    const i = Number(cell.dataset.i), j = Number(cell.dataset.j);
    const p = probability(i, j), q = probability(j, i);
    readout.textContent = `${names[i]} → ${names[j]}: ${shown(p)} · other way: ${shown(q)} · connected: ${shown(Math.min(1, p + q))}`;
  };
  const enter = (cell) => {
    const before = table.querySelector('td[tabindex="0"]');
    if (before) before.tabIndex = -1;
    cell.tabIndex = 0;
  };
  rows[0].cells[1].tabIndex = 0;
  table.addEventListener("mouseover", (event) => { if (event.target.tagName === "TD") showCell(event.target); });
  table.addEventListener("focusin", (event) => {
    if (event.target.tagName === "TD") { enter(event.target); showCell(event.target); }
  });
  table.addEventListener("click", (event) => {
    if (event.target.tagName === "TD") { event.target.tabIndex = -1; event.target.focus(); }
  });
  table.addEventListener("keydown", (event) => {
    const step = STEPS[event.key], cell = event.target;
    if (!step || cell.tagName !== "TD") return;
    event.preventDefault();
    const row = rows[rows.indexOf(cell.parentNode) + step[0]];
    const next = row && row.cells[cell.cellIndex + step[1]];
    if (next && next.tagName === "TD") { next.tabIndex = 0; next.focus(); }
  });
}
