// The table of past episodes: asks the server with what the filters say, a page at a time.

import { figure, list, make, mark, percent, say, seconds } from "/page/dom.js";

const COUNT = 20;
const TYPING_MS = 200;
const SYMBOLS = { success: "✓", failure: "✕", undecided: "?" };

export class Past {
  constructor() {
    this.first = 0;
    this.asked = 0;
    this.form = document.getElementById("filter");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", () => this.again(TYPING_MS));
    document.getElementById("later").addEventListener("click", () => this.turn(-COUNT));
    document.getElementById("earlier").addEventListener("click", () => this.turn(COUNT));
  }

  /** Ask anew from the first page on. */
  again(after = 0) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.first = 0;
      this.load();
    }, after);
  }

  turn(by) {
    this.first = Math.max(0, this.first + by);
    this.load();
  }

  async load() {
    const number = ++this.asked;
    const query = new URLSearchParams({ first: this.first, count: COUNT });
    for (const name of ["words", "outcome", "robot", "task"]) query.set(name, document.getElementById(name).value);
    let answer;
    try {
      const response = await fetch(`/api/episodes?${query}`);
      if (!response.ok) throw new Error(await response.text());
      answer = await response.json();
    } catch (error) {
      if (number === this.asked) this.complain(`the past episodes cannot be read now: ${error.message}`);
      return;
    }
    if (number === this.asked) this.show(answer);
  }

  show({ rows, found, all, robots, tasks, trouble }) {
    list(document.querySelector("#episodes tbody"), rows, newRow, fillRow);
    say(document.getElementById("past-count"), found === all ? String(all) : `${found} of ${all}`);
    const nothing = all ? "none fits: change the search or the filters" : "none yet: an episode appears here when its report is written";
    this.complain(trouble.join("; ") || (rows.length ? "" : nothing));
    choices(document.getElementById("robot"), robots);
    choices(document.getElementById("task"), tasks);
    list(document.getElementById("tasks"), tasks, () => make("option"), (option, task) => mark(option, "value", task));
    document.getElementById("later").disabled = this.first === 0;
    document.getElementById("earlier").disabled = this.first + COUNT >= found;
  }

  complain(words) {
    const place = document.getElementById("past-empty");
    place.hidden = !words;
    say(place, words);
  }
}

function choices(select, values) {
  const kept = select.value;
  while (select.options.length > 1) select.remove(1);
  for (const value of values) select.add(new Option(value.length > 60 ? `${value.slice(0, 59)}…` : value, value));
  select.value = kept;
}

function newRow() {
  const row = make("tr");
  const names = ["outcome", "task", "robot", "when", "figure", "figure", "figure", "figure", "alarms", "tags"];
  row.append(...names.map((name) => make("td", name)));
  const link = make("a");
  link.target = "_blank";
  link.rel = "noopener";
  row.children[1].append(link);
  return row;
}

function fillRow(row, episode) {
  const [outcome, task, robot, when, took, mp, sqs, fns, alarms, tags] = row.children;
  mark(row, "data-outcome", episode.outcome);
  say(outcome, `${SYMBOLS[episode.outcome]} ${episode.outcome}${episode.interrupted ? ", cut off" : ""}`);
  const link = task.firstChild;
  say(link, episode.task || episode.folder);
  link.href = episode.link.startsWith("/reports/") ? episode.link : "#";
  link.title = episode.folder;
  say(robot, episode.robot);
  say(when, new Date(episode.start).toLocaleString());
  say(took, seconds(episode.duration));
  say(mp, percent(episode.mp));
  say(sqs, figure(episode.sqs, 2));
  say(fns, figure(episode.fns, 2));
  const counts = [["✕", episode.errors], ["!", episode.warnings]].filter(([, count]) => count);
  say(alarms, counts.map(([symbol, count]) => `${symbol} ${count}`).join(", "));
  list(tags, episode.tags, () => make("span", "tag"), (tag, { label, who, note }) => {
    say(tag, `${label ?? (note ? "note" : "taken back")} (${who})${note ? `: ${note}` : ""}`);
    mark(tag, "data-label", label);
  });
}
