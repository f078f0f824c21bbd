"use strict";
(() => {
  const ROWS_SHOWN = 50; // A page of the table: however many findings there are, so many rows exist.
  const data = JSON.parse(document.getElementById("data").textContent);
  const [KIND, LEDGER, BOOKIE, OWNER, ENTRIES, FOUND, UNKNOWN, QUORUM, BOOKIES, ID] = data.rows.length ? [...data.rows[0].keys()] : [];
  const $ = (id) => document.getElementById(id);
  const body = document.querySelector("#table tbody");
  const text = new Array(data.rows.length); // What a search looks in, for each row.
  let order = [...data.rows.keys()]; // Row numbers in the order of the table.
  let shown = order; // Those that pass the filters.
  let start = 0; // The first of `shown` on this page.
  let by = "worst", descending = false;
  const opened = new Set();

  const make = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== ""));
    return made;
  };
  const commas = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");
  const plural = (n, one, many) => `${commas(n)} ${n === 1 ? one : many}`;
  const subject = (row) =>
    row[LEDGER] !== null ? `ledger ${row[LEDGER]}` : row[BOOKIE] !== null ? `bookie ${data.bookies[row[BOOKIE]]}` : "the cluster";
  const copies = (row) =>
    row[QUORUM] === null ? "" : `${row[FOUND]} of ${row[QUORUM]}` + (row[UNKNOWN] ? `, ${row[UNKNOWN]} unknown` : "");

  data.rows.forEach((row, n) => {
    const [kind, severity] = data.kinds[row[KIND]];
    const named = row[BOOKIES].map((bookie) => data.bookies[bookie] ?? "");
    text[n] = [kind, severity, subject(row), row[OWNER], row[ID], ...named].join(" ").toLowerCase();
  });

  // Ids and counts are decimal strings: they may exceed what a number holds exactly.
  const numeric = (a, b) => a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
  const textual = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const compare = {
    worst: (a, b) => a - b,
    subject: (a, b) => {
      const [x, y] = [data.rows[a], data.rows[b]];
      if (x[LEDGER] !== null && y[LEDGER] !== null) return numeric(x[LEDGER], y[LEDGER]);
      return (x[LEDGER] === null) - (y[LEDGER] === null) || textual(subject(x), subject(y));
    },
    owner: (a, b) => textual(data.rows[a][OWNER], data.rows[b][OWNER]),
    entries: (a, b) => numeric(data.rows[a][ENTRIES], data.rows[b][ENTRIES]),
    copies: (a, b) => left(data.rows[a]) - left(data.rows[b]),
  };
  const left = (row) => (row[QUORUM] === null ? Infinity : row[FOUND] * 1000 + row[UNKNOWN]);

  const sort = () => {
    const sign = descending ? -1 : 1;
    order = [...data.rows.keys()].sort((a, b) => (a === b ? 0 : sign * (compare[by](a, b) || 0) || a - b));
    for (const button of document.querySelectorAll("[data-sort]")) {
      const heading = button.closest("th");
      heading.removeAttribute("aria-sort");
      if (button.dataset.sort === by) heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    }
  };
  const filter = () => {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [severity, kind, bookie] = [$("severity").value, $("kind").value, $("bookie").value];
    shown = order.filter((n) => {
      const row = data.rows[n];
      return (
        (!severity || data.kinds[row[KIND]][1] === severity) &&
        (!kind || row[KIND] === Number(kind)) &&
        (!bookie || row[BOOKIES].includes(Number(bookie)) || row[BOOKIES].includes(-1)) &&
        words.every((word) => text[n].includes(word))
      );
    });
    start = 0;
    draw();
  };

  const draw = () => {
    const rows = [];
    for (const n of shown.slice(start, start + ROWS_SHOWN)) {
      rows.push(drawRow(n));
      if (opened.has(n)) rows.push(drawDetail(n));
    }
    body.replaceChildren(...rows);
    const last = Math.min(start + ROWS_SHOWN, shown.length);
    const many = plural(shown.length, "finding", "findings");
    $("shown").textContent = shown.length === data.rows.length ? many : `${many} of ${commas(data.rows.length)}`;
    $("pager").hidden = shown.length <= ROWS_SHOWN;
    $("page").textContent = `${commas(start + 1)}\u2013${commas(last)} of ${commas(shown.length)}`;
    $("previous").disabled = start === 0;
    $("next").disabled = last === shown.length;
  };
  const drawRow = (n) => {
    const row = data.rows[n];
    const [kind, severity, says] = data.kinds[row[KIND]];
    const open = make("button", { type: "button", class: "open", "aria-expanded": opened.has(n), "data-row": n, title: says }, kind);
    return make(
      "tr", { id: `f-${row[ID]}` },
      make("td", {}, open, make("span", { class: severity }, severity)),
      make("td", {}, subject(row), make("span", { class: "under" }, row[OWNER])),
      make("td", { class: "owner" }, row[OWNER]),
      make("td", { class: "n" }, row[ENTRIES] === "0" ? "" : commas(row[ENTRIES])),
      make("td", { class: "n" }, copies(row)),
    );
  };
  const drawDetail = (n) => {
    const full = data.full[n];
    const cell = make("td", { colspan: 5 });
    cell.append(...(full ? drawFull(full) : [make("p", {}, "This finding is not on this page in full. This shows it:")]));
    if (!full || data.run_dir) {
      const explain = `auditor explain ${data.rows[n][ID]}` + (data.run_dir ? ` ${data.run_dir}` : "");
      if (full) cell.append(make("h3", {}, "The same in a terminal"));
      cell.append(drawCommands([{ text: explain, copy: true }]));
    }
    return make("tr", { class: "detail", id: `detail-${n}` }, cell);
  };
  const drawFull = (full) => [
    make("p", { class: "quiet" }, full.line),
    make("p", { class: "witness" }, full.witness),
    ...(full.time_line.length ? [make("h3", {}, "Looks, UTC"), drawLooks(full.time_line)] : []),
    ...(full.answers.rows.length ? [make("h3", {}, "Who says what"), ...drawAnswers(full)] : []),
    ...(full.look.length ? [make("h3", {}, "Look first"), drawCommands(full.look)] : []),
    ...(full.change.length
      ? [make("div", { class: "changes" }, make("h3", {}, "Then, and this CHANGES THE CLUSTER"), drawCommands(full.change))]
      : []),
    make("p", { class: "quiet" }, "What this kind means, and what to do: ", make("code", {}, full.page)),
  ];
  const drawLooks = (looks) =>
    make("ol", { class: "looks" }, ...looks.map((look) => make("li", {}, make("b", { title: look.day }, look.clock), look.gap, make("br"), look.says)));
  const drawAnswers = ({ answers, time_line, more }) => {
    const headings = [...time_line.map((look) => look.clock), ...answers.ranges];
    const head = make("tr", {}, make("th", { scope: "col" }, "bookie"), ...headings.map((name) => make("th", { scope: "col" }, name)));
    const groups = make("tr", {}, make("td"), make("th", { scope: "colgroup", colspan: time_line.length }, "answered at"));
    if (answers.ranges.length) groups.append(make("th", { scope: "colgroup", colspan: answers.ranges.length }, "entries"));
    const rows = answers.rows.map((row) =>
      make("tr", {}, make("th", { scope: "row" }, row.bookie, ...(row.part ? [make("br"), make("span", { class: "quiet" }, row.part)] : [])),
        ...row.answers.map((said) => make("td", {}, said)),
        ...row.cells.map((said) => make("td", { class: said.replace(/^holds .*/, "holds").replaceAll(" ", "-") }, said || "\u00b7"))),
    );
    const table = make("table", { class: "says-what" }, make("thead", {}, groups, head), make("tbody", {}, ...rows));
    const notes = [];
    if (answers.ranges.length) notes.push("A dot: the bookie gave its list and is not said to lack these; it holds them, or should not.");
    if (more) notes.push(`${commas(more)} more entries are hit.`);
    if (answers.bookies_left) notes.push(`${plural(answers.bookies_left, "more bookie is", "more bookies are")} in findings.jsonl.`);
    return [make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Who says what" }, table), make("p", { class: "quiet" }, notes.join(" "))];
  };
  const drawCommands = (commands) =>
    make("ul", { class: "commands" }, ...commands.map((command) =>
      make("li", {}, make("code", {}, command.text), command.copy ? make("button", { type: "button", class: "copy" }, "Copy") : "")));

  const toggle = (n) => {
    if (!opened.delete(n)) opened.add(n);
    draw();
    body.querySelector(`[data-row="${n}"]`)?.focus();
  };
  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      $("said").textContent = button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      $("said").textContent = button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };
  const pick = (name) => {
    $("filters").reset();
    const at = data.bookies.indexOf(name);
    if (at >= 0) $("bookie").value = at;
    else $("search").value = name;
    filter();
    $("findings").scrollIntoView();
    $("search").focus({ preventScroll: true });
  };
  const openNamed = () => {
    const n = location.hash.startsWith("#f-") ? data.rows.findIndex((row) => `#f-${row[ID]}` === location.hash) : -1;
    if (n < 0) return;
    opened.add(n);
    start = Math.floor(shown.indexOf(n) / ROWS_SHOWN) * ROWS_SHOWN;
    draw();
    $(location.hash.slice(1)).scrollIntoView();
  };

  for (const name of [...new Set(data.kinds.map(([, severity]) => severity))]) $("severity").append(make("option", { value: name }, name));
  data.kinds.forEach(([name], n) => $("kind").append(make("option", { value: n }, name)));
  const names = [...data.bookies.keys()].sort((a, b) => numeric(data.bookies[a], data.bookies[b]));
  for (const n of names) $("bookie").append(make("option", { value: n }, data.bookies[n]));
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    if (button.matches(".copy")) copy(button);
    else if (button.matches(".pick")) pick(button.dataset.bookie);
    else if (button.matches(".open")) toggle(Number(button.dataset.row));
    else if (button.matches("[data-sort]")) {
      descending = by === button.dataset.sort && !descending;
      by = button.dataset.sort;
      sort();
      filter();
    } else if (button.matches("#previous, #next")) {
      start += button.id === "next" ? ROWS_SHOWN : -ROWS_SHOWN;
      draw();
      $("findings").scrollIntoView();
    }
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
  draw();
  openNamed();
})();
