// The page at /: a chat with the model, and its memory as it changes.  No framework, no build; all
// text that a server or a model sent becomes text nodes, never markup.

const $ = (id) => document.getElementById(id);

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// ---- the server ----

let key = sessionStorage.getItem("growpage-key") || "";
let asking = null;

// One dialog, however many requests were refused.
function askForKey() {
  asking ||= new Promise((resolve) => {
    $("key").addEventListener("close", () => {
      key = $("key-text").value.trim();
      sessionStorage.setItem("growpage-key", key);
      asking = null;
      resolve();
    }, { once: true });
    $("key").showModal();
  });
  return asking;
}

async function ask(path, options = {}) {
  for (;;) {
    const headers = { ...options.headers };
    if (key) headers.Authorization = `Bearer ${key}`;
    const answer = await fetch(path, { ...options, headers });
    if (answer.status !== 401) return answer;
    await askForKey();
  }
}

async function errorOf(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return `the server answered ${answer.status}`;
  }
}

// The data of server-sent events, parsed; [DONE] ends them.
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      if (!frame.startsWith("data: ")) continue;
      if (frame === "data: [DONE]") return;
      yield JSON.parse(frame.slice(6));
    }
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- markdown ----

const SPANS = /(`+)(.+?)\1|\*\*(.+?)\*\*|\*(\S(?:.*?\S)?)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;

function inline(text) {
  const nodes = [];
  let at = 0;
  for (const m of text.matchAll(SPANS)) {
    nodes.push(text.slice(at, m.index));
    if (m[2] !== undefined) nodes.push(make("code", "", m[2]));
    else if (m[3] !== undefined) nodes.push(make("strong", "", ...inline(m[3])));
    else if (m[4] !== undefined) nodes.push(make("em", "", ...inline(m[4])));
    else {
      const link = make("a", "", m[5]);
      link.href = m[6];
      link.rel = "noreferrer";
      link.target = "_blank";
      nodes.push(link);
    }
    at = m.index + m[0].length;
  }
  nodes.push(text.slice(at));
  return nodes.filter((node) => node !== "");
}

function withBreaks(lines) {
  return lines.flatMap((line, i) => (i ? [make("br"), ...inline(line)] : inline(line)));
}

// Fences, headings, lists and paragraphs: what models write in a chat.
function markdown(text) {
  const blocks = [];
  const lines = text.split("\n");
  const item = /^\s*(?:[-*+]|(\d+)[.)])(?:\s+(.*)|$)/;
  for (let i = 0; i < lines.length;) {
    const fence = lines[i].match(/^\s*(```+|~~~+)/);
    const heading = lines[i].match(/^#{1,6}\s+(.*)/);
    const first = lines[i].match(item);
    if (fence) {
      const code = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[1]); i++) code.push(lines[i]);
      i++;
      blocks.push(make("pre", "", make("code", "", code.join("\n"))));
    } else if (heading) {
      blocks.push(make("h3", "", ...inline(heading[1])));
      i++;
    } else if (first) {
      const list = make(first[1] ? "ol" : "ul");
      if (first[1]) list.start = Number(first[1]);
      for (let m; i < lines.length && (m = lines[i].match(item)); i++) {
        list.append(make("li", "", ...inline(m[2] ?? "")));
        if (!lines[i + 1]?.trim() && lines[i + 2]?.match(item)) i++; // a loose list is one list
      }
      blocks.push(list);
    } else if (!lines[i].trim()) {
      i++;
    } else {
      const paragraph = [];
      for (; i < lines.length && lines[i].trim() && !lines[i].match(item) && !lines[i].match(/^(\s*```|#{1,6}\s)/); i++)
        paragraph.push(lines[i]);
      blocks.push(make("p", "", ...withBreaks(paragraph)));
    }
  }
  return blocks;
}

// ---- options ----

const remembered = JSON.parse(localStorage.getItem("growpage-options") || "{}");

function initOptions() {
  for (const input of $("options").querySelectorAll("input, select")) {
    if (input.id in remembered) {
      if (input.type === "checkbox") input.checked = remembered[input.id];
      else input.value = remembered[input.id];
    }
    input.addEventListener("change", () => {
      remembered[input.id] = input.type === "checkbox" ? input.checked : input.value;
      localStorage.setItem("growpage-options", JSON.stringify(remembered));
      $("o-budget").disabled = $("o-policy").value !== "fixed";
    });
  }
  $("o-budget").disabled = $("o-policy").value !== "fixed";
  $("options-toggle").addEventListener("click", () => {
    $("options").hidden = !$("options").hidden;
    $("options-toggle").setAttribute("aria-expanded", String(!$("options").hidden));
  });
}

function setNumbers(target, ...names) {
  for (const name of names) {
    const value = $("o-" + name).value;
    if (value !== "") target[name] = Number(value);
  }
}

function bodyOf(messages) {
  const system = $("o-system").value.trim();
  const kv = { stats: true };
  const body = {
    messages: system ? [{ role: "system", content: system }, ...messages] : messages,
    stream: true,
    stream_options: { include_usage: true },
    kv,
  };
  setNumbers(body, "temperature", "top_p", "max_tokens", "seed");
  setNumbers(kv, "initial_pages", "threshold");
  const policy = $("o-policy").value;
  if (policy) kv.policy = policy === "fixed" ? `fixed:${$("o-budget").value}` : policy;
  if (!$("o-thinking").checked) body.chat_template_kwargs = { enable_thinking: false };
  return body;
}

// ---- chat ----

let messages = [];
let running = null; // the AbortController of the answer that comes

function scrollDown(force) {
  const log = $("log");
  if (force || log.scrollHeight - log.scrollTop - log.clientHeight < 120) log.scrollTop = log.scrollHeight;
}

// One answer on the screen.  It is painted at most once a frame, however fast tokens come.
class Answer {
  constructor() {
    this.content = "";
    this.thought = "";
    this.began = performance.now();
    this.thoughtText = make("div");
    this.thoughtTitle = make("summary", "", "Thinking…");
    this.thoughtBox = make("details", "thought", this.thoughtTitle, this.thoughtText);
    this.thoughtBox.open = true;
    this.text = make("div", "text");
    this.foot = make("div", "foot");
    this.box = make("article", "answer busy", this.text, this.foot);
    this.box.setAttribute("aria-label", "Answer");
    $("log").append(this.box);
  }

  add(delta) {
    this.firstToken ??= performance.now();
    if (delta.reasoning_content) {
      if (!this.thought) this.box.prepend(this.thoughtBox);
      this.thought += delta.reasoning_content;
    }
    if (delta.content && !this.content && this.thought) this.endThought();
    this.content += delta.content || "";
    this.paintSoon();
  }

  endThought() {
    const seconds = (performance.now() - this.firstToken) / 1000;
    this.thoughtTitle.textContent = `Thought for ${seconds.toFixed(1)} s`;
    this.thoughtBox.open = false;
  }

  paintSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.paint();
    });
  }

  paint() {
    this.thoughtText.textContent = this.thought;
    this.thoughtText.scrollTop = this.thoughtText.scrollHeight;
    this.text.replaceChildren(...markdown(this.content));
    scrollDown();
  }

  end({ usage, kv, reason, error }) {
    const seconds = (performance.now() - (this.firstToken ?? this.began)) / 1000;
    const words = [];
    if (usage) words.push(`${usage.completion_tokens} tokens`, `${(usage.completion_tokens / seconds).toFixed(1)} tok/s`);
    if (kv) words.push(`${kv.policy}: ${kv.pages_peak} pages at most, ${kv.grow + kv.start + kv.initial} grown, ${kv.compress} compressed`);
    if (reason === "length") words.push("cut by the length limit");
    if (reason === "stopped") words.push("stopped");
    if (this.thought && !this.content) this.endThought();
    this.box.classList.remove("busy");
    this.paint();
    this.foot.textContent = words.join(" · ");
    if (error) this.box.append(make("div", "error", error));
    scrollDown();
  }
}

function setBusy(busy) {
  $("send").hidden = busy;
  $("stop").hidden = !busy;
  $("log").setAttribute("aria-busy", String(busy));
}

async function readAnswer(answer, shown) {
  let usage, kv, reason;
  for await (const event of eventsOf(answer)) {
    if (event.error) throw new Error(event.error.message);
    if (event.usage) usage = event.usage;
    const choice = event.choices[0];
    if (!choice) continue;
    if (choice.delta.content || choice.delta.reasoning_content) shown.add(choice.delta);
    if (choice.finish_reason) ({ finish_reason: reason, kv } = choice);
  }
  return { usage, kv, reason };
}

async function send(text) {
  messages.push({ role: "user", content: text });
  $("welcome")?.remove();
  $("log").append(make("div", "own", text));
  const shown = new Answer();
  running = new AbortController();
  setBusy(true);
  scrollDown(true);
  let result;
  try {
    const answer = await ask("/v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(bodyOf(messages)),
      signal: running.signal,
    });
    if (!answer.ok) throw new Error(await errorOf(answer));
    result = await readAnswer(answer, shown);
  } catch (e) {
    result = e.name === "AbortError" ? { reason: "stopped" } : { error: e.message };
  }
  running = null;
  setBusy(false);
  shown.end(result);
  if (shown.content) messages.push({ role: "assistant", content: shown.content });
  else messages.pop(); // a question without an answer would be asked twice
}

function initChat() {
  const text = $("text");
  const fit = () => {
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight + 2}px`;
  };
  text.addEventListener("input", fit);
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $("composer").requestSubmit();
  });
  $("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (!said || running) return;
    text.value = "";
    fit();
    send(said);
  });
  $("stop").addEventListener("click", () => {
    running?.abort();
    text.focus();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && running?.abort());
  $("clear").addEventListener("click", () => {
    running?.abort();
    messages = [];
    $("log").replaceChildren();
    text.focus();
  });
}

