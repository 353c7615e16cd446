// Sorting for every table, and the bag explorer. Texts from data are only ever set as text, never as markup.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  function make(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function draw(name, attributes = {}, text = null) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    return node;
  }

  const rounded = (value) => (value && Math.abs(value) < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(4))));
  const short = (value) => (value === null ? "–" : rounded(value).replaceAll("-", "−"));

  // Sorting -------------------------------------------------------------------------------------------------

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = make("button", { type: "button" }, head.textContent);
      if (head.title) button.setAttribute("aria-description", head.title);
      head.replaceChildren(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  }

  function sort(table, head, column) {
    const numeric = head.classList.contains("number");
    const now = head.getAttribute("aria-sort");
    const up = now ? now === "descending" : true;
    table.querySelectorAll("th").forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.cells[column];
      return numeric ? (cell.dataset.value === "" ? null : Number(cell.dataset.value)) : cell.textContent;
    };
    const compare = (a, b) => {
      if (a === null || b === null) return (a === null) - (b === null); // what is unknown comes last
      const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return up ? order : -order;
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort((a, b) => compare(a[0], b[0]));
    table.tBodies[0].append(...rows.map((pair) => pair[1]));
  }

  // Rows that can be picked: by a click, or with the arrow keys; one stop of the tab key for the whole table.

  function pickable(table, picked) {
    const pick = (row, focus) => {
      for (const one of table.tBodies[0].rows) {
        const mine = one === row;
        one.classList.toggle("picked", mine);
        const button = one.querySelector("button");
        button.tabIndex = mine ? 0 : -1;
        button.setAttribute("aria-pressed", mine);
        if (mine && focus) button.focus();
      }
      picked(Number(row.dataset.place));
    };
    for (const row of table.tBodies[0].rows) {
      const cell = row.cells[0];
      const button = make("button", { type: "button", "aria-pressed": "false", tabindex: "-1" }, cell.textContent);
      cell.replaceChildren(button);
      row.addEventListener("click", () => pick(row, false));
    }
    table.tBodies[0].addEventListener("keydown", (event) => {
      const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
      const here = rows.indexOf(event.target.closest("tr"));
      const to = rows[{ ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1 }[event.key]];
      if (!to) return;
      event.preventDefault();
      pick(to, true);
    });
    return pick;
  }

  // A field that keeps the rows whose first cell holds what was typed.

  function searchable(table, box, label) {
    const field = make("input", { type: "search", placeholder: label, "aria-label": label });
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    });
    box.prepend(field);
  }

  // One bag ---------------------------------------------------------------------------------------------------

  const MEANING = {
    prediction: "what the model predicts of the instance",
    contribution: "what it adds to the prediction of the bag; they sum to it",
    weight: "its share in the prediction of the bag; they sum to one",
    effect: "prediction of the bag minus prediction without it",
  };

  function ticks(low, high) {
    const rough = (high - low) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(Number((k * step).toPrecision(10)));
    return found;
  }

  function strip(name, values, names, lines, mark) {
    const shown = values.filter((value) => value !== null);
    const known = shown.concat(lines.map((one) => one.value));
    if (name !== "prediction") known.push(0);
    let [low, high] = [Math.min(...known), Math.max(...known)];
    const room = (high - low) * 0.03 || Math.abs(high) * 0.1 || 1;
    [low, high] = [low - room, high + room];
    const at = (value) => `${(2 + (96 * (value - low)) / (high - low)).toFixed(2)}%`;
    const plot = draw("svg", { class: "strip", role: "img", "aria-label": `${name} of ${values.length} instances, from ${short(Math.min(...shown))} to ${short(Math.max(...shown))}` });
    plot.append(draw("line", { x1: "0%", x2: "100%", y1: 42, y2: 42, class: "grid" }));
    for (const tick of ticks(low, high)) {
      plot.append(draw("line", { x1: at(tick), x2: at(tick), y1: 0, y2: 42, class: "grid" }));
      plot.append(draw("text", { x: at(tick), y: 57, class: "middle" }, short(tick)));
    }
    for (const one of lines) plot.append(draw("line", { x1: at(one.value), x2: at(one.value), y1: 0, y2: 42, class: one.kind }));
    values.forEach((value, i) => {
      if (value === null) return;
      const height = 21 + 14 * Math.sin(12.9898 * (i + 1)); // spread out, the same every time
      const point = draw("circle", { cx: at(value), cy: height.toFixed(1), r: 4, class: "point", "data-i": i });
      point.append(draw("title", {}, `instance ${names[i]}: ${short(value)}`));
      point.addEventListener("click", () => mark(i));
      plot.append(point);
    });
    return plot;
  }

  // The instances that mattered: those whose number is furthest from what it would be if all were alike.

  const MATTERED = 5, FEATURES = 8;

  function mattered(data, bag) {
    const c = data.columns.findIndex((name) => name !== "prediction");
    const values = bag.columns[Math.max(c, 0)].map((value) => value ?? 0);
    const alike = data.columns[c] === "contribution" ? values.reduce((sum, one) => sum + one, 0) / values.length : 0;
    const far = values.map((value, i) => [Math.abs(value - alike), i]);
    far.sort((a, b) => b[0] - a[0]);
    if (far[0][0] - far[far.length - 1][0] <= 1e-6 * Math.abs(mean(values))) return []; // all alike
    return far.slice(0, Math.min(MATTERED, Math.ceil(values.length / 3))).map((pair) => pair[1]);
  }

  const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;

  function features(data, bag, top) {
    const rows = data.features.map((name, j) => {
      const values = bag.features[j];
      const known = values.filter((value) => value !== null);
      const chosen = top.map((i) => values[i]).filter((value) => value !== null);
      if (!known.length || (top.length && !chosen.length)) return null;
      const [low, high] = [Math.min(...known), Math.max(...known)];
      const gap = high > low && chosen.length ? Math.abs(mean(chosen) - mean(known)) / (high - low) : 0;
      return { name, known, chosen, low, high, gap };
    });
    const shown = rows.filter((row) => row !== null).sort((a, b) => b.gap - a.gap).slice(0, FEATURES);
    return shown.map(({ name, known, chosen, low, high }) => {
      const at = (value) => (high > low ? 2 + (196 * (value - low)) / (high - low) : 100).toFixed(1);
      const most = chosen.length ? `; ${chosen.map(short).join(", ")} in the instances that mattered most` : "";
      const label = `${name}: from ${short(low)} to ${short(high)} in the bag${most}`;
      const plot = draw("svg", { viewBox: "0 0 200 20", preserveAspectRatio: "none", role: "img", "aria-label": label });
      plot.append(draw("path", { d: known.map((value) => `M${at(value)} 6V16`).join(""), class: "rug" }));
      plot.append(draw("path", { d: chosen.map((value) => `M${at(value)} 1V19`).join(""), class: "rug top" }));
      const line = make("div", { class: "feature" }, make("span", {}, name));
      line.append(plot, make("span", { class: "amounts" }, `${short(low)} to ${short(high)}`));
      return line;
    });
  }

  // Where the instances lie: as long a step in both directions.

  function map(data, bag, mark) {
    const [xs, ys] = data.axes.map((column) => bag.kept[column].map(Number));
    const axes = data.axes.map((column) => data.kept[column]);
    const c = data.columns.findIndex((name) => name !== "prediction");
    const values = bag.columns[Math.max(c, 0)].map((value) => value ?? 0);
    const alike = data.columns[c] === "effect" ? 0 : mean(values);
    const reach = Math.max(...values.map((value) => Math.abs(value - alike))) || 1;
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const unit = Math.max((right - left) / 300, (high - low) / 180) || 1;
    const x = (value) => (170 + (value - (left + right) / 2) / unit).toFixed(1);
    const y = (value) => (105 - (value - (low + high) / 2) / unit).toFixed(1);
    const name = data.columns[Math.max(c, 0)];
    const label = `map of ${xs.length} instances: ${axes[0]} from ${short(left)} to ${short(right)}, ${axes[1]} from ${short(low)} to ${short(high)}; a large circle is a ${name} far from the others`;
    const plot = draw("svg", { viewBox: "0 0 340 210", role: "img", "aria-label": label, class: "place-map" });
    plot.append(draw("rect", { x: 0.5, y: 0.5, width: 339, height: 209, rx: 6, class: "map-ground" }));
    values.forEach((value, i) => {
      const size = (2.5 + (6 * Math.abs(value - alike)) / reach).toFixed(1);
      const circle = draw("circle", { cx: x(xs[i]), cy: y(ys[i]), r: size, class: `point ${value > alike ? "above" : "below"}`, "data-i": i });
      circle.append(draw("title", {}, `instance ${bag.instances[i]}: ${name} ${short(value)}`));
      circle.addEventListener("click", () => mark(i));
      plot.append(circle);
    });
    return plot;
  }

  function instances(data, bag) {
    const kept = data.kept || [];
    const heads = ["instance", ...kept, ...data.columns, ...data.features];
    const table = make("table", { class: "sortable" });
    const row = make("tr");
    heads.forEach((head, k) => row.append(make("th", { scope: "col", class: k && k <= kept.length ? "" : "number" }, head)));
    table.append(make("thead", {}, row), make("tbody"));
    bag.instances.forEach((position, i) => {
      const line = make("tr", { "data-place": i });
      line.append(make("td", { class: "number", "data-value": position }, short(position)));
      for (const values of bag.kept || []) line.append(make("td", {}, values[i]));
      for (const value of [...bag.columns.map((c) => c[i]), ...bag.features.map((c) => c[i])]) {
        line.append(make("td", { class: "number", "data-value": value ?? "" }, short(value)));
      }
      table.tBodies[0].append(line);
    });
    return table;
  }

  function show(panel, data, place, row) {
    const bag = data.bags[place];
    const [id, error, target, guess, size] = [...row.cells].map((cell) => cell.textContent);
    const truth = Number(row.cells[2].dataset.value);
    const title = make("h3", {}, `Bag ${id}`);
    const facts = make("p", { class: "small" }, `${size} ${size === "1" ? "instance" : "instances"}; target ${target}, ${data.what} ${guess}, error ${error}.`);
    panel.hidden = false;
    if (!bag) {
      panel.replaceChildren(title, facts, make("p", {}, "This bag is not explained here: it is too large, or there was no time for it."));
      return;
    }
    facts.append(` The final model predicts ${short(bag.prediction)}.`);
    if (bag.instances.length < Number(size.replace(/\D/g, ""))) facts.append(` The ${bag.instances.length} instances with the largest numbers are shown.`);
    const parts = [title, facts];
    const lines = [
      { value: truth, kind: "truth", name: "target" },
      { value: Number(row.cells[3].dataset.value), kind: "before", name: data.what },
      { value: bag.prediction, kind: "guess", name: "final model" },
    ].filter((one) => one.name !== "fitted"); // that is the final model
    const table = instances(data, bag);
    let pick = null;
    const mark = (i) => {
      const line = table.querySelector(`tr[data-place="${i}"]`);
      pick(line, false);
      table.parentNode.scrollTop = line.offsetTop - table.parentNode.clientHeight / 2; // within its box, not the page
    };
    data.columns.forEach((name, c) => {
      parts.push(make("h4", {}, name, " ", make("span", {}, `– ${MEANING[name]}`)));
      parts.push(strip(name, bag.columns[c], bag.instances, name === "prediction" ? lines : [], mark));
      if (name === "prediction") {
        const keys = lines.map((one) => make("span", {}, make("span", { class: `key ${one.kind}-key` }), one.name));
        parts.push(make("p", { class: "small keys" }, ...keys));
      }
    });
    const top = mattered(data, bag);
    if (data.features.length) {
      const which = top.length ? `; tall: ${top.length === 1 ? "instance" : "instances"} ${top.map((i) => bag.instances[i]).join(", ")}, which mattered most` : "";
      parts.push(make("h4", {}, "Feature values ", make("span", {}, `– a line per instance${which}`)));
      parts.push(...features(data, bag, top));
    }
    if (data.axes.length) {
      parts.push(make("h4", {}, "Map ", make("span", {}, data.columns.includes("effect") ? "– a large circle matters more; filled: it raises the prediction, open: it lowers it" : "– a large circle matters more; filled: above the mean of the bag, open: below")));
      parts.push(map(data, bag, mark));
    }
    parts.push(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Instances of bag ${id}, a table that scrolls` }, table));
    panel.replaceChildren(...parts);
    sortable(table);
    pick = pickable(table, (i) => {
      panel.querySelectorAll(".point").forEach((point) => point.classList.toggle("on", Number(point.dataset.i) === i));
      panel.querySelectorAll(".point.on").forEach((point) => point.parentNode.append(point)); // to the front
    });
    table.tBodies[0].rows[0].querySelector("button").tabIndex = 0;
  }

  // Start -----------------------------------------------------------------------------------------------------

  document.querySelectorAll("table.sortable").forEach(sortable);
  let closed = []; // on paper nothing can be opened
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
  const holder = document.getElementById("explorer-data");
  if (holder) {
    const data = JSON.parse(holder.textContent);
    const [table, panel, status] = ["bag-table", "panel", "status"].map((id) => document.getElementById(id));
    const pick = pickable(table, (place) => {
      const row = table.querySelector(`tr[data-place="${place}"]`);
      show(panel, data, place, row);
      document.querySelectorAll("#bag-map .place").forEach((one) => one.classList.toggle("on", Number(one.dataset.place) === place));
      status.textContent = `Bag ${row.cells[0].textContent} is shown.`;
    });
    pick(table.tBodies[0].rows[0], false);
    document.querySelectorAll("#bag-map .place").forEach((one) => {
      one.addEventListener("click", () => pick(table.querySelector(`tr[data-place="${one.dataset.place}"]`), false));
    });
    if (table.tBodies[0].rows.length > 12) searchable(table, document.getElementById("bag-list"), "Find a bag");
    status.textContent = "";
  }
})();
