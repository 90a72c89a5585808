// One robot's card: what the server says of it becomes text and pictures, what the operator does becomes a command.

import { draw } from "/page/curve.js";
import { ABSENT, figure, list, make, mark, percent, say, seconds } from "/page/dom.js";

const SYMBOLS = { INFO: "i", WARN: "!", ERROR: "✕" };
const OUTCOMES = { success: "✓", failure: "✕", undecided: "?" };
const QUIET_S = 2; // a monitor that runs an attempt says something ten times a second
export const CROWD = 4; // with more robots cards are denser and their tables begin closed; the headings tell the most
const RESET = { arm_reset: "arm", disarm_reset: "disarm" };

const named = ({ severity, kind, subject, reason }) =>
  `${SYMBOLS[severity]} ${kind}${subject ? ` ${subject}` : ""}: ${reason}`;

export class Card {
  /** `on` has ask(command), which resolves to {fine, words}; looks(): at another camera; changed(): there is to draw. */
  constructor(name, on) {
    this.name = name;
    this.on = on;
    this.parts = {};
    this.points = [];
    this.dirty = new Set(["state"]);
    this.visible = true;
    this.camera = null;
    this.decoding = false;
    this.root = document.getElementById("card").content.firstElementChild.cloneNode(true);
    this.at = (selector) => this.root.querySelector(selector);
    say(this.at(".name"), name);
    mark(this.root, "aria-label", `robot ${name}`);
    this.at(".start").addEventListener("submit", (event) => this.start(event));
    this.at(".say").addEventListener("submit", (event) => this.note(event));
    this.root.addEventListener("click", (event) => this.press(event.target.closest("button[data-do]")));
    new ResizeObserver(() => this.touch("curve")).observe(this.at(".curve"));
    this.tables = [...this.root.querySelectorAll("details")];
    for (const table of this.tables) {
      table.firstElementChild.addEventListener("click", () => (this.arranged = true));
      table.addEventListener("toggle", () => ["motion", "inputs"].forEach((part) => this.touch(part)));
    }
  }

  /** Its place among the cards. */
  place(number, robots) {
    say(this.at(".key"), number <= 10 ? String(number % 10) : "");
    if (!this.arranged) this.tables.forEach((table) => (table.open = robots <= CROWD));
  }

  // --- what the server says --------------------------------------------------------------------------------------

  update(news) {
    const { curve, quiet, ...parts } = news;
    Object.assign(this.parts, parts);
    Object.keys(parts).forEach((part) => this.dirty.add(part));
    if (parts.inputs) this.inputsAt = performance.now();
    if (curve) {
      this.points.length = curve.first;
      this.points.push(...curve.points);
      this.dirty.add("curve");
    }
    if ((quiet > QUIET_S) !== (this.quiet > QUIET_S) || quiet > QUIET_S) this.dirty.add("state");
    this.quiet = quiet;
    if (this.dirty.size) this.on.changed();
  }

  touch(part) {
    this.dirty.add(part);
    this.on.changed();
  }

  /** Put on the page what changed; called once per frame at most. */
  render() {
    if (!this.visible || !this.dirty.size) return;
    const dirty = this.dirty;
    this.dirty = new Set();
    const { status } = this.parts;
    if (dirty.has("status") || dirty.has("state") || dirty.has("presence") || dirty.has("report")) this.showState(status);
    if (dirty.has("status") && status) this.showFigures(status);
    if (dirty.has("status") || dirty.has("report") || dirty.has("presence")) this.showControls(status);
    if (dirty.has("curve") || dirty.has("band")) this.showCurve(status);
    if (dirty.has("events")) this.showEvents(this.parts.events);
    if (dirty.has("motion") && this.parts.motion) this.showMotion(this.parts.motion);
    if (dirty.has("inputs") || dirty.has("diagnostics")) this.showHealth();
    if (dirty.has("cameras")) this.showCameras(this.parts.cameras);
    if (status) this.root.dataset.stamp = status.stamp;
  }

  showState(status) {
    const presence = this.parts.presence ?? {};
    const running = status?.state === "RUNNING";
    const silent = running && this.quiet > QUIET_S;
    const worst = status?.active[0]?.severity;
    const report = this.parts.report;
    const ended = !running && report && report.episode === status?.episode ? report.outcome : null;
    const gone = presence.monitor === false;
    const tone = gone || silent ? "gone" : running ? (worst ?? "running").toLowerCase() : (ended ?? "idle");
    mark(this.root, "data-tone", tone);
    say(this.at(".symbol"), gone || silent ? "⚠" : running ? (SYMBOLS[worst] ?? "▶") : (OUTCOMES[ended] ?? "■"));
    const words = [status ? status.state : "not heard yet"];
    if (running) words.push(seconds(status.elapsed));
    if (ended) words.push(ended);
    if (gone) words.push("its monitor is gone");
    else if (silent) words.push(`silent for ${Math.round(this.quiet)} s`);
    if (presence.perception === false && !gone) words.push("no progress model runs");
    say(this.at(".state"), words.join(" · "));
    say(this.at(".task bdi"), status?.task || "no task yet");
  }

