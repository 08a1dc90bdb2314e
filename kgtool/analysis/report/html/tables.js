// The tables: all rows are searched, sorted and downloaded, a hundred are shown at a time. What is
// shown stands in the address: #live?group=billing&q=orders&sort=-offset.
const PAGE_ROWS = 100;
const PRINTED_ROWS = 60;
const BUSY_MS = 60; // of work between two looks at the keyboard
const CUT = 300; // characters; a longer name was cut, and no command can be made of it
// What words that are numbers, moments, spans and sizes are made of.
const LETTERS = { int: /^[-\d,]+$/, moment: /^[-\d:z]+$/, span: /^[-\ddhms]+$/, bytes: /^[\d.kmgtb]+$/ };
const order = new Intl.Collator("en", { numeric: true });

function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}

// --- addresses ---------------------------------------------------------------------------------

function linkTo(name, filters, q, sort) {
  const parts = new URLSearchParams(filters);
  if (q) parts.set("q", q);
  if (sort) parts.set("sort", (sort.down ? "-" : "") + sort.name);
  return "#" + name + (parts.size ? "?" + parts : "");
}

function stateOf(hash) {
  const [name, ...rest] = hash.slice(1).split("?");
  const table = data.tables.find((each) => each.name === name);
  if (!table) return null;
  const state = { table, filters: {}, q: "", sort: null };
  for (const [key, value] of new URLSearchParams(rest.join("?"))) {
    const sort = value.replace(/^-/, "");
    if (key === "q") state.q = value;
    else if (key === "sort" && columnOf(table, sort)) state.sort = { name: sort, down: value !== sort };
    else if (columnOf(table, key)) state.filters[key] = value;
  }
  return state;
}

function columnOf(table, name) {
  return table.columns.find((column) => column.name === name);
}

// A family leads to its groups, a group to its offsets, a partition of the log to its groups.
function linkOf(table) {
  const has = (name, column) => data.tables.some((each) => each.name === name && columnOf(each, column));
  return (column, value) => {
    if (column.name === "family" && has("groups", "family")) return linkTo("groups", { family: value });
    if (column.name === "group") {
      const target = table.name === "groups" ? "live" : "groups"; // gone groups have no offsets
      return has(target, "group") ? linkTo(target, { group: value }) : null;
    }
    if (column.name === "topic" && has("live", "topic")) return linkTo("live", { topic: value });
    if (column.name !== "log_partition") return null;
    const target = table.name === "partitions" ? "groups" : "partitions";
    return has(target, "log_partition") ? linkTo(target, { log_partition: value }) : null;
  };
}

// --- rows --------------------------------------------------------------------------------------

async function inflated(text) {
  const raw = atob(text);
  const packed = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) packed[at] = raw.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Each column has cells; those of texts are numbers of its texts, -1 for none.
async function load(table) {
  for (const column of table.columns) {
    column.cells = [];
    column.texts = TEXTS.has(column.kind) ? [] : null;
    column.codes = new Map();
  }
  for (const block of document.querySelectorAll(`script[data-rows="${table.name}"]`)) {
    const parts = await inflated(block.textContent);
    parts.forEach((part, at) => append(table.columns[at], part));
    block.remove();
  }
  table.rows = table.columns[0].cells.length;
}

function append(column, part) {
  if (!column.texts) {
    for (const value of part) column.cells.push(value);
    return;
  }
  const [texts, numbers] = part;
  const codes = texts.map((text) => {
    if (!column.codes.has(text)) column.codes.set(text, column.texts.push(text) - 1);
    return column.codes.get(text);
  });
  for (const code of numbers) column.cells.push(code === null ? -1 : codes[code]);
}

function valueOf(column, row) {
  const cell = column.cells[row];
  if (!column.texts) return cell;
  return cell < 0 ? null : column.texts[cell];
}

function byText(column, test) {
  const hits = column.texts.map(test);
  return (row) => column.cells[row] >= 0 && hits[column.cells[row]];
}

// What a row must be to be shown, as a list of tests.
function testsOf({ table, filters, q }) {
  const tests = Object.entries(filters).map(([name, wanted]) => {
    const column = columnOf(table, name);
    return column.texts ? byText(column, (text) => text === wanted) : (row) => String(column.cells[row]) === wanted;
  });
  for (const word of q.toLowerCase().split(/\s+/).filter(Boolean)) tests.push(hasWord(table, word));
  return tests;
}

