"use strict";
// The report: words and the page's own helpers. Names in the data are whatever clients made them:
// text goes into the page as text (textContent), never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;

// --- words -------------------------------------------------------------------------------------

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
  return date.toISOString().slice(0, -5) + "Z";
}

function bytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return unit === "B" ? count + " B" : count.toFixed(1) + " " + unit;
    count /= 1000;
  }
  return count.toFixed(1) + " TB";
}

function whole(value) {
  return number.format(typeof value === "string" ? BigInt(value) : value);
}

function counted(count, what) {
  return number.format(count) + " " + what + (count === 1 ? "" : "s");
}

const SHOWN = { int: whole, moment: (v) => moment(Number(v)), span: (v) => span(Number(v)), bytes, bool: (v) => (v ? "yes" : "no") };
const NUMERIC = new Set(["int", "span", "bytes"]);
const TEXTS = new Set(["name", "text"]);

// What can't be seen, or turns the text around it, is spelled out.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;

function escaped(char) {
  const units = [...Array(char.length).keys()].map((at) => char.charCodeAt(at));
  return units.map((unit) => "\\u" + unit.toString(16).padStart(4, "0")).join("");
}

function visible(text) {
  return String(text).replace(UNSEEN, escaped);
}

function cellText(kind, value) {
  if (value === null || value === undefined) return "–";
  return SHOWN[kind] ? SHOWN[kind](value) : visible(value);
}

// --- page --------------------------------------------------------------------------------------

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function button(className, text, onClick) {
  const element = make("button", className, text);
  element.type = "button";
  element.addEventListener("click", onClick);
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

function say(text) {
  document.getElementById("said").textContent = text;
}

// A table of columns ({label, kind}) and rows of values; onSort makes the heads buttons, and
// more(line, at) may add cells of its own.
function grid(columns, rows, caption, { onSort, sorted, link, more } = {}) {
  const table = make("table");
  table.append(make("caption", "unseen", caption));
  const head = table.createTHead().insertRow();
  columns.forEach((column, at) => {
    const cell = make("th", NUMERIC.has(column.kind) ? "num" : "");
    cell.scope = "col";
    if (onSort) {
      cell.append(button("", column.label, () => onSort(column)));
      if (sorted && sorted.name === column.name) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    } else {
      cell.textContent = column.label;
    }
    head.append(cell);
  });
  if (more) {
    const cell = make("th", "run", "command");
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  rows.forEach((row, number) => {
    const line = body.insertRow();
    columns.forEach((column, at) => {
      const cell = line.insertCell();
      const text = cellText(column.kind, row[at]);
      if (NUMERIC.has(column.kind)) cell.className = "num";
      if (column.kind === "name") { cell.className = "name"; cell.title = text; }
      const target = link && row[at] !== null ? link(column, row[at]) : null;
      if (target) {
        const anchor = make("a", "", text);
        anchor.href = target;
        cell.append(anchor);
      } else {
        cell.textContent = text;
      }
    });
    if (more) more(line, number);
  });
  return table;
}

// What a picture shows, as a table behind it that is made when it is opened.
function behind(host, caption, columns, rows) {
  const details = make("details");
  const box = make("div", "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", caption);
  details.append(make("summary", "", "As a table"), box);
  details.addEventListener("toggle", () => {
    if (details.open && !box.firstChild) box.append(grid(columns, rows(), caption));
  });
  host.after(details);
}