  showFigures(status) {
    say(this.at(".progress dd"), percent(status.progress));
    say(this.at(".mp dd"), percent(status.mp));
    say(this.at(".drawdown dd"), percent(status.drawdown));
    say(this.at(".arm dd"), { true: "moving", false: "still" }[status.moving] ?? ABSENT);
    say(this.at(".smoothness dd"), figure(status.smoothness, 1));
    list(
      this.at(".alarms"),
      status.active,
      () => make("li", ""),
      (item, event) => {
        mark(item, "data-severity", event.severity);
        say(item, named(event));
      },
    );
  }

  showCurve(status) {
    const band = this.parts.band?.runs ? this.parts.band : null;
    const { task, runs, trouble } = this.parts.band ?? {};
    draw(this.at(".curve"), this.points, band, status?.mp);
    const about = !this.parts.band
      ? ""
      : trouble || (runs ? `shaded: 10 to 90 % of ${runs} successful ${runs === 1 ? "run" : "runs"}` : "no successful run of this task yet");
    say(this.at(".bandnote"), about);
    mark(this.at(".bandnote"), "title", task ?? null);
    const now = `progress over time: now ${percent(status?.progress)}, best ${percent(status?.mp)}`;
    mark(this.at(".curve"), "aria-label", about ? `${now}; ${about}` : now);
  }

  showEvents(events) {
    say(this.at(".log summary span"), String(events.length));
    list(
      this.at(".events"),
      [...events].reverse(),
      () => make("li", ""),
      (item, event) => {
        mark(item, "data-severity", event.severity);
        mark(item, "data-over", event.over ? "" : null);
        const when = event.at === null ? "" : `${figure(event.at, 1)} s  `;
        const lasted = event.over && event.lasted > 0 ? `, over after ${seconds(event.lasted)}` : "";
        say(item, `${when}${named(event)}${lasted}`);
      },
    );
  }

  showMotion(motion) {
    const most = Math.max(...motion.joints.map(([, jerk]) => jerk), 1e-9);
    const worst = motion.joints.find(([, jerk]) => jerk === most);
    say(this.at(".motion summary span"), worst ? `SPARC ${figure(motion.sparc, 1)}, roughest ${worst[0]}` : "no motion yet");
    if (!this.at(".motion").open) return;
    list(
      this.at(".motion tbody"),
      motion.joints,
      () => {
        const row = make("tr");
        row.append(make("th"), make("td", "figure"), make("td", "bar"));
        row.firstChild.scope = "row";
        row.lastChild.append(make("meter"));
        return row;
      },
      (row, [joint, jerk]) => {
        say(row.children[0], joint);
        say(row.children[1], figure(jerk, 2));
        mark(row, "data-worst", jerk === most ? "" : null);
        const meter = row.children[2].firstChild;
        meter.max = most;
        meter.value = jerk;
        mark(meter, "aria-label", `jerk of ${joint}`);
      },
    );
  }

  showHealth() {
    const inputs = this.parts.inputs ?? [];
    const diagnostics = this.parts.diagnostics ?? [];
    const bad = inputs.filter((row) => row.trouble.length).length + diagnostics.length;
    const rates = inputs.filter((row) => row.rate !== null).map((row) => `${row.name} ${figure(row.rate, 0)} Hz`);
    say(this.at(".health summary span"), (bad ? `! ${bad} to look at · ` : "") + (rates.join(" · ") || "nothing heard yet"));
    if (!this.at(".health").open) return;
    const waited = (performance.now() - (this.inputsAt ?? performance.now())) / 1000;
    list(
      this.at(".health tbody"),
      inputs,
      () => {
        const row = make("tr");
        row.append(make("th"), ...["figure", "figure", "figure", ""].map((name) => make("td", name)));
        row.firstChild.scope = "row";
        return row;
      },
      (row, input) => {
        const silent = input.since + waited;
        const counts = Object.entries(input.counts).map(([what, count]) => `${count} ${what}`);
        const words = [...(silent > QUIET_S ? [`not heard for ${seconds(silent)}`] : []), ...input.trouble, ...counts];
        mark(row, "data-bad", input.trouble.length || silent > QUIET_S ? "" : null);
        say(row.children[0], input.name);
        say(row.children[1], figure(input.rate, input.rate >= 100 ? 0 : 1));
        say(row.children[2], seconds(input.age));
        say(row.children[3], String(input.lost));
        say(row.children[4], words.join(", ") || "fine");
      },
    );
    list(
      this.at(".diagnostics"),
      diagnostics,
      () => make("li"),
      (item, one) => say(item, `${one.level === "WARN" ? "!" : "✕"} ${one.name}: ${one.message}`),
    );
  }

  // --- pictures --------------------------------------------------------------------------------------------------

  showCameras(cameras) {
    if (!cameras.includes(this.camera)) this.look(cameras[0] ?? null);
    list(
      this.at(".cameras"),
      cameras.length > 1 ? cameras : [],
      () => {
        const button = make("button");
        button.type = "button";
        button.addEventListener("click", () => this.look(button.textContent));
        return button;
      },
      (button, camera) => {
        say(button, camera);
        mark(button, "aria-pressed", String(camera === this.camera));
      },
    );
  }