function hasWord(table, word) {
  const digits = /\d/.test(word);
  const plain = /^[\d,]+$/.test(word) ? word.replaceAll(",", "") : word;
  const any = [];
  for (const column of table.columns) {
    const { cells, kind } = column;
    if (column.texts) any.push(byText(column, (text) => visible(text).toLowerCase().includes(word)));
    else if (kind === "bool") any.push(...(digits ? [] : [(row) => cellText(kind, cells[row]).includes(word)]));
    else if (!digits || !LETTERS[kind].test(word)) continue; // no such value looks like that
    else if (kind === "int") any.push((row) => cells[row] !== null && String(cells[row]).includes(plain));
    else any.push((row) => cellText(kind, cells[row]).toLowerCase().includes(word));
  }
  return (row) => any.some((test) => test(row));
}

// Not known comes last, whichever way the rest goes.
function sorted(rows, column, down) {
  if (column.texts && !(column.ranks?.length === column.texts.length)) {
    column.ranks = [];
    const texts = column.texts.map((text, code) => code).sort((a, b) => order.compare(column.texts[a], column.texts[b]));
    texts.forEach((code, rank) => { column.ranks[code] = rank; });
  }
  const key = column.texts ? (cell) => (cell < 0 ? null : column.ranks[cell]) : (cell) => (cell === null ? null : Number(cell));
  const way = down ? -1 : 1;
  const known = [], unknown = [];
  for (const row of rows) {
    const value = key(column.cells[row]);
    if (value === null) unknown.push(row);
    else known.push([value, row]);
  }
  known.sort((a, b) => way * (a[0] - b[0]));
  return known.map((pair) => pair[1]).concat(unknown);
}

// --- commands and files ------------------------------------------------------------------------

