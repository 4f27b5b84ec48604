// What surrounds every screen: navigation, search, space, connection, theme, help, toasts.
import { html, cx, useState, useRef, useEffect } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Command, Dialog, Json, Kbd, Line, useKeys } from "./ui.js";
import { go, href } from "./router.js";
import { get, url } from "./api.js";
import { retryNow } from "./live.js";
import { usePending } from "./decisions.js";
import { useQuery } from "./query.js";
import { relative } from "./format.js";
import { Views } from "./views.js";
import { state, dismiss, leave, setTheme, useApp } from "./state.js";

const PLACES = [
  ["overview", "Overview", "o"], ["review", "Review", "i"], ["runs", "Runs", "r"], ["sessions", "Sessions", "s"],
  ["memory", "Memory", "m"], ["files", "Files", "f"], ["threads", "Threads", "t"], ["operations", "Operations", "p"],
];
const HELP = [
  ["Anywhere", [["/", "search"], ["g then o i r s m f t p", "go to a screen"], ["w", "saved views"], ["t", "dark or light"], ["?", "this list"], ["Esc", "close"]]],
  ["Review", [["j  k", "next, previous"], ["a", "accept"], ["r", "reject with a reason"], ["e", "propose another text"], ["x", "select"], ["Shift a", "accept the selected"]]],
  ["Run", [["[  ]", "one step back, forward"], ["n", "back to now"], ["f", "fork from here"]]],
  ["Memory", [["j  k", "next, previous"]]],
  ["Session", [["[  ]", "smaller, larger budget"], ["v", "open all tool calls"]]],
];

const useCounts = () => ({
  review: usePending().length, threads: useQuery("threads/dead", { limit: 100 }, ["threads"]).data?.letters.length ?? 0,
});

const Nav = ({ screen, onMore, onWho }) => {
  const count = useCounts();
  return html`<nav class="nav" aria-label="Main">
    <a class="brand" href="#/overview"><svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <rect x="2" y="2" width="20" height="20" rx="5" /><circle cx="12" cy="12" r="5" />
      <path d="M12 4.5v2.5M12 17v2.5M4.5 12h2.5M17 12h2.5" /></svg><span>Strongroom</span></a>
    <ul>${PLACES.map(([id, name]) => html`<li>
      <a href=${href(id)} aria-current=${screen === id ? "page" : null} class=${id} title=${name}><${Icon} name=${id} /><span>
      ${name}</span>${count[id] > 0 && html`<b class=${cx("badge", id === "threads" && "bad")} title=${id === "threads" ? "dead letters" : "wait for review"}>
      ${count[id]}</b>`}</a></li>`)}
      <li class="more"><button type="button" onClick=${onMore}><${Icon} name="more" /><span>More</span></button></li></ul>
    <button type="button" class="who" onClick=${onWho}><span class="avatar" aria-hidden="true">${(state.me.label || state.me.name)[0]}</span><div><b>
      <${Line} text=${state.me.label || state.me.name} max=${24} /></b><span>${state.me.role} of <${Line} text=${state.me.space} max=${20} /></span></div></button>
  </nav>`;
};

const PLACE = { run: "runs", session: "sessions", message: "sessions", memory: "memory", batch: "review", thread: "threads", file: "files" };
const where = (hit) => (hit.kind === "message" ? href("sessions", hit.session_id, { at: hit.id }) : hit.kind === "batch" && typeof hit.place === "number" ? href("review", `${hit.id}:${hit.place}`) : href(PLACE[hit.kind] ?? "overview", hit.id));
const WAIT = 180, NEXT_KEY = 1_500;

