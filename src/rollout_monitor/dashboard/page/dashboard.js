// The page: cards for robots, the table of past episodes, the connection, the sound and the keys.

import { Alarm } from "/page/alarm.js";
import { Card, CROWD } from "/page/card.js";
import { say } from "/page/dom.js";
import { Link } from "/page/link.js";
import { Past } from "/page/past.js";

const KEPT_NAME = "rollout-monitor.who";
const MOST_RUNG = 1000;

const at = (id) => document.getElementById(id);
const cards = new Map();
const byRoot = new Map();
const rung = new Set(); // ERRORs that were sounded, or were there before the page was
const alarm = new Alarm(at("sound"));
const past = new Past();
let version = null;
let fresh = true; // the first news after a connection tells what is, not what happens

const link = new Link({
  hello(message) {
    if (version !== null && version !== message.version) location.reload();
    version = message.version;
    fresh = true;
    lookAt();
    past.load();
  },
  news(robots) {
    for (const [name, news] of Object.entries(robots)) {
      const card = cards.get(name) ?? add(name);
      card.update(news);
      if (news.report && !fresh) past.load();
      if (news.status || news.events) sound(card);
    }
    // A server that was started anew has yet to find its robots.
    if (fresh) for (const card of cards.values()) if (!(card.name in robots)) card.update({ presence: { monitor: false } });
    fresh = false;
    summarise();
  },
  picture: ({ robot, camera }, blob) => cards.get(robot)?.picture(camera, blob),
  state(state) {
    document.body.className = { open: "", lost: "lost", closed: "waiting" }[state];
    at("login").hidden = state !== "closed";
    if (state === "closed") useFragment();
    tellConnection();
  },
});

// --- cards -------------------------------------------------------------------------------------------------------

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) byRoot.get(entry.target).visible = entry.isIntersecting;
    lookAt();
    drawSoon();
  },
  { rootMargin: "100px" },
);

function add(name) {
  const who = () => at("who").value.trim();
  const ask = async (command) => {
    const answer = await link.ask({ ...command, who: who() });
    if (answer.fine && command.do === "label") past.load();
    return answer;
  };
  const card = new Card(name, { ask, looks: lookAt, changed: drawSoon });
  cards.set(name, card);
  byRoot.set(card.root, card);
  at("cards").append(card.root);
  seen.observe(card.root);
  at("nobody").hidden = true;
  at("cards").classList.toggle("crowd", cards.size > CROWD);
  [...cards.values()].forEach((one, index) => one.place(index + 1, cards.size));
  return card;
}

/** Tell the server which pictures are looked at: those of cards on the screen, and none of a hidden page. */
function lookAt() {
  const shown = document.hidden ? [] : [...cards.values()].filter((card) => card.visible && card.camera);
  link.tell({ cameras: shown.map((card) => [card.name, card.camera]) });
}
document.addEventListener("visibilitychange", lookAt);

let drawing = false;

/** Draw what changed, in the next frame; a page on which nothing changes costs nothing. */
function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const card of cards.values()) card.render();
  });
}

setInterval(() => {
  for (const card of cards.values()) card.touch("inputs"); // ages go on although nothing comes
  tellConnection();
}, 1000);

function summarise() {
  const all = [...cards.values()];
  const running = all.filter((card) => card.parts.status?.state === "RUNNING").length;
  const errors = all.filter((card) => card.parts.status?.active.some((event) => event.severity === "ERROR")).length;
  const robots = `${all.length} ${all.length === 1 ? "robot" : "robots"}`;
  say(at("summary"), all.length ? `${robots} · ${running} running${errors ? ` · ✕ ${errors} with errors` : ""}` : "no robot yet");
  const title = `${errors ? `✕ ${errors} · ` : ""}rollout-monitor`;
  if (document.title !== title) document.title = title;
}

// --- connection --------------------------------------------------------------------------------------------------

function tellConnection() {
  const lost = link.state === "lost";
  at("connection").hidden = !lost || version === null;
  if (!lost || version === null) return;
  const ago = Math.round((performance.now() - link.heard) / 1000);
  say(at("connection"), `✕ Connection lost ${ago} s ago. What is shown is old. Trying again …`);
}

async function login(token) {
  const answer = await fetch("/api/login", { method: "POST", body: JSON.stringify({ token }) }).catch(() => null);
  say(at("login-answer"), answer?.ok ? "" : answer ? "✕ this is not the token" : "✕ not connected");
  if (answer?.ok) {
    at("token").value = "";
    link.connect();
  }
}

/** A token behind '#' never leaves the browser by itself; it is used once and taken out of the address. */
function useFragment() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  login(token);
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  login(at("token").value.trim());
});

// --- sound -------------------------------------------------------------------------------------------------------

function sound(card) {
  const events = [...(card.parts.status?.active ?? []), ...(card.parts.events ?? [])];
  for (const event of events) {
    if (event.severity !== "ERROR") continue;
    const key = `${card.name}|${event.episode}|${event.id}`;
    if (rung.has(key)) continue;
    if (rung.size >= MOST_RUNG) rung.delete(rung.values().next().value);
    rung.add(key);
    if (fresh) continue;
    alarm.ring();
    say(at("announce"), `${card.name}: ${event.kind} ${event.reason}`);
  }
}

// --- keys --------------------------------------------------------------------------------------------------------

const keys = {
  "?": () => at("keys").showModal(),
  m: () => alarm.toggle(),
  "/": () => at("words").focus(),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat || at("keys").open) return;
  const focused = document.activeElement;
  const card = byRoot.get(focused?.closest?.(".card"));
  if (focused?.matches?.("input, select, textarea")) {
    if (event.key === "Escape") (card?.root ?? at("robots")).focus();
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[0-9]$/.test(key)) {
    const chosen = [...cards.values()][(Number(key) + 9) % 10];
    chosen?.root.focus();
    chosen?.root.scrollIntoView({ block: "nearest" });
  } else if (keys[key]) keys[key]();
  else if (!card?.key(key)) return;
  event.preventDefault();
});

at("help").addEventListener("click", () => at("keys").showModal());
at("who").value = localStorage.getItem(KEPT_NAME) ?? "";
at("who").addEventListener("change", () => localStorage.setItem(KEPT_NAME, at("who").value.trim()));

link.connect();
