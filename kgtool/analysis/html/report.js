"use strict";
// Draws the report from the JSON in #data. Names in it are nobody's friend: text goes into the
// page as text (textContent), never as HTML.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const PAGE_ROWS = 100;
  const PRINTED_ROWS = 60;
  const charts = [];

  // --- words -----------------------------------------------------------------------------------

  const number = new Intl.NumberFormat("en-US");
  const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]];

  function span(ms) {
    if (ms < 0) return "-" + span(-ms);
    if (ms < 1000) return ms + "ms";
    const parts = [];
    for (const [unit, size] of UNITS) {
      const count = Math.floor(ms / size);
      ms -= count * size;
      if (count) parts.push(count + unit);
      else if (parts.length) break;
    }
    return parts.slice(0, 2).join(" ");
  }

  function moment(ms) {
    const date = new Date(ms);
    if (isNaN(date)) return String(ms);
    return date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "Z");
  }

  function bytes(count) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (count < 1000) return unit === "B" ? count + " B" : count.toFixed(1) + " " + unit;
      count /= 1000;
    }
    return count.toFixed(1) + " TB";
  }

  const SHOWN = { int: (v) => number.format(v), moment, span, bytes, bool: (v) => (v ? "yes" : "no") };

  // What can't be seen, or turns the text around it, is spelled out.
  const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;

  function visible(text) {
    return String(text).replace(UNSEEN, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
  }

  function cellText(kind, value) {
    if (value === null || value === undefined) return "–";
    return SHOWN[kind] ? SHOWN[kind](value) : visible(value);
  }

  // --- page ------------------------------------------------------------------------------------

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function section(id) {
    const element = document.getElementById(id);
    element.hidden = false;
    return element;
  }

  function color(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function isDark() {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  // --- charts ----------------------------------------------------------------------------------

  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e9) return +(value / 1e9).toFixed(1) + "G";
    if (size >= 1e6) return +(value / 1e6).toFixed(1) + "M";
    if (size >= 1e4) return +(value / 1e3).toFixed(1) + "k";
    return number.format(value);
  }

  function whole(self, splits) {
    return splits.map((value) => (Number.isInteger(value) ? short(value) : ""));
  }

  function axes(options) {
    const base = { stroke: color("soft"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, font: "12px system-ui, sans-serif" };
    const all = [{ ...base, values: DATES, ...(options.x || {}) }, { ...base, scale: "y", size: 58, values: whole }];
    if (options.right) all.push({ ...base, scale: "right", side: 1, size: 58, values: whole, grid: { show: false } });
    return all;
  }

  // Dates as everywhere else on the page; per distance of ticks: text, and what a new year, day or
  // the first tick adds below.
  const YEAR = "\n{YYYY}", DATE = "\n{YYYY}-{MM}-{DD}";
  const DATES = [
    [86400 * 365, "{YYYY}", null, null, null, null, null, null, 1],
    [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
    [86400, "{MM}-{DD}", YEAR, null, null, null, null, null, 1],
    [60, "{HH}:{mm}", DATE, null, DATE, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", DATE, null, DATE, null, null, null, 1],
    [0.001, "{HH}:{mm}:{ss}.{fff}", DATE, null, DATE, null, null, null, 1],
  ];

  function range(self, min, max) {
    return [0, max > 0 ? max * 1.06 : 1];
  }

  function chart(host, values, series, options) {
    const draw = function () {
      if (draw.plot) draw.plot.destroy();
      const width = Math.max(host.clientWidth, 200);
      const scales = { x: { time: options.time !== false, range: options.xRange }, y: { range } };
      if (options.right) scales.right = { range };
      draw.plot = new uPlot({
        width, height: options.height || 260, scales, axes: axes(options),
        tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
        cursor: { points: { size: 6 }, drag: { x: true, y: false } },
        legend: { live: true },
        series: [options.xSeries].concat(series.map((each, at) => ({
          label: each.label, scale: each.scale || "y",
          stroke: color("c" + (each.color === undefined ? at % 8 : each.color)), width: 2,
          dash: each.dash, points: { show: values[0].length === 1 },
          fill: each.fill ? color("c" + (each.color || at)) + "26" : undefined,
          paths: each.paths, value: (self, v) => (v === null || v === undefined ? "–" : number.format(v)),
        }))),
      }, values, host);
    };
    charts.push(draw);
    draw();
  }

  const TIME = { label: "UTC", value: (self, v) => (v === null || v === undefined ? "–" : moment(v * 1000).slice(0, 16)) };
  const DAY = { label: "Day", value: (self, v) => (v === null || v === undefined ? "–" : moment(v * 1000).slice(0, 10)) };

  function growth() {
    const [at, offsets, groups] = data.growth;
    if (at.length < 2) return;
    chart(section("growth").querySelector(".chart"), [at, offsets, groups], [
      { label: "Offsets (left)", fill: true, paths: uPlot.paths.stepped({ align: -1 }) },
      { label: "Groups (right)", scale: "right", paths: uPlot.paths.stepped({ align: -1 }) },
    ], { xSeries: TIME, right: true, height: 280 });
  }

  function days() {
    if (!data.days.length) return;
    const host = section("days").querySelector(".chart");
    if (!data.days.some((row) => row.offsets)) {
      host.replaceWith(make("p", "empty", "Nothing expires within " + (data.days.length === 1 ? "a day" : data.days.length + " days") + " as things stand."));
      return;
    }
    const at = data.days.map((row) => row.day);
    const values = [at, data.days.map((row) => row.offsets), data.days.map((row) => row.groups)];
    chart(host, values, [
      { label: "Offsets", fill: true, paths: uPlot.paths.bars({ size: [0.7, 40], align: 0 }) },
      { label: "Groups", paths: uPlot.paths.linear(), dash: [4, 4] },
    ], {
      time: false, xRange: () => [0.4, at[at.length - 1] + 0.6],
      x: { incrs: [1, 2, 5, 7, 10, 14, 30], values: (self, splits) => splits.map((v) => (Number.isInteger(v) && v > 0 ? "+" + v + "d" : "")) },
      xSeries: { label: "Day", value: (self, v) => (v === null || v === undefined ? "–" : "until " + moment(data.as_of_ms + v * 86400000).slice(0, 16)) },
    });
  }

  function families() {
    if (!data.families.length) return;
    const host = section("families").querySelector(".bars");
    const top = Math.max(1, ...data.families.map((row) => row.live_offsets));
    for (const row of data.families) {
      const name = make("span", "name", visible(row.family));
      name.title = name.textContent;
      const track = make("span", "track");
      const fill = make("div", "fill");
      fill.style.width = (100 * row.live_offsets) / top + "%";
      if (row.live_offsets) track.append(fill);
      const of = row.groups > 1 ? " in " + number.format(row.groups) + " groups" : "";
      host.append(name, track, make("span", "value", number.format(row.live_offsets) + of));
    }
  }

  function whatif() {
    if (!data.whatif.length) return;
    const host = section("whatif");
    const at = [...new Set(data.whatif.flatMap((row) => row.days.map((day) => day.day_ms)))].sort((a, b) => a - b);
    const series = data.whatif.map((row) => {
      const known = new Map(row.days.map((day) => [day.day_ms, day.live_offsets]));
      let last = 0;
      return at.map((day) => (last = known.has(day) ? known.get(day) : last));
    });
    const named = data.whatif.map((row) => ({ label: row.name, dash: row.is_basis ? undefined : [6, 3] }));
    if (at.length > 1) {
      chart(host.querySelector(".chart"), [at.map((day) => day / 1000), ...series], named, { xSeries: DAY, height: 280 });
    } else {
      host.querySelector(".chart").remove();
    }
    host.querySelector(".small").append(grid(data.scenario_columns, data.whatif.map((row) => row.cells)));
  }

  function metrics() {
    const [at, commits, expirations, deletions, rebalances] = data.metrics;
    if (!at.length) return;
    const bars = uPlot.paths.bars({ size: [0.8, 30], align: 1 });
    chart(section("commits").querySelector(".chart"), [at, commits], [{ label: "Offset commits", fill: true, paths: bars }], { xSeries: TIME });
    chart(section("events").querySelector(".chart"), [at, expirations, deletions, rebalances], [
      { label: "Expirations", color: 1 }, { label: "Deletions", color: 6 }, { label: "Rebalances", color: 2 },
    ], { xSeries: TIME });
  }

  // --- tables ----------------------------------------------------------------------------------

  const NUMERIC = new Set(["int", "span", "bytes"]);

  function grid(columns, rows, onSort, sorted) {
    const table = make("table");
    const head = table.createTHead().insertRow();
    columns.forEach((column, at) => {
      const cell = make("th", NUMERIC.has(column.kind) ? "num" : "");
      cell.scope = "col";
      if (onSort) {
        const button = make("button", "", column.label);
        button.type = "button";
        button.addEventListener("click", () => onSort(at));
        cell.append(button);
        if (sorted && sorted.at === at) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      } else {
        cell.textContent = column.label;
      }
      head.append(cell);
    });
    const body = table.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      columns.forEach((column, at) => {
        const cell = line.insertCell();
        const text = cellText(column.kind, row[at]);
        cell.textContent = text;
        if (NUMERIC.has(column.kind)) cell.className = "num";
        if (column.kind === "name") { cell.className = "name"; cell.title = text; }
      });
    }
    return table;
  }

  function compare(kind) {
    if (kind === "name" || kind === "text") {
      const order = new Intl.Collator("en", { numeric: true });
      return (a, b) => order.compare(a, b);
    }
    return (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  }

  function tables() {
    if (!data.tables.length) return;
    const host = section("tables");
    const nav = host.querySelector("nav");
    const input = host.querySelector("input");
    const more = host.querySelector(".more");
    let current = data.tables[0];
    let sorted = null;
    let found = [];
    let shown = PAGE_ROWS;

    function select(table) {
      current = table;
      sorted = null;
      input.value = "";
      for (const button of nav.children) button.setAttribute("aria-selected", String(button.dataset.name === table.name));
      search();
    }

    function search() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const columns = current.columns;
      found = !words.length ? current.rows.slice() : current.rows.filter((row) => {
        const text = columns.map((column, at) => cellText(column.kind, row[at])).join("\u0001").toLowerCase();
        return words.every((word) => text.includes(word));
      });
      if (sorted) sort();
      shown = PAGE_ROWS;
      show();
    }

    function sort() {
      const by = compare(current.columns[sorted.at].kind);
      const at = sorted.at;
      // What is not known comes last, whichever way the rest goes.
      found.sort((a, b) => {
        if (a[at] === null || b[at] === null) return (a[at] === null) - (b[at] === null);
        return sorted.down ? by(b[at], a[at]) : by(a[at], b[at]);
      });
    }

    function onSort(at) {
      const numeric = NUMERIC.has(current.columns[at].kind);
      sorted = { at, down: sorted && sorted.at === at ? !sorted.down : numeric };
      sort();
      show();
    }

    function show(limit) {
      const rows = found.slice(0, limit || shown);
      const box = host.querySelector(".scroll");
      box.replaceChildren(rows.length ? grid(current.columns, rows, onSort, sorted) : make("p", "empty", "Nothing here."));
      more.hidden = found.length <= shown;
      const cut = current.total > current.rows.length ? " (the first of " + number.format(current.total) + ", see --out)" : "";
      host.querySelector(".count").textContent =
        number.format(found.length) + (found.length === 1 ? " row" : " rows") + cut + (current.note ? " · " + current.note : "");
    }

    for (const table of data.tables) {
      const button = make("button", "", table.title + " " + number.format(table.total));
      button.type = "button";
      button.dataset.name = table.name;
      button.setAttribute("role", "tab");
      button.addEventListener("click", () => select(table));
      nav.append(button);
    }
    input.addEventListener("input", search);
    more.addEventListener("click", () => { shown += 5 * PAGE_ROWS; show(); });
    addEventListener("beforeprint", () => show(PRINTED_ROWS));
    addEventListener("afterprint", () => show());
    select(current);
  }

  // --- theme, size, print ----------------------------------------------------------------------

  function redraw() {
    for (const draw of charts) draw();
  }

  function theme() {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      label();
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { label(); redraw(); });
    label();
    // On paper everything is dark on white.
    let before;
    addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; redraw(); });
    addEventListener("afterprint", () => {
      if (before === undefined) delete root.dataset.theme;
      else root.dataset.theme = before;
      redraw();
    });
  }

  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 100); });
  for (const part of [growth, days, families, whatif, metrics, tables, theme]) part();
  root.dataset.ready = "yes";
})();
