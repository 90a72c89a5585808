// Draws the two pages that show data on demand. Data comes as scripts that call rolloutMonitor.put, because a page
// opened from disk may not fetch. Text goes into the page as text nodes only.
(() => {
  "use strict";
  const ROWS = 25, TASKS = 50, COLUMNS = 50, DELAY_MS = 150;
  const chunks = new Map(), waiting = new Map();
  window.rolloutMonitor = {
    put(name, value) {
      const promise = waiting.get(name);
      if (promise) promise.resolve(value);
    },
  };
  const load = (name) => {
    if (!chunks.has(name)) {
      chunks.set(name, new Promise((resolve, reject) => {
        waiting.set(name, { resolve });
        const script = document.createElement("script");
        script.src = `data/${name}.js`;
        script.onerror = () => reject(new Error(`data/${name}.js could not be loaded; keep the whole folder together`));
        document.head.append(script);
      }));
    }
    return chunks.get(name);
  };

  const status = document.getElementById("status"), pager = document.getElementById("pager");
  const tell = (text, trouble = false) => {
    status.textContent = text;
    status.classList.toggle("trouble", trouble);
  };
  const fail = (error) => tell(error.message, true);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const draw = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const points = (parts) => (parts === null ? "—" : (parts / 100).toFixed(1));
  const late = (action) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(action, DELAY_MS); };
  };
  const turnPages = (pages, at, go) => {
    pager.replaceChildren();
    if (pages < 2) return;
    const button = (text, target) => {
      const made = make("button", { type: "button" }, text);
      made.disabled = target < 0 || target >= pages;
      made.addEventListener("click", () => go(target, text));
      return made;
    };
    pager.append(button("Previous", at - 1), make("span", {}, `page ${at + 1} of ${pages}`), button("Next", at + 1));
  };
  const keepFocus = (text) => {
    const buttons = [...pager.querySelectorAll("button")];
    const same = buttons.find((button) => button.textContent === text && !button.disabled);
    (same || buttons.find((button) => !button.disabled))?.focus();
  };

  // --- policies by tasks ------------------------------------------------------------------------------------------

  const matrixPage = async (form) => {
    const names = await load("matrix");
    const table = document.getElementById("matrix"), shown = names.policies.slice(0, COLUMNS);
    let page = 0;
    const cell = (found, lower, task, policy) => {
      const made = make("td", { class: "figure" });
      if (!found) return made;
      const [, , n, value, low, high] = found;
      if (value === null) {
        made.className = "figure absent";
        made.append("—", make("small", {}, `n ${n}`));
        return made;
      }
      made.className = `figure h${Math.round((lower ? 10000 - value : value) / 1000)}`;
      const link = make("a", { href: `explorer.html#policy=${policy[0]}&task=${task[0]}` });
      link.append(make("b", {}, points(value)));
      if (low !== null) link.append(make("small", {}, `${points(low)}–${points(high)}`));
      link.append(make("small", {}, `n ${n}`));
      made.append(link);
      return made;
    };
    const show = async () => {
      const key = form.elements.metric.value, text = form.elements.text.value.trim().toLowerCase();
      const metric = names.metrics.find((one) => one[0] === key);
      const found = await load(`matrix-${key}`);
      const cells = new Map(found.map((one) => [one[0] * names.policies.length + one[1], one]));
      const rows = names.tasks.map((name, index) => index).filter((index) => names.tasks[index][1].toLowerCase().includes(text));
      const pages = Math.max(Math.ceil(rows.length / TASKS), 1);
      page = Math.min(page, pages - 1);
      const head = make("tr", {}, make("th", { scope: "col" }, "Task"));
      for (const policy of shown) head.append(make("th", { scope: "col", class: "figure" }, make("bdi", {}, policy[1])));
      table.tHead.replaceChildren(head);
      table.tBodies[0].replaceChildren(...rows.slice(page * TASKS, (page + 1) * TASKS).map((index) => {
        const row = make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, names.tasks[index][1])));
        shown.forEach((policy, column) => row.append(
          cell(cells.get(index * names.policies.length + column), metric[3] === "lower", names.tasks[index], policy)));
        return row;
      }));
      const all = names.policies.length > shown.length ? ` The first ${shown.length} of ${names.policies.length} policies; figures.csv has all.` : "";
      tell(`${metric[1]}, ${metric[2]}, ${metric[3]} is better; ${rows.length} of ${names.tasks.length} tasks.${all}`);
      turnPages(pages, page, (target, word) => { page = target; show().then(() => keepFocus(word), fail); });
    };
    const again = late(() => { page = 0; show().catch(fail); });
    form.addEventListener("input", again);
    form.addEventListener("submit", (event) => event.preventDefault());
    await show();
  };

  // --- explorer ---------------------------------------------------------------------------------------------------

  const explorerPage = async (form) => {
    const names = await load("names");
    const at = Object.fromEntries(names.columns.map((name, index) => [name, index]));
    const field = form.elements, body = document.querySelector("#episodes tbody");
    const together = document.getElementById("together");
    const fill = (select, texts) => texts.forEach((text, index) => select.append(make("option", { value: index }, text)));
    fill(field.policy, names.policies);
    fill(field.task, names.tasks);
    fill(field.outcome, names.outcomes);
    fill(field.tag, names.tags);
    const episodes = [];
    for (let index = 0; index * names.per_chunk < names.episodes; index += 1) {
      tell(`Loading ${episodes.length} of ${names.episodes} attempts…`);
      episodes.push(...await load(`episodes-${index}`));
    }
    let page = 0, turn = 0;

    const kept = () => {
      const chosen = (name) => (field[name].value === "" ? null : Number(field[name].value));
      const [policy, task, outcome, tag] = ["policy", "task", "outcome", "tag"].map(chosen);
      const where = field.where.value, counts = field.counts.value, text = field.text.value.trim().toLowerCase();
      const metric = at[field.metric.value], low = chosen("min"), high = chosen("max");
      const fits = (row) =>
        (policy === null || row[at.policy] === policy) && (task === null || row[at.task] === task) &&
        (outcome === null || row[at.outcome] === outcome) && (tag === null || row[at.tags].includes(tag)) &&
        (where === "" || (where === "unsaid" ? row[at.where] === null : row[at.where] === where)) &&
        (counts === "" || (counts === "none" ? !row[at.counted] : row[at.counted] && row[at.success] === Number(counts === "success"))) &&
        (low === null || (row[metric] !== null && row[metric] >= low * 100)) &&
        (high === null || (row[metric] !== null && row[metric] <= high * 100)) &&
        (text === "" || row[at.name].toLowerCase().includes(text));
      const found = [];
      episodes.forEach((row, number) => { if (fits(row)) found.push(number); });
      const value = (number, column) => episodes[number][column] ?? -Infinity;
      const order = field.order.value;
      if (order === "new") found.sort((a, b) => value(b, at.start) - value(a, at.start) || a - b);
      if (order === "high") found.sort((a, b) => value(b, metric) - value(a, metric) || a - b);
      if (order === "low") found.sort((a, b) => (episodes[a][metric] ?? Infinity) - (episodes[b][metric] ?? Infinity) || a - b);
      return found;
    };

    const path = (curve, width, height) => {
      const [times, values] = curve;
      return values.map((value, index) =>
        `${index ? "L" : "M"}${((times[index] * width) / 1000).toFixed(1)} ${(height - (value * height) / 1000).toFixed(1)}`).join("");
    };
    const grid = (width, height) => draw("path", { class: "grid", d: [0.25, 0.5, 0.75].map((share) => `M0 ${height * share}H${width}`).join("") });
    const tone = (row) => (row[at.success] === null ? "" : row[at.success] ? "success" : "failure");

    const line = (number, curve) => {
      const row = episodes[number], outcome = names.outcomes[row[at.outcome]];
      const name = make("bdi", {}, row[at.name]);
      const title = row[at.page] === null ? make("span", {}, name) : make("a", { href: names.address + row[at.page] }, name);
      const about = [];
      if (row[at.duration] !== null) about.push(`${(row[at.duration] / 1000).toFixed(1)} s`);
      if (row[at.where] !== null) about.push(row[at.where] === "sim" ? "simulated" : "real");
      if (row[at.page] === null) about.push("no page");
      const tags = row[at.tags].map((tag) => `#${names.tags[tag]}`).join(" ");
      const spark = draw("svg", { class: `spark ${tone(row)}`, viewBox: "0 0 200 50", preserveAspectRatio: "none", role: "img", "aria-label": row[at.mp] === null ? "no curve" : `progress curve, best ${points(row[at.mp])}` });
      spark.append(grid(200, 50), draw("path", { class: "curve", d: path(curve, 200, 50) }));
      const counts = row[at.counted] ? (row[at.success] ? "counts as success" : "counts as failure") : "takes no part";
      const shown = outcome === "success" || outcome === "failure" ? "" : counts;
      const quality = row[at.sqs] !== null ? `SQS ${points(row[at.sqs])}` : row[at.fns] !== null ? `FNS ${points(row[at.fns])}` : "—";
      const made = make("tr", {},
        make("th", { scope: "row" }, title, make("small", {}, about.join(", "))),
        make("td", {}, spark),
        make("td", { class: tone(row) }, make("span", { class: "word" }, outcome), make("small", {}, shown)),
        make("td", { class: "text" }, make("bdi", {}, names.policies[row[at.policy]]), make("small", {}, make("bdi", {}, names.tasks[row[at.task]])), make("small", {}, tags)),
        ...["mp", "ppl", "cra", "str", "drr"].map((key) => make("td", { class: "figure" }, points(row[at[key]]))),
        make("td", { class: "figure" }, quality));
      const over = draw("path", { class: `curve ${tone(row)}`, d: path(curve, 1000, 240) });
      const lift = (on) => over.classList.toggle("lifted", on);
      for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focusin", true], ["focusout", false]]) made.addEventListener(event, () => lift(on));
      return [made, over];
    };

    const show = async () => {
      turn += 1;
      const mine = turn, found = kept();
      const pages = Math.max(Math.ceil(found.length / ROWS), 1);
      page = Math.min(page, pages - 1);
      const numbers = found.slice(page * ROWS, (page + 1) * ROWS);
      const curves = await Promise.all(numbers.map(async (number) => {
        const chunk = await load(`curves-${Math.floor(number / names.curves_per_chunk)}`);
        return chunk[number % names.curves_per_chunk];
      }));
      if (mine !== turn) return;
      const lines = numbers.map((number, index) => line(number, curves[index]));
      body.replaceChildren(...lines.map(([row]) => row));
      together.replaceChildren(grid(1000, 240), ...lines.map(([, over]) => over));
      together.parentElement.hidden = lines.length === 0;
      tell(found.length === 0 ? `None of ${names.episodes} attempts fits; show all to start again.` : `${found.length} of ${names.episodes} attempts`);
      turnPages(pages, page, (target, word) => { page = target; show().then(() => keepFocus(word), fail); });
    };

    const write = () => {
      const chosen = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value !== "" && field[name].tagName && value !== defaults.get(name)));
      history.replaceState(null, "", `#${chosen}`);
    };
    const defaults = new FormData(form);
    const read = () => {
      for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
        const input = field.namedItem(name);
        if (input && "value" in input) input.value = value;
        if (input && input.tagName === "SELECT" && input.selectedIndex < 0) input.selectedIndex = 0;
      }
    };
    const again = late(() => { page = 0; write(); show().catch(fail); });
    form.addEventListener("input", again);
    form.addEventListener("reset", () => setTimeout(again));
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => { form.reset(); read(); page = 0; show().catch(fail); });
    read();
    await show();
  };

  const explorer = document.getElementById("explorer"), choice = document.getElementById("matrix-choice");
  if (explorer) explorerPage(explorer).catch(fail);
  if (choice) matrixPage(choice).catch(fail);
})();