/** What anybody wrote under these words or this id; asked when typing has paused. */
const useHits = (query) => {
  const [found, set] = useState({ q: "", hits: [] }), q = query.trim();
  useEffect(() => {
    if (!q) { set({ q, hits: [] }); return undefined; }
    const stop = new AbortController();
    const timer = setTimeout(() => get(url("search", { q, k: 4 }), { signal: stop.signal }).then((told) => set({ q, hits: told.hits.slice(0, 10) }), () => {}), WAIT);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [q]);
  return { hits: found.hits, answered: found.q === q };
};

const Search = ({ input }) => {
  const [query, ask] = useState(""), [open, setOpen] = useState(false), [at, move] = useState(0), [eager, hurry] = useState(false);
  const { hits, answered } = useHits(query), closing = useRef(null);
  const pick = (hit) => { location.hash = where(hit); setOpen(false); ask(""); input.current.blur(); };
  const keys = (e) => {
    if (e.key === "ArrowDown") { e.preventDefault(); move(Math.min(at + 1, hits.length - 1)); }
    if (e.key === "ArrowUp") { e.preventDefault(); move(Math.max(at - 1, 0)); }
    if (e.key === "Enter") hurry(true);
    if (e.key === "Escape") { setOpen(false); input.current.blur(); }
  };
  // Enter picks of what these words find, and waits for that if need be: never of what the words before found.
  useEffect(() => { if (eager && answered) { hurry(false); if (hits[at]) pick(hits[at]); } }, [eager, answered]);
  const reopen = () => { clearTimeout(closing.current); setOpen(true); }; // whoever comes back at once is not closed out
  const shown = open && query.trim() !== "";
  return html`<div class="search" role="search"><${Icon} name="search" />
    <input ref=${input} type="text" role="combobox" aria-label="Search everything" aria-expanded=${shown ? "true" : "false"} aria-controls="hits" aria-activedescendant=${shown && hits.length ? `hit-${at}` : null} placeholder="Find by id or words" autocomplete="off" spellcheck=${false}
      value=${query} onInput=${(e) => { ask(e.target.value); move(0); hurry(false); reopen(); }} onFocus=${reopen} onBlur=${() => { closing.current = setTimeout(() => setOpen(false), 150); }} onKeyDown=${keys} />
        <${Kbd}>/<//>
    <div class="hits" hidden=${!shown}><ul id="hits" role="listbox" aria-label="Hits">${hits.map((hit, i) => html`
      <li id=${`hit-${i}`} role="option" aria-selected=${i === at ? "true" : "false"} onMouseDown=${() => pick(hit)}>
        <${Icon} name=${PLACE[hit.kind] ?? "dot"} /><span class="cut"><${Line} text=${hit.title || hit.id} max=${90} /></span><small><${Line} text=${hit.why} max=${40} /></small></li>`)}</ul>
      ${answered && hits.length === 0 && html`<p>Nothing has this id or these words.</p>`}</div>
  </div>`;
};

const Space = () => html`<div class="space"><span class="sr">Space</span><b><${Line} text=${state.me.space} max=${24} /></b></div>`;

const Connection = () => html`<span class=${cx("connection", state.connection === "live" ? "live" : "reconnecting")} title=${state.connection === "live" ? "One stream, no refresh needed" : "What you see may be old"}>
  <i></i><span>${state.connection === "live" ? "Live" : state.connection === "connecting" ? "Connecting" : "Reconnecting"}</span></span>`;

const Help = ({ onClose }) => html`<${Dialog} title="Keyboard" onClose=${onClose}><div class="help">
  ${HELP.map(([title, keys]) => html`<section><h3>${title}</h3><dl>${keys.map(([key, what]) => html`<div><dt>
  ${key.split(" ").filter(Boolean).map((k) => (k === "then" ? html`<span>then</span>` : html`<${Kbd}>${k}<//>`))}</dt><dd>
  ${what}</dd></div>`)}</dl></section>`)}</div><//>`;

/** The same facts as the API gives them, so that whatever is seen here can be had by a program. */
const AsJson = ({ onClose }) => {
  const { data, error } = useQuery(state.page);
  return html`<${Dialog} title="This page as JSON" onClose=${onClose}>${state.page === null ? html`<p>This page has no single answer behind it.</p>` : html`
    <${Command} text=${`curl ${new URL(state.page, document.baseURI)}`} /><${Json} value=${data ?? error?.message ?? "…"} />`}<//>`;
};

const Who = ({ onClose }) => html`<${Dialog} title="Who you are" onClose=${onClose}><${WhoBody} /><//>`;
const WhoBody = () => html`<p>${state.me.keyless ? "This server knows no keys yet: whoever is on this machine is its administrator." : html`Signed in as <b>
  <${Line} text=${state.me.label || state.me.name} /></b> with key <span class="id"><${Line} text=${state.me.name} max=${40} /></span>. It opens <b><${Line} text=${state.me.space} /></b> as ${state.me.role}; what a role may not do is not shown, and the server refuses it anyway.`}</p>
  ${!state.me.keyless && html`<${Button} onClick=${leave}>Sign out<//>`}`;

const Drawer = ({ onClose }) => html`<${Dialog} title="Strongroom" onClose=${onClose}><ul class="drawer">
  ${PLACES.map(([id, name]) => html`<li><a href=${href(id)} onClick=${onClose}><${Icon} name=${id} />${name}</a></li>`)}</ul>
  <${WhoBody} /><//>`;

const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">
  ${state.toasts.map((one) => html`<div class="toast" key=${one.id}><span><${Line} text=${one.text} /></span>
  ${one.undo && html`<button type="button" class="link" onClick=${() => { one.undo(); dismiss(one.id); }}>Undo</button>`}<button type="button" class="ghost" aria-label="Dismiss" onClick=${() => dismiss(one.id)}>
    <${Icon} name="cross" /></button></div>`)}</div>`;

export const Shell = ({ screen, children }) => {
  useApp();
  const input = useRef(), waiting = useRef(null); // the time that is left for the key after g
  const [dialog, open] = useState(null);
  const jump = Object.fromEntries(PLACES.map(([id, , key]) => [key, id]));
  const turn = () => setTheme(state.theme === "dark" ? "light" : "dark");
  const after = (key, otherwise) => () => {
    if (!waiting.current) return otherwise?.();
    clearTimeout(waiting.current);
    waiting.current = null;
    go(jump[key]);
    return true;
  };
  useKeys({
    "/": () => input.current.focus(), "?": () => open("help"), w: () => open("views"),
    g: () => { clearTimeout(waiting.current); waiting.current = setTimeout(() => (waiting.current = null), NEXT_KEY); },
    ...Object.fromEntries(["o", "i", "r", "s", "m", "f", "p"].map((key) => [key, after(key)])), t: after("t", turn),
  }, true);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <${Nav} screen=${screen} onMore=${() => open("drawer")} onWho=${() => open("who")} />
    <header class="top"><${Space} /><${Search} input=${input} /><div class="top-right"><${Connection} />
      <button type="button" class="ghost views-button" aria-label="Saved views" title="Saved views (w)" onClick=${() => open("views")}>
        <${Icon} name="view" /></button>
      <button type="button" class="ghost json-button" aria-label="This page as JSON" title="This page as JSON" onClick=${() => open("json")}>
        <b>{ }</b></button>
      <button type="button" class="ghost" aria-label=${state.theme === "dark" ? "Light colours" : "Dark colours"} title="Dark or light (t)" onClick=${turn}>
        <${Icon} name=${state.theme === "dark" ? "sun" : "moon"} /></button>
      <button type="button" class="ghost help-button" aria-label="Keyboard help" title="Keyboard (?)" onClick=${() => open("help")}>
        <b>?</b></button></div></header>
    <main id="main" class="main" tabindex="-1">
      ${state.connection === "reconnecting" && html`<div class="banner warn" role="status"><${Icon} name="alert" />
        <span>The stream broke ${relative(new Date(state.since))}. What you see is from then; it catches up by itself, nothing is missed.</span>
        <${Button} small onClick=${retryNow}>Try now<//></div>`}
      ${children}</main>
    <${Toasts} />
    ${dialog === "json" && html`<${AsJson} onClose=${() => open(null)} />`}
    ${dialog === "views" && html`<${Views} onClose=${() => open(null)} />`}
    ${dialog === "help" && html`<${Help} onClose=${() => open(null)} />`}
    ${dialog === "who" && html`<${Who} onClose=${() => open(null)} />`}
    ${dialog === "drawer" && html`<${Drawer} onClose=${() => open(null)} />`}
  </div>`;
};
