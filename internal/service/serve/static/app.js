// Pages work without this script. With it, numbers of running crawls follow the event stream, and parts of the page are asked for again when they have changed.

const { base, since } = document.documentElement.dataset;
const live = document.querySelector("[data-live]");
const connection = document.getElementById("connection");

const whole = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
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
    return s < 60 ? s + " s" : (h ? h + "h" : "") + m + "m" + (s % 60) + "s";
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

// editing says whether a field within an element is being filled in. Its text must not be lost then.
function editing(root) {
  return [...root.querySelectorAll("input:not([type=hidden]), textarea")].some((f) => f === document.activeElement || f.value !== f.defaultValue || f.checked !== f.defaultChecked);
}

// inUse says whether the pointer or the keyboard is in a part. Its rows must not move then.
function inUse(part) {
  return editing(part) || part.matches(":hover") && part.querySelector("table:hover, details:hover, a:hover") !== null || part.contains(document.activeElement) && document.activeElement !== document.body;
}

// load asks for a part again and puts it in its place. It returns false if that must wait.
async function load(id) {
  const part = document.getElementById(id);
  if (!part?.dataset.part) return true;
  if (inUse(part)) return hold(part);
  const answer = await fetch(part.dataset.part + location.search, { headers: { Accept: "text/html" } });
  if (answer.status === 204) return reload(); // the crawl does not run any more
  if (answer.redirected) return reload(); // the session has ended: the login page follows
  if (!answer.ok) return true;
  const made = document.createElement("template");
  made.innerHTML = await answer.text();
  const now = document.getElementById(id);
  if (inUse(now)) return hold(now);
  const open = [...now.querySelectorAll("details[open] > summary")].map((s) => s.textContent);
  const same = made.content.getElementById(id);
  if (same) now.replaceWith(same);
  else now.replaceChildren(made.content);
  const shown = document.getElementById(id);
  shown.classList.remove("held");
  for (const summary of shown.querySelectorAll("details > summary")) if (open.includes(summary.textContent)) summary.parentElement.open = true;
  return true;
}

// reload loads the whole page again. It returns false if that must wait.
function reload() {
  if (editing(document.querySelector("main"))) return false;
  location.reload();
  return true;
}

function hold(part) {
  part.classList.add("held");
  return false;
}

// refresh loads a part once at a time, and again a second later if it must wait or something happened meanwhile.
const busy = new Map(); // by part: whether it is to be loaded again
async function refresh(id) {
  if (busy.has(id)) return busy.set(id, true);
  busy.set(id, false);
  const loaded = await load(id).catch(() => true); // the stream says that the server is away
  const again = busy.get(id) || !loaded;
  busy.delete(id);
  if (again) setTimeout(refresh, 1000, id);
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
  last = event.lastEventId;
  const { crawl: id, type } = JSON.parse(event.data);
  if (crawl === "crawls") return refresh("groups");
  if (id !== crawl) return;
  const head = document.getElementById("crawl-head");
  const calm = !head || !inUse(head);
  if (calm && ["crawl.started", "crawl.paused", "crawl.finished", "crawl.deleted"].includes(type) && reload()) return;
  refresh("crawl-head");
}

const changes = ["crawl.queued", "crawl.started", "crawl.pausing", "crawl.paused", "crawl.resumed", "crawl.finishing", "crawl.finished", "crawl.deleted"];
let stream = null;
let last = since; // the last event that the page shows

function connect() {
  if (stream || !crawl || document.hidden) return;
  stream = new EventSource(base + "/v1/events?since=" + last);
  stream.addEventListener("open", () => { connection.textContent = "Live"; });
  stream.addEventListener("error", () => {
    connection.textContent = "Not connected: numbers are those of the last moment. Trying again.";
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser tries again
    // The server, or a proxy before it, has refused. A browser gives up then.
    stream = null;
    setTimeout(follow, 3000);
  });
  stream.addEventListener("sample", onSample);
  for (const type of changes) stream.addEventListener(type, onChange);
}

// A browser opens few connections to one server, so a page that nobody sees has none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else {
    follow();
  }
});

// follow connects, and loads what may have changed meanwhile.
function follow() {
  connect();
  for (const id of ["groups", "crawl-head", "live"]) refresh(id);
}
connect();