// ---- memory ----

const HUES = [174, 28, 262, 340, 205, 90, 48, 300, 140, 12, 225, 190];
const KEEP_ENDED_MS = 8000;
const EVENTS_SHOWN = 80;
const DELTAS_SHOWN = 60;

// What is known of each request, by id and choice; its row lives as long as this.
const requests = new Map();
let pool = null;
let seen = 0;

const colour = (request, alpha = 1) => `hsl(${HUES[request.number % HUES.length]} 62% 48% / ${alpha})`;
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(4);

function chip(request) {
  const element = make("span", "chip");
  element.style.background = colour(request);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

// The deltas of a request over its boundaries, around zero.
function spark(deltas) {
  const svg = document.createElementNS(SVG, "svg");
  const top = Math.max(...deltas.map(Math.abs), 1e-6);
  const x = (i) => (deltas.length > 1 ? (i * 118) / (deltas.length - 1) + 1 : 60);
  const y = (d) => 13 - (d / top) * 11;
  const zero = document.createElementNS(SVG, "line");
  const line = document.createElementNS(SVG, "polyline");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 120 26");
  svg.setAttribute("aria-hidden", "true");
  zero.setAttribute("class", "zero");
  for (const [name, value] of [["x1", 0], ["x2", 120], ["y1", 13], ["y2", 13]]) zero.setAttribute(name, value);
  line.setAttribute("class", "line");
  line.setAttribute("points", deltas.map((d, i) => `${x(i).toFixed(1)},${y(d).toFixed(1)}`).join(" "));
  svg.append(zero, line);
  return svg;
}

const CAUSES = {
  start: "no history yet", initial: "first pages", pressure: "room to spare", capped: "at its maximum",
  fallback: "pool is full", policy: "",
};

function eventWords(event) {
  const pages = `${event.pages_before} → ${event.pages_after} pages`;
  const why = CAUSES[event.cause] ? ` (${CAUSES[event.cause]})` : "";
  if (event.action === "grow") return ["grow", `▲ grew ${pages}${why}`];
  if (event.action === "shrink") return ["compress", `▽ gave back ${pages}${why}`];
  return ["compress", `◆ compressed in ${event.pages_after} pages${why}`];
}

function logEvent(request, className, words, delta) {
  const list = $("events");
  list.querySelector(".none")?.remove();
  list.prepend(make("li", "", make("time", "", new Date().toLocaleTimeString([], { hour12: false })), chip(request),
    make("span", className, words), make("span", "end", delta == null ? "" : `Δ ${signed(delta)}`)));
  while (list.children.length > EVENTS_SHOWN) list.lastChild.remove();
}

function noteEvents(request, state) {
  for (const event of state.events) {
    logEvent(request, ...eventWords(event), event.delta);
    if (event.delta != null) request.deltas.push(event.delta);
  }
  request.deltas.splice(0, request.deltas.length - DELTAS_SHOWN);
  if (state.kv.preemptions > request.preemptions) logEvent(request, "bad", "▼ preempted: its pages went to others");
  request.preemptions = state.kv.preemptions;
}

function takeRequest(state) {
  const id = `${state.id_task}/${state.choice}`;
  let request = requests.get(id);
  if (!request) {
    request = { number: seen++, deltas: [], preemptions: 0, row: make("li") };
    requests.set(id, request);
    $("requests").prepend(request.row);
  }
  noteEvents(request, state);
  request.state = state;
  if (state.state === "ended") request.endedAt ??= Date.now();
  return id;
}

// Pages that another request, or another answer to the same prompt, had filled before: as far as can be
// told from here.  A compaction gives a request pages of its own.
function reusedPages({ state, choice, kv, next_token: { n_prompt: prompt } }) {
  if (state !== "running" || kv.tokens_kept < kv.tokens_logical - 1) return 0;
  return Math.floor(Math.max(kv.cached_prompt_tokens, choice > 0 ? prompt - 1 : 0) / pool.page_size);
}

function paintRow(request) {
  const { state } = request;
  const { kv } = state;
  const budget = kv.budget_pages == null ? "" : ` of ${kv.budget_pages}`;
  const kept = state.state === "running" && kv.tokens_kept < kv.tokens_logical - 1 // the newest is still to come
    ? `${kv.tokens_kept.toLocaleString()} of ${kv.tokens_logical.toLocaleString()} tokens kept`
    : `${kv.tokens_logical.toLocaleString()} tokens`;
  const reused = reusedPages(state);
  const pages = state.state === "running"
    ? `${kv.pages}${budget} pages${reused ? `, ${reused} reused` : ""}` : state.state;
  const head = make("div", "row", chip(request), make("b", "", `#${request.number + 1}`), state.policy, make("span", "end", pages));
  const foot = make("div", "row dim", kept);
  if (request.deltas.length > 0)
    foot.append(make("span", "end", `Δ ${signed(request.deltas.at(-1))}`), spark(request.deltas));
  request.row.className = request.endedAt ? "ended" : "";
  request.row.replaceChildren(head, foot);
}

// Cells as large as fit the height; several pages share one only when they must.
function layout(pages, width, height) {
  for (let size = 18; size >= 5; size--) {
    const columns = Math.floor(width / size);
    if (Math.ceil(pages / columns) * size <= height) return { size, columns, per: 1 };
  }
  const columns = Math.floor(width / 5);
  return { size: 5, columns, per: Math.ceil(pages / (columns * Math.floor(height / 5))) };
}

function paintMap() {
  const canvas = $("map");
  const width = canvas.clientWidth;
  if (!pool || width === 0) return;
  const { size, columns, per } = layout(pool.pages, width, 240);
  const cells = Math.ceil(pool.pages / per);
  const scale = devicePixelRatio;
  const height = Math.ceil(cells / columns) * size;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const c = canvas.getContext("2d");
  c.scale(scale, scale);
  const gap = size > 8 ? 2 : 1;
  const side = size - gap;
  let at = 0;
  const cell = (style, share = 1) => {
    const x = (at % columns) * size, y = Math.floor(at / columns) * size;
    c.fillStyle = style;
    c.fillRect(x, y + side * (1 - share), side, side * share);
  };
  const held = [...requests.values()].filter((request) => request.state.state === "running");
  // A shared page is one square, of the first who holds it.
  let twice = held.reduce((sum, request) => sum + request.state.kv.pages, 0) - pool.pages_used;
  for (const request of held) {
    const { kv } = request.state;
    const slots = pool.page_size * per;
    const shared = Math.max(0, Math.min(twice, reusedPages(request.state)));
    twice -= shared;
    for (let i = Math.floor(shared / per); i < Math.ceil(kv.pages / per) && at < cells; i++, at++) {
      cell(colour(request, 0.3));
      cell(colour(request), Math.min(1, Math.max(0, kv.tokens_kept - i * slots) / slots));
    }
  }
  const free = getComputedStyle(document.documentElement).getPropertyValue("--free");
  for (; at < cells; at++) cell(free);
  const each = per > 1 ? `A square is ${per} pages` : "A square is a page";
  $("legend").textContent = `${each} of ${pool.page_size} tokens, coloured by who holds it and filled as far as it is used; grey ones are free. What requests share is drawn once.`;
}

// Tokens a second, over what the pictures of the last seconds said.
const SPEED_MS = 3000;
let samples = [];

function takeSpeed(tokens) {
  const now = performance.now();
  samples.push({ now, tokens });
  while (samples.length > 2 && now - samples[1].now > SPEED_MS) samples.shift();
}

function speed() {
  const { now: from, tokens } = samples[0], { now: to, tokens: last } = samples.at(-1);
  return to - from > 500 ? ((last - tokens) * 1000) / (to - from) : 0;
}

function paintPool(state) {
  const used = pool.pages_used / pool.pages;
  const mib = (pool.bytes / 1048576).toLocaleString([], { maximumFractionDigits: 0 });
  $("pool").textContent = `${pool.pages_used.toLocaleString()} of ${pool.pages.toLocaleString()} pages in use (${mib} MiB in all) · ` +
    `${state.running} running · ${state.waiting} waiting · ${speed().toFixed(1)} tok/s`;
  $("meter").firstElementChild.style.width = `${100 * used}%`;
  $("meter").setAttribute("aria-valuenow", used.toFixed(3));
}

function takePicture(state) {
  pool = state.pool;
  takeSpeed(state.output_tokens);
  if (state.running === 0) samples = samples.slice(-1);
  const present = new Set([...state.requests, ...(state.ended || [])].map(takeRequest));
  for (const [id, request] of requests) {
    if (!present.has(id)) {
      request.state.state = "ended";
      request.endedAt ??= Date.now();
    }
    paintRow(request);
  }
  paintPool(state);
  paintMap();
  $("requests").querySelector(".none")?.remove();
  if (requests.size === 0) $("requests").append(make("li", "dim none", "Nothing runs."));
}

function forgetEnded() {
  for (const [id, request] of requests)
    if (request.endedAt && Date.now() - request.endedAt > KEEP_ENDED_MS) {
      request.row.remove();
      requests.delete(id);
    }
  if (requests.size === 0 && !$("requests").firstElementChild)
    $("requests").append(make("li", "dim none", "Nothing runs."));
}

function setLive(on, words) {
  $("live").classList.toggle("on", on);
  $("live").textContent = words;
}

async function watchMemory() {
  for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
    try {
      const answer = await ask("/v1/kv/events");
      if (answer.ok) {
        setLive(true, "live");
        if (!$("model").textContent) nameModel();
        wait = 500;
        for await (const state of eventsOf(answer)) takePicture(state);
      }
      setLive(false, answer.status === 503 ? "loading the model" : "reconnecting");
    } catch {
      setLive(false, "server not reachable");
    }
    await pause(wait);
  }
}

async function nameModel() {
  const answer = await ask("/v1/models");
  if (!answer.ok) return;
  const { id, max_model_len: context } = (await answer.json()).data[0];
  $("model").textContent = `${id} · ${context.toLocaleString()} tokens of context`;
}

// ---- the frame ----

function initFrame() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const chosen = localStorage.getItem("growpage-theme");
  if (chosen) root.dataset.theme = chosen;
  $("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("growpage-theme", root.dataset.theme);
    paintMap();
  });
  for (const button of document.querySelectorAll("button.view"))
    button.addEventListener("click", () => {
      document.body.dataset.view = button.dataset.view;
      for (const other of document.querySelectorAll("button.view"))
        other.setAttribute("aria-pressed", String(other === button));
      paintMap();
    });
  new ResizeObserver(paintMap).observe($("memory"));
}

initFrame();
initOptions();
initChat();
setInterval(forgetEnded, 1000);
watchMemory();