  look(camera) {
    this.camera = camera;
    this.at(".camera").classList.remove("has");
    mark(this.at(".picture"), "aria-label", camera ? `camera ${camera} of ${this.name}` : "no camera");
    say(this.at(".nopicture"), camera ? `no picture from ${camera} yet` : "no camera is known");
    this.touch("cameras");
    this.on.looks();
  }

  nextCamera() {
    const cameras = this.parts.cameras ?? [];
    if (cameras.length > 1) this.look(cameras[(cameras.indexOf(this.camera) + 1) % cameras.length]);
  }

  async picture(camera, blob) {
    if (camera !== this.camera || this.decoding || !this.visible) return;
    this.decoding = true;
    try {
      const bitmap = await createImageBitmap(blob);
      const canvas = this.at(".picture");
      if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
      }
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      this.at(".camera").classList.add("has");
      this.root.dataset.pictures = Number(this.root.dataset.pictures ?? 0) + 1;
    } catch {
      say(this.at(".nopicture"), `a picture from ${camera} cannot be shown`);
    } finally {
      this.decoding = false;
    }
  }

  // --- what the operator does ------------------------------------------------------------------------------------

  showControls(status) {
    const { services = {} } = this.parts.presence ?? {};
    const running = status?.state === "RUNNING";
    const last = this.lastEpisode();
    this.at(".start").hidden = running;
    this.at(".end").hidden = !running;
    this.at(".say").hidden = running || !last;
    const report = this.parts.report;
    const figures = report && report.episode === last ? `${report.outcome}, MP ${percent(report.mp)}` : "its report is being written";
    say(this.at(".about span"), last ? `${last}: ${figures}` : "");
    const link = report?.episode === last && report?.link?.startsWith("/reports/") ? report.link : null;
    this.at(".about a").hidden = !link;
    mark(this.at(".about a"), "href", link);
    const field = this.at(".newtask");
    if (!field.value && status?.task && document.activeElement !== field) field.value = status.task;
    for (const action of Object.keys(RESET)) {
      this.at(`[data-do=${action}]`).setAttribute("aria-disabled", String(!services[action]));
    }
    say(this.at(".noreset"), services.arm_reset || services.disarm_reset ? "" : "no resetter runs on this robot");
  }

  lastEpisode() {
    const { status, report } = this.parts;
    return status?.state === "RUNNING" ? null : status?.episode || report?.episode || null;
  }

  start(event) {
    event.preventDefault();
    const task = this.at(".newtask").value.trim();
    if (!task) this.answer({ fine: false, words: "say in plain words what the robot has to do" });
    else this.ask({ do: "start", task });
  }

  async note(event) {
    event.preventDefault();
    const field = this.at(".note");
    if (!field.value.trim()) this.answer({ fine: false, words: "the note is empty" });
    else if (await this.label("", field.value)) field.value = "";
  }

  async press(button) {
    if (!button) return;
    const action = button.dataset.do;
    if (action in RESET) this.reset(action);
    else if (action === "end") this.end(button.dataset.label);
    else if (action === "label") {
      const field = this.at(".note");
      const note = button.dataset.label ? field.value : "";
      if ((await this.label(button.dataset.label, note)) && note) field.value = "";
    }
  }

  end(label) {
    if (this.parts.status?.state !== "RUNNING") this.answer({ fine: false, words: "no attempt is running" });
    else this.ask({ do: "end", episode: this.parts.status.episode, label: label || null });
  }

  label(label, note) {
    const who = document.getElementById("who");
    if (!who.value.trim()) {
      who.focus();
      this.answer({ fine: false, words: "say who you are first, at the top: a label names who said it" });
      return false;
    }
    return this.ask({ do: "label", episode: this.lastEpisode() ?? "", label: label || null, note: note.trim() });
  }

  reset(action) {
    if (this.parts.presence?.services?.[action]) this.ask({ do: action });
    else this.answer({ fine: false, words: `cannot ${RESET[action]}: no resetter runs on this robot` });
  }

  async ask(command) {
    this.answer({ fine: true, words: "…" });
    const answer = await this.on.ask({ ...command, robot: this.name });
    this.answer(answer);
    return answer.fine;
  }

  answer({ fine, words }) {
    say(this.at(".answer"), fine ? words : `✕ ${words}`);
    mark(this.at(".answer"), "data-fine", String(fine));
  }

  /** A key pressed while this card has the focus; says whether it meant something. */
  key(key) {
    const running = this.parts.status?.state === "RUNNING";
    if (key === "s" && !running) this.at(".newtask").select();
    else if (key === "g" || key === "b" || key === "e") this.end({ g: "success", b: "failure", e: "" }[key]);
    else if (key === "n" && this.lastEpisode()) this.at(".note").focus();
    else if (key === "a") this.reset("arm_reset");
    else if (key === "d") this.reset("disarm_reset");
    else if (key === "c") this.nextCamera();
    else return false;
    return true;
  }
}