// One word of a POSIX shell; what can't be seen is spelled out, so that nothing pasted acts.
function quoted(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (visible(text) === text) return "'" + text.replaceAll("'", "'\\''") + "'";
  return "$'" + visible(text.replace(/['\\]/g, "\\$&")) + "'";
}

// The first command of which all is known, or null.
function commandOf(table, row) {
  for (const words of table.commands) {
    const filled = words.map((word) => {
      const values = [...word.matchAll(/\{(\w+)\}/g)].map((found) => valueOf(columnOf(table, found[1]), row));
      if (values.some((value) => value === null || (String(value).length >= CUT && String(value).endsWith("…")))) return null;
      return values.length ? word.replace(/\{\w+\}/g, () => values.shift()) : word;
    });
    if (filled.includes(null)) continue;
    return filled.map(quoted).join(" ").replace(/ (--\w+) (?=-\w|'-)/g, " $1=");
  }
  return null;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea", "unseen", text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say("Copied: " + text);
}

function flash(target, text) {
  const before = target.textContent;
  target.textContent = text;
  setTimeout(() => { target.textContent = before; }, 1200);
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string" || /^-?\d+$/.test(value)) return String(value);
  const text = visible(value);
  const safe = /^[=+@\t\r-]/.test(value) ? "'" + text : text; // no formula in a spreadsheet
  return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
}

function csv(table, rows) {
  const parts = [table.columns.map((column) => column.name).join(",") + "\n"];
  for (let at = 0; at < rows.length; at += 10000) {
    const lines = rows.slice(at, at + 10000).map((row) => table.columns.map((column) => csvCell(valueOf(column, row))).join(","));
    parts.push(lines.join("\n") + "\n");
  }
  return new Blob(parts, { type: "text/csv" });
}

function download(blob, name) {
  const anchor = make("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60000);
}

// --- the section -------------------------------------------------------------------------------

async function tables() {
  if (!data.tables.length) return;
  const host = section("tables");
  const part = (selector) => host.querySelector(selector);
  const [tabs, panel, input, box, more, count, chips] = [".tabs", "#panel", "input", ".scroll", ".more", ".count", ".chips"].map(part);
  let state = null;
  let found = [];
  let limit = PAGE_ROWS;
  let turn = 0;

  // What is asked for goes into the address, then it is done.
  function go(next, replace) {
    const address = linkTo(next.table.name, next.filters, next.q, next.sort);
    try {
      history[replace ? "replaceState" : "pushState"](null, "", address);
    } catch {
      location.hash = address;
    }
    return apply(next);
  }

  async function apply(next) {
    state = next;
    if (input.value !== state.q) input.value = state.q;
    for (const tab of tabs.children) {
      const chosen = tab.dataset.name === state.table.name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) panel.setAttribute("aria-labelledby", tab.id);
    }
    chips.replaceChildren(...Object.entries(state.filters).map(chip));
    await search();
  }

  function chip([name, value]) {
    const text = columnOf(state.table, name).label + ": " + visible(value);
    const others = Object.fromEntries(Object.entries(state.filters).filter(([each]) => each !== name));
    const drop = button("chip", text + " ✕", () => { go({ ...state, filters: others }); input.focus(); });
    drop.setAttribute("aria-label", "Remove the filter " + text);
    drop.title = text;
    return drop;
  }

  async function search() {
    const mine = ++turn;
    panel.setAttribute("aria-busy", "true");
    const { table } = state;
    if (table.rows === undefined) {
      count.textContent = "Loading…";
      try {
        await (table.loading = table.loading || load(table));
      } catch (error) {
        count.textContent = "The rows can't be opened by this browser: " + error.message;
        return;
      }
      if (mine !== turn) return;
    }
    const tests = testsOf(state);
    const hits = [];
    let until = performance.now() + BUSY_MS;
    for (let row = 0; row < table.rows; row++) {
      if (tests.every((test) => test(row))) hits.push(row);
      if (row % 1000 === 999 && performance.now() > until) {
        count.textContent = "Searching… " + Math.floor((100 * row) / table.rows) + " %";
        await pause();
        if (mine !== turn) return;
        until = performance.now() + BUSY_MS;
      }
    }
    found = state.sort ? sorted(hits, columnOf(table, state.sort.name), state.sort.down) : hits;
    limit = PAGE_ROWS;
    show(limit);
    panel.setAttribute("aria-busy", "false");
  }

  function onSort(column) {
    const { sort } = state;
    const down = sort && sort.name === column.name ? !sort.down : NUMERIC.has(column.kind);
    const focused = [...box.querySelectorAll("th button")].indexOf(document.activeElement);
    go({ ...state, sort: { name: column.name, down } }).then(() => {
      if (focused >= 0) box.querySelectorAll("th button")[focused]?.focus();
    });
  }

  function command(line, at) {
    const text = commandOf(state.table, found[at]);
    const cell = line.insertCell();
    cell.className = "run";
    if (text === null) return;
    const short = text.split(" ")[1];
    const run = button("", short, () => copy(text).then(() => flash(run, "copied")));
    run.title = text;
    run.setAttribute("aria-label", short + ", copy: " + text);
    cell.append(run);
  }

  function show(most) {
    const { table, sort } = state;
    const rows = found.slice(0, most).map((row) => table.columns.map((column) => valueOf(column, row)));
    const options = { onSort, sorted: sort, link: linkOf(table), more: table.commands.length ? command : null };
    box.replaceChildren(rows.length ? grid(table.columns, rows, table.title, options) : make("p", "empty", "Nothing here."));
    more.hidden = found.length <= most;
    part(".csv").disabled = !found.length;
    const some = found.length === table.rows ? "" : " of " + number.format(table.rows);
    const cut = table.total > table.rows ? " (the first of " + number.format(table.total) + "; --out DIR writes all)" : "";
    const note = sort || !table.note ? "" : " · " + table.note;
    count.textContent = number.format(found.length) + some + (table.rows === 1 ? " row" : " rows") + cut + note;
  }

  function onKey(event) {
    const all = [...tabs.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1, " ": at }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const tab = all[(to + all.length) % all.length];
    tab.focus();
    go(stateOf(tab.hash));
  }

  for (const table of data.tables) {
    const tab = make("a", "", table.title + " " + number.format(table.total));
    tab.href = linkTo(table.name);
    tab.id = "tab-" + table.name;
    tab.dataset.name = table.name;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panel");
    tabs.append(tab);
  }
  tabs.addEventListener("keydown", onKey);
  input.addEventListener("input", () => go({ ...state, q: input.value }, true));
  more.addEventListener("click", () => { limit += 5 * PAGE_ROWS; show(limit); });
  part(".csv").addEventListener("click", () => download(csv(state.table, found), state.table.name + ".csv"));
  part(".link").addEventListener("click", (event) => copy(location.href).then(() => flash(event.target, "Copied")));
  addEventListener("beforeprint", () => show(PRINTED_ROWS));
  addEventListener("afterprint", () => show(limit));
  addEventListener("popstate", () => { const next = stateOf(location.hash); if (next) apply(next); });
  // Families, groups and tabs are links, which can be copied and opened elsewhere, too.
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest("a[href^='#']");
    const next = anchor && stateOf(anchor.hash);
    if (!next || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(next);
    tabs.querySelector("[aria-selected='true']").focus({ preventScroll: anchor.role === "tab" });
    if (anchor.role !== "tab") host.scrollIntoView();
  });
  const asked = stateOf(location.hash);
  await apply(asked || stateOf(linkTo(data.tables[0].name)));
  if (asked) host.scrollIntoView();
}
