// Pages work without this script. With it, numbers of running crawls follow the event stream, and parts of the page are asked for again when they have changed.

const base = document.documentElement.dataset.base;
const live = document.querySelector("[data-live]");
const connection = document.getElementById("connection");

const whole = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const formats = {
  pages_per_second_now: (n) => decimal.format(n),
  bytes: (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
    return (unit && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + units[unit];
  },
  elapsed_seconds: (n) => {
    const s = Math.floor(n);
    const [h, m] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
    return (h ? h + "h" : "") + (s >= 60 ? m + "m" : "") + (s % 60) + "s";
  },
};

// setFields writes the numbers of a sample into the elements that name them.
function setFields(root, sample) {
  for (const element of root.querySelectorAll("[data-field]")) {
    const value = sample[element.dataset.field];
    if (value === undefined) continue;
    const text = (formats[element.dataset.field] ?? ((n) => whole.format(n)))(value);
    if (element.textContent !== text) element.textContent = text;
  }
}

// inUse says whether the pointer or the keyboard is in a part. Its rows must not move then.
function inUse(part) {
  return part.matches(":hover") && part.querySelector("table:hover, details:hover, a:hover") !== null || part.contains(document.activeElement) && document.activeElement !== document.body;
}

// refresh asks for a part again. A part that is in use is asked for later.
const waiting = new Set();
async function refresh(id) {
  const part = document.getElementById(id);
  if (!part?.dataset.part || waiting.has(id)) return;
  waiting.add(id);
  try {
    const answer = await fetch(part.dataset.part + location.search, { headers: { Accept: "text/html" } });
    if (answer.status === 204) return location.reload(); // the crawl does not run any more
    if (answer.redirected || !answer.ok) return;
    const text = await answer.text();
    const now = document.getElementById(id);
    if (!now || inUse(now)) return now?.classList.add("held");
    const made = document.createElement("template");
    made.innerHTML = text;
    const same = made.content.getElementById(id);
    const open = [...now.querySelectorAll("details[open]")].map((d) => d.querySelector("summary").textContent);
    if (same) now.replaceWith(same);
    else now.replaceChildren(made.content);
    const shown = document.getElementById(id);
    shown.classList.remove("held");
    for (const d of shown.querySelectorAll("details")) d.open ||= open.includes(d.querySelector("summary").textContent);
  } catch {
    // The stream says that the server is away.
  } finally {
    waiting.delete(id);
  }
}

const crawl = live?.dataset.live;
let refreshed = performance.now();

function onSample(event) {
  const { crawl: id, data } = JSON.parse(event.data);
  if (crawl === "crawls") {
    const row = document.querySelector(`tr[data-crawl="${CSS.escape(id)}"]`);
    if (row) setFields(row, data);
    return;
  }
  if (id !== crawl) return;
  setFields(document.getElementById("live"), data);
  if (performance.now() - refreshed > 3000) {
    refreshed = performance.now();
    refresh("live");
  }
}

// onChange follows what happened to a crawl: its state, its buttons, its place in lists.
function onChange(event) {
  const { crawl: id, type } = JSON.parse(event.data);
  if (crawl === "crawls") return refresh("groups");
  if (id !== crawl) return;
  const head = document.getElementById("crawl-head");
  const calm = !head || !inUse(head);
  if (calm && ["crawl.started", "crawl.paused", "crawl.finished", "crawl.deleted"].includes(type)) return location.reload();
  refresh("crawl-head");
}

const changes = ["crawl.queued", "crawl.started", "crawl.pausing", "crawl.paused", "crawl.resumed", "crawl.finishing", "crawl.finished", "crawl.deleted"];
let stream = null;

function connect() {
  if (stream || !crawl || document.hidden) return;
  stream = new EventSource(base + "/v1/events");
  stream.addEventListener("open", () => { connection.textContent = "Live"; });
  stream.addEventListener("error", () => { connection.textContent = "Not connected: numbers are those of the last moment. Trying again."; });
  stream.addEventListener("sample", onSample);
  for (const type of changes) stream.addEventListener(type, onChange);
}

// A browser opens few connections to one server, so a page that nobody sees has none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else {
    connect();
    for (const id of ["groups", "crawl-head", "live"]) refresh(id);
  }
});
connect();
