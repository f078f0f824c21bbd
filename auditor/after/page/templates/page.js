"use strict";
(() => {
  const ROWS_SHOWN = 50; // However many findings there are, the table has at most so many rows.
  const [KIND, LEDGER, BOOKIE, OWNER, ENTRIES, FOUND, UNKNOWN, QUORUM, BOOKIES, ID, MUTED] = Array(11).keys();
  const FILTERS = ["severity", "kind", "bookie", "muted"]; // The last one is there if a finding is muted.
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const body = document.querySelector("#table tbody");
  const opened = new Set();
  let order = [...data.rows.keys()]; // Row numbers, sorted.
  let shown = order; // Those that pass the filters.
  let start = 0; // The place in `shown` of the first row of the table.
  let by = "worst", descending = false;

  const make = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== ""));
    return made;
  };
  const commas = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");
  const plural = (n, one, many) => `${commas(n)} ${String(n) === "1" ? one : many}`;
  const subject = (row) => {
    if (row[LEDGER] !== null) return `ledger ${row[LEDGER]}`;
    return row[BOOKIE] !== null ? `bookie ${data.bookies[row[BOOKIE]]}` : "the cluster";
  };
  const copies = (row) =>
    row[QUORUM] === null ? "" : `${row[FOUND]} of ${row[QUORUM]}` + (row[UNKNOWN] ? `, ${row[UNKNOWN]} unknown` : "");
  const text = data.rows.map((row) => { // What a search looks in.
    const bookies = row[BOOKIES].map((bookie) => data.bookies[bookie] ?? "");
    return [...data.kinds[row[KIND]].slice(0, 2), subject(row), row[OWNER], row[ID], row[MUTED] ? "muted" : "", ...bookies].join(" ").toLowerCase();
  });

  const textual = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  // Ids and counts are decimal strings: a number would round the large ones.
  const numeric = (a, b) => a.length - b.length || textual(a, b);
  const least = (row) => (row[QUORUM] === null ? Number.MAX_VALUE : row[FOUND] * 1000 + row[UNKNOWN]);
  const compare = {
    worst: () => 0,
    subject: (a, b) => {
      if (a[LEDGER] !== null && b[LEDGER] !== null) return numeric(a[LEDGER], b[LEDGER]);
      return (a[LEDGER] === null) - (b[LEDGER] === null) || textual(subject(a), subject(b));
    },
    owner: (a, b) => textual(a[OWNER], b[OWNER]),
    entries: (a, b) => numeric(a[ENTRIES], b[ENTRIES]),
    copies: (a, b) => least(a) - least(b),
  };
  const sort = (name) => {
    descending = by === name && !descending;
    by = name;
    order = [...data.rows.keys()].sort((a, b) => compare[by](data.rows[a], data.rows[b]) || a - b);
    if (descending) order.reverse();
    for (const button of document.querySelectorAll("[data-sort]")) {
      if (button.dataset.sort !== by) button.parentElement.removeAttribute("aria-sort");
      else button.parentElement.setAttribute("aria-sort", descending ? "descending" : "ascending");
    }
    filter();
  };
  const filter = () => {
    const words = $("search").value.toLowerCase().split(/\s+/);
    const [severity, kind, bookie, muted] = FILTERS.map((id) => $(id)?.value);
    shown = order.filter((n) => {
      const row = data.rows[n];
      return (
        (!severity || data.kinds[row[KIND]][1] === severity) &&
        (!kind || row[KIND] === Number(kind)) &&
        (!bookie || row[BOOKIES].includes(Number(bookie)) || row[BOOKIES].includes(-1)) &&
        (!muted || (row[MUTED] ? "yes" : "no") === muted) &&
        words.every((word) => text[n].includes(word))
      );
    });
    start = 0;
    draw();
  };

  const draw = () => {
    const rows = shown.slice(start, start + ROWS_SHOWN);
    body.replaceChildren(...rows.flatMap((n) => (opened.has(n) ? [drawRow(n), drawOpened(n)] : [drawRow(n)])));
    $("table").hidden = !rows.length;
    $("none").hidden = rows.length > 0;
    const many = plural(shown.length, "finding", "findings");
    $("shown").textContent = shown.length === data.rows.length ? many : `${many} of ${commas(data.rows.length)}`;
    $("pager").hidden = shown.length <= ROWS_SHOWN;
    $("page").textContent = `${commas(start + 1)}\u2013${commas(start + rows.length)} of ${commas(shown.length)}`;
    $("previous").disabled = start === 0;
    $("next").disabled = start + rows.length === shown.length;
  };
  const drawRow = (n) => {
    const row = data.rows[n];
    const [kind, severity, says] = data.kinds[row[KIND]];
    const words = kind.split("_").flatMap((word, at) => (at ? ["_", make("wbr", {}), word] : [word]));
    const open = { type: "button", class: "open", "aria-expanded": opened.has(n), "data-row": n, title: says };
    const entries = row[ENTRIES] === "0" ? "" : commas(row[ENTRIES]);
    const under = [row[OWNER], entries && plural(entries, "entry", "entries"), copies(row) && `${copies(row)} copies`];
    return make("tr", { id: `f-${row[ID]}` },
      make("td", {}, make("button", open, ...words), make("span", { class: severity }, severity),
        row[MUTED] ? make("span", { class: "muted" }, `muted until ${row[MUTED]}`) : ""),
      make("td", {}, subject(row), ...under.filter(Boolean).map((line) => make("span", { class: "under" }, line))),
      make("td", { class: "owner" }, row[OWNER]), make("td", { class: "n" }, entries), make("td", { class: "n" }, copies(row)));
  };
  const drawOpened = (n) => make("tr", { class: "detail" }, make("td", { colspan: 5 }, ...drawDetail(n)));
  const drawDetail = (n) => {
    const id = data.rows[n][ID];
    const explain = `auditor explain ${id}` + (data.run_dir ? ` ${data.run_dir}` : "");
    const terminal = [make("h3", {}, "In a terminal"), drawCommands([{ text: explain, copy: true }])];
    if (data.mute) {
      const mute = data.mute.replace("ID", id);
      terminal.push(make("p", { class: "quiet" }, "To accept it for a while (set the day and the reason):"), drawCommands([{ text: mute, copy: true }]));
    }
    const told = data.full[n] ? drawFull(data.full[n], n) : [make("p", {}, "This finding is not on this page in full.")];
    return [...told, ...terminal];
  };
  const drawFull = (full, n) => {
    const parts = [make("p", { class: "quiet" }, full.line)];
    for (const said of [full.seen, full.muted].filter(Boolean)) parts.push(make("p", { class: "quiet" }, said));
    parts.push(make("p", { class: "witness" }, full.witness));
    if (full.time_line.length) parts.push(make("h3", {}, "Looks, UTC"), drawLooks(full.time_line));
    if (full.answers.rows.length) parts.push(make("h3", {}, "Who says what"), ...drawAnswers(full));
    for (const note of full.notes) parts.push(make("p", {}, note));
    if (full.save.length) parts.push(make("h3", {}, "Save this first: these commands only read"), drawCommands(full.save));
    const looking = full.save.length ? "Then look: these commands change nothing" : "Look first";
    if (full.look.length) parts.push(make("h3", {}, looking), drawCommands(full.look));
    if (full.change.length) {
      const warning = make("h3", {}, "Then, and this CHANGES THE CLUSTER");
      parts.push(make("div", { class: "changes" }, warning, drawCommands(full.change)));
    }
    const runbook = data.kinds[data.rows[n][KIND]][3];
    const page = runbook ? make("a", { href: runbook, rel: "noreferrer" }, full.page) : make("code", {}, full.page);
    return [...parts, make("p", { class: "quiet" }, "What this kind means, and what to do: ", page)];
  };
  const svg = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const drawLooks = (looks) => {
    const x = (at) => 12 + 576 * at; // To scale: the list below has the times.
    const marks = looks.flatMap(({ at }, place) => [
      svg("circle", { cx: x(at), cy: 12, r: 9 }),
      svg("text", { x: x(at), y: 16, "text-anchor": "middle" }, String(place + 1)),
    ]);
    const line = svg("line", { x1: x(0), x2: x(1), y1: 12, y2: 12 });
    const scale = svg("svg", { class: "scale", viewBox: "0 0 600 24", "aria-hidden": "true" }, line, ...marks);
    return make("div", { class: "time" }, scale, make("ol", { class: "looks" }, ...looks.map(({ day, clock, gap, says }) =>
      make("li", {}, make("b", { title: day }, clock), [gap, says].filter(Boolean).join(", ")))));
  };
  const drawAnswers = ({ answers, time_line, more }) => {
    const { ranges, rows, bookies_left } = answers;
    const groups = [["entries", ranges], ["answered at", time_line.map((look) => look.clock)]].filter(([, names]) => names.length);
    const over = groups.map(([name, names]) => make("th", { scope: "colgroup", colspan: names.length }, name));
    const names = ["bookie", ...groups.flatMap(([, under]) => under)].map((name) => make("th", { scope: "col" }, name));
    const lines = rows.map(({ bookie, part, cells, answers: said }) => make("tr", {},
      make("th", { scope: "row" }, bookie, make("span", { class: "part" }, part)),
      ...cells.map((cell) => make("td", { class: cell.replace(/ \d+$/, "").replace(" ", "-") }, cell || "\u00b7")),
      ...said.map((answer) => make("td", {}, answer))));
    const notes = [];
    if (ranges.length) notes.push("None missing: it should hold some of these, gave its list, and is not said to lack any. Not due: it should hold none of these. A dot: the finding does not tell which of both.");
    if (more) notes.push(`${plural(more, "more entry is", "more entries are")} hit.`);
    if (bookies_left) notes.push(`${plural(bookies_left, "more bookie is", "more bookies are")} in findings.jsonl.`);
    const head = make("thead", {}, make("tr", {}, make("td", {}), ...over), make("tr", {}, ...names));
    const table = make("table", { class: "says-what" }, head, make("tbody", {}, ...lines));
    const frame = { class: "scroll", role: "region", tabindex: 0, "aria-label": "Who says what" };
    return [make("div", frame, table), make("p", { class: "quiet" }, notes.join(" "))];
  };
  const drawCommands = (commands) => make("ul", { class: "commands" }, ...commands.map((command) =>
    make("li", {}, make("code", {}, command.text), command.copy ? make("button", { type: "button", class: "copy" }, "Copy") : "")));

  const toggle = (n) => {
    const name = `#f-${data.rows[n][ID]}`;
    const isOpen = !opened.delete(n);
    if (isOpen) opened.add(n);
    // The address names the finding that was opened last, to be sent to somebody.
    if (isOpen || location.hash === name) history.replaceState(null, "", isOpen ? name : "#findings");
    draw();
    body.querySelector(`[data-row="${n}"]`).focus();
  };
  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl+C";
    }
    $("said").textContent = button.textContent;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  const clear = () => ["search", ...FILTERS].forEach((id) => $(id) && ($(id).value = ""));
  const pick = (name) => {
    clear();
    const at = data.bookies.indexOf(name);
    if (at < 0) $("search").value = name;
    else $("bookie").value = at;
    filter();
    $("findings").scrollIntoView();
    $("bookie").focus({ preventScroll: true });
  };
  const openNamed = () => { // #f-ID in the address opens a finding.
    const n = data.rows.findIndex((row) => `#f-${row[ID]}` === location.hash);
    if (n < 0) return;
    if (!shown.includes(n)) {
      clear(); // A link must lead to its finding, whatever is filtered.
      filter();
    }
    opened.add(n);
    start = Math.floor(Math.max(0, shown.indexOf(n)) / ROWS_SHOWN) * ROWS_SHOWN;
    draw();
    $(location.hash.slice(1))?.scrollIntoView();
  };
  const turn = (step) => {
    start += step;
    draw();
    $("findings").scrollIntoView();
  };

  for (const name of new Set(data.kinds.map(([, severity]) => severity))) $("severity").append(new Option(name));
  data.kinds.forEach(([name], n) => $("kind").append(new Option(name, n)));
  const natural = new Intl.Collator("en", { numeric: true }).compare; // b2 before b10.
  const names = [...data.bookies.keys()].sort((a, b) => natural(data.bookies[a], data.bookies[b]));
  $("bookie").append(...names.map((n) => new Option(data.bookies[n], n)));
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button") ?? target;
    if (button.matches(".copy")) copy(button);
    if (button.matches(".pick")) pick(button.dataset.bookie);
    if (button.matches(".open")) toggle(Number(button.dataset.row));
    if (button.matches("#clear")) $("filters").reset();
    if (button.matches("[data-sort]")) sort(button.dataset.sort);
    if (button.matches("#previous, #next")) turn(button.id === "next" ? ROWS_SHOWN : -ROWS_SHOWN);
  });
  $("filters").addEventListener("input", filter);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", () => setTimeout(filter));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select")) return;
    event.preventDefault();
    $("search").focus();
  });
  addEventListener("hashchange", openNamed);
  const worst = $("worst-detail");
  if (worst) worst.replaceChildren(...drawDetail(Number(worst.dataset.row)));
  draw();
  openNamed();
})();
