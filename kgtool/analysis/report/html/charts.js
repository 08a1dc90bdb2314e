// The charts: uPlot draws, and behind each is the same as a table.
const charts = [];

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toFixed(1) + "G";
  if (size >= 1e6) return +(value / 1e6).toFixed(1) + "M";
  if (size >= 1e4) return +(value / 1e3).toFixed(1) + "k";
  return number.format(value);
}

function ticks(self, splits) {
  return splits.map((value) => (Number.isInteger(value) ? short(value) : ""));
}

function axes(options) {
  const base = { stroke: color("soft"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, font: "12px system-ui, sans-serif" };
  const all = [{ ...base, values: DATES, ...(options.x || {}) }, { ...base, scale: "y", size: 58, values: ticks }];
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

const legend = (self, v) => (v === null || v === undefined ? "" : number.format(v));
const BARS = uPlot.paths.bars({ size: [0.9, Infinity, 1], align: 1 });
const DAY_BARS = uPlot.paths.bars({ size: [0.7, 40], align: 0 });

// Draw into a card; values are columns, the first one x. The table behind has the series' `raw`
// columns where what is drawn is not what is meant (on top of each other).
function chart(card, values, series, options) {
  const host = card.querySelector(options.host || ".chart");
  const title = card.querySelector("h2").textContent + (options.title ? ": " + options.title : "");
  const draw = function () {
    if (draw.plot) draw.plot.destroy();
    const scales = { x: { time: options.time !== false, range: options.xRange }, y: { range } };
    draw.plot = new uPlot({
      width: Math.max(host.clientWidth, 200), height: options.height || 260, scales, axes: axes(options),
      tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
      cursor: { points: { size: 6 }, drag: { x: true, y: false } },
      legend: { live: true },
      series: [options.xSeries].concat(series.map((each, at) => ({
        label: each.label, scale: each.scale || "y",
        stroke: color("c" + (each.color === undefined ? at % 8 : each.color)), width: each.paths === BARS || each.paths === DAY_BARS ? 0 : 2, // a border would widen a bar
        dash: each.dash, points: { show: each.points || values[0].length === 1 },
        fill: each.fill ? color("c" + (each.color === undefined ? at % 8 : each.color)) + each.fill : undefined,
        paths: each.paths, value: each.raw ? (self, v, of, row) => legend(self, row === null ? null : each.raw[row]) : legend,
      }))),
    }, values, host);
    const canvas = draw.plot.root.querySelector(".u-wrap");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", title + ": a chart; the same as a table is below.");
  };
  charts.push(draw);
  draw();
  const columns = [{ label: options.xSeries.label, kind: "text" }, ...series.map((each) => ({ label: each.label, kind: "int" }))];
  const shown = series.map((each, at) => each.raw || values[at + 1]);
  behind(host, title, columns, () => values[0].map((x, row) => [options.xSeries.value(null, x), ...shown.map((each) => each[row])]));
}

const TIME = { label: "UTC", value: (self, v) => (v === null || v === undefined ? "" : moment(v * 1000).slice(0, 16)) };
const DAY = { label: "Day", value: (self, v) => (v === null || v === undefined ? "" : moment(v * 1000).slice(0, 10)) };

function growth() {
  const [at, offsets, groups] = data.growth;
  if (at.length < 2) return;
  const card = section("growth"), paths = uPlot.paths.stepped({ align: -1 });
  chart(card, [at, offsets], [{ label: "Offsets", fill: "26", paths }], { xSeries: TIME, height: 180, title: "offsets" });
  chart(card, [at, groups], [{ label: "Groups", color: 1, fill: "26", paths }], { xSeries: TIME, height: 180, host: ".second", title: "groups" });
}

function days() {
  if (!data.days.some((row) => row.offsets)) return;
  const card = section("days");
  const at = data.days.map((row) => row.day);
  const values = [at, data.days.map((row) => row.offsets), data.days.map((row) => row.groups)];
  chart(card, values, [
    { label: "Offsets", fill: "80", paths: DAY_BARS },
    { label: "Groups", paths: uPlot.paths.linear(), dash: [4, 4] },
  ], {
    time: false, xRange: () => [0.4, at[at.length - 1] + 0.6],
    x: { incrs: [1, 2, 5, 7, 10, 14, 30], values: (self, splits) => splits.map((v) => (Number.isInteger(v) && v > 0 ? "+" + v + "d" : "")) },
    xSeries: { label: "Day", value: (self, v) => (v === null || v === undefined ? "–" : "until " + moment(data.as_of_ms + v * 86400000).slice(0, 16)) },
  });
}

function families() {
  if (!data.families.length) return;
  const card = section("families");
  const host = card.querySelector(".bars");
  const top = Math.max(1, ...data.families.map((row) => row.live_offsets));
  for (const row of data.families) {
    const name = make("a", "name", visible(row.family));
    name.title = name.textContent;
    name.href = linkTo("groups", { family: row.family });
    const track = make("span", "track");
    const fill = make("div", "fill");
    fill.style.width = (100 * row.live_offsets) / top + "%";
    if (row.live_offsets) track.append(fill);
    const of = row.groups > 1 ? " in " + number.format(row.groups) + " groups" : "";
    host.append(name, track, make("span", "value", number.format(row.live_offsets) + of));
  }
  const columns = [{ name: "family", label: "Family", kind: "name" }, ...["groups", "live_groups", "live_offsets", "commits"].map((each) => ({ name: each, label: each.replace("_", " "), kind: "int" })), { name: "bytes", label: "bytes", kind: "bytes" }, { name: "last_seen_ms", label: "last seen", kind: "moment" }];
  behind(host, card.querySelector("h2").textContent, columns, () => data.families.map((row) => columns.map((column) => row[column.name])));
}

function whatif() {
  if (!data.whatif.length) return;
  const card = section("whatif");
  const at = [...new Set(data.whatif.flatMap((row) => row.days.map((day) => day.day_ms)))].sort((a, b) => a - b);
  const series = data.whatif.map((row) => {
    const known = new Map(row.days.map((day) => [day.day_ms, day.live_offsets]));
    let last = 0;
    return at.map((day) => (last = known.has(day) ? known.get(day) : last));
  });
  card.querySelector(".small").append(grid(data.scenario_columns, data.whatif.map((row) => row.cells), "Scenarios"));
  const named = data.whatif.map((row) => ({ label: row.name, dash: row.is_basis ? undefined : [6, 3] }));
  if (at.length > 1) {
    chart(card, [at.map((day) => day / 1000), ...series], named, { xSeries: DAY, height: 280 });
  } else {
    card.querySelector(".chart").remove();
  }
}

// Round spans from 0 to so many days, in days.
function roundSpans(days) {
  const counts = (unit) => (unit === "d" ? [1, 2, 5, 7, 14, 30, 90, 365] : [1, 2, 5, 10, 15, 30]);
  const steps = UNITS.slice().reverse().flatMap(([unit, ms]) => counts(unit).map((count) => (count * ms) / 86400000));
  const step = steps.find((each) => days / each <= 10) || days / 8;
  return Array.from({ length: Math.floor(days / step) + 1 }, (_, at) => at * step);
}

// What each retention removes, and what of that was missed: a line for each rules and interval,
// a chart for each, as their sizes differ.
function loss() {
  const names = data.scenario_columns.map((column) => column.name);
  const of = (row, name) => row.cells[names.indexOf(name)];
  const kinds = new Map();
  for (const row of data.whatif) {
    const kind = of(row, "rules") + ", every " + span(of(row, "check_interval_ms"));
    if (!kinds.has(kind)) kinds.set(kind, new Map());
    kinds.get(kind).set(of(row, "retention_ms"), row);
  }
  const at = [...new Set(data.whatif.map((row) => of(row, "retention_ms")))].sort((a, b) => a - b);
  if (!at.length) return;
  if (at.length < 2) return; // one retention makes no curve
  const card = section("loss");
  const days = at.map((ms) => ms / 86400000);
  for (const [name, label, host] of [["missed_offsets", "Committed again later", ".chart"], ["removed_offsets", "Removed", ".second"]]) {
    const series = [], values = [];
    for (const [kind, rows] of kinds) {
      series.push({ label: label + (kinds.size > 1 ? " (" + kind + ")" : ""), points: true });
      values.push(at.map((retention) => (rows.has(retention) ? of(rows.get(retention), name) : null)));
    }
    chart(card, [days, ...values], series, { ...lossOptions(days), host, title: label.toLowerCase() });
  }
}

function lossOptions(days) {
  return {
    time: false, xSeries: { label: "Retention", value: (self, v) => (v === null || v === undefined ? "" : span(Math.round(v * 86400000))) },
    x: { splits: (self, axis, min, max) => roundSpans(max), values: (self, splits) => splits.map((v) => (v ? span(Math.round(v * 86400000)) : "0")) },
    xRange: () => [0, days[days.length - 1] * 1.04], height: 180,
  };
}

function metrics() {
  const [at, ...counts] = data.metrics;
  if (!at.length) return;
  const step = data.bucket_ms / 1000;
  const room = at.length < 12 ? (12 - at.length) / 2 : 0; // few bars are no walls
  const first = at[0], last = at[at.length - 1];
  const all = [first - room * step, last + (1 + room) * step];
  const isAll = (min, max) => at.length === 1 || min === null || (min === first && max === last);
  const options = { xSeries: TIME, xRange: (self, min, max) => (isAll(min, max) ? all : [min, max]) };
  chart(section("commits"), [at, counts[0]], [{ label: "Offset commits", fill: "80", paths: BARS }], options);
  const labels = ["Expirations", "Deletions", "Rebalances"], colors = [1, 6, 2];
  // The tallest is drawn first, so that what is on top of each other is all seen.
  const sums = counts.slice(1).map((_, which) => at.map((_, row) => counts.slice(1, which + 2).reduce((sum, each) => sum + each[row], 0)));
  const series = labels.map((label, which) => ({ label, color: colors[which], fill: "ff", paths: BARS, raw: counts[which + 1] }));
  chart(section("events"), [at, ...sums.reverse()], series.reverse(), options);
}
