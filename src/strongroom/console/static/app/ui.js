// Small components every screen uses. Stored text only ever becomes a text node.
import { html, cx, css, useState, useEffect, useRef, useLayoutEffect } from "./lib.js";
import { Icon } from "./icons.js";
import { beginning, relative, exact, likeness, pieces, plural, shortId, number, wordDiff } from "./format.js";
import { toast } from "./state.js";

const Part = (part) => (typeof part === "string" ? part : html`<span class="hidden-char" title=${part.name}>
  ${part.char}${part.code}</span>`);

/** Stored text: hidden characters spelt out, direction isolated, long text cut until asked for. */
export const Safe = ({ text, max = 600 }) => {
  const [all, show] = useState(false);
  const value = String(text);
  const cut = !all && value.length > max;
  const parts = pieces(cut ? beginning(value, max) : value);
  return html`<bdi class="safe">${parts.map(Part)}${cut && html`… <button type="button" class="link" onClick=${(e) => { e.preventDefault(); e.stopPropagation(); show(true); }}>all ${number(value.length)} characters</button>`}</bdi>`;
};
/** One line of stored text, without the button: for rows and links. */
export const Line = ({ text, max = 160 }) => html`<bdi class="safe">
  ${pieces(beginning(String(text), max)).map(Part)}${String(text).length > max && "…"}</bdi>`;

export const Id = ({ id, plain }) => {
  const copy = (e) => { e.preventDefault(); e.stopPropagation(); navigator.clipboard?.writeText(id); toast(`Copied ${shortId(id)}`); };
  return plain ? html`<span class="id" title=${id}><${Line} text=${shortId(id)} /></span>`
    : html`<button type="button" class="id" title=${`Copy ${id}`} onClick=${copy}><${Line} text=${shortId(id)} />
      <${Icon} name="copy" /></button>`;
};

export const Time = ({ at, brief }) => html`<time class="time" dateTime=${at} title=${exact(at)}>
  ${brief ? relative(at).replace(" ago", "") : relative(at)}</time>`;
export const Kbd = ({ children }) => html`<kbd>${children}</kbd>`;

const STATUS = { BUSY: "accent", WAITING_INPUT: "warn", FAILED: "bad", DONE: "ok", PAUSED: "quiet", IDLE: "quiet", BOOT: "quiet", active: "ok", superseded: "quiet", deprecated: "quiet", expired: "quiet", revoked: "bad", live: "quiet", handling: "accent", waiting: "quiet", retrying: "warn", dead: "bad", archived: "quiet" };
const WORD = { WAITING_INPUT: "waits for input", BOOT: "booting" };
export const Status = ({ value }) => html`<span class=${cx("status", STATUS[value] ?? "quiet", value === "BUSY" && "pulse")}><i></i>
  ${WORD[value] ?? value.toLowerCase()}</span>`;

const LEVEL = { untrusted: 1, unverified: 2, trusted: 3 };
export const Trust = ({ value }) => html`<span class=${cx("trust", value)} title="How far the source is trusted. No review raises it.">
  <span class="trust-bars" aria-hidden="true">${[1, 2, 3].map((n) => html`<i class=${n <= LEVEL[value] ? "on" : ""}></i>`)}</span>
  ${value}</span>`;

export const Tag = ({ tone, children }) => html`<span class=${cx("tag", tone)}>${children}</span>`;

export const Button = ({ kind, icon, hint, small, children, ...rest }) => html`
  <button type="button" class=${cx("button", kind, small && "small")} ...${rest}>${icon && html`<${Icon} name=${icon} />`}${children !== undefined && html`<span>
    ${children}</span>`}${hint && html`<${Kbd}>${hint}<//>`}</button>`;

export const Section = ({ title, count, aside, children, id, scrolls }) => html`
  <section class="section" aria-labelledby=${id} tabindex=${scrolls ? 0 : null}>
    <header><h2 id=${id}>${title}${count !== undefined && html` <span class="count">${count}</span>`}</h2>
      ${aside && html`<div class="aside">${aside}</div>`}</header>
    ${children}
  </section>`;

export const Tabs = ({ label, tabs, value, onPick }) => {
  const keys = (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const next = tabs[(tabs.findIndex((tab) => tab.id === value) + step + tabs.length) % tabs.length];
    onPick(next.id);
    e.currentTarget.querySelector(`[data-tab="${next.id}"]`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${keys}>${tabs.map((tab) => html`
    <button type="button" role="tab" data-tab=${tab.id} tabindex=${tab.id === value ? 0 : -1} aria-selected=${tab.id === value ? "true" : "false"} onClick=${() => onPick(tab.id)}>
      ${tab.name}${tab.count !== undefined && html` <span class="count">${tab.count}</span>`}</button>`)}</div>`;
};

/** A row of choices of which one holds; used as a filter. */
export const Choice = ({ label, options, value, onPick }) => html`
  <div class="choice" role="group" aria-label=${label}>${options.map(([id, name, count]) => html`
    <button type="button" aria-pressed=${id === value ? "true" : "false"} onClick=${() => onPick(id)}>
      ${name}${count !== undefined && html` <span class="count">${count}</span>`}</button>`)}</div>`;

/** Says what is missing and what to type to change that. */
export const Empty = ({ icon = "box", title, children, command, page }) => html`
  <div class=${cx("empty", page && "whole")}><${Icon} name=${icon} />${page ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}<p>
    ${children}</p>${command && html`<${Command} text=${command} />`}</div>`;
export const Command = ({ text }) => html`<div class="command"><code>${text}</code>
  <button type="button" class="ghost" aria-label="Copy the command" onClick=${() => { navigator.clipboard?.writeText(text); toast("Copied the command"); }}>
  <${Icon} name="copy" /></button></div>`;

export const Skeleton = ({ rows = 6 }) => html`<div class="skeleton" role="status" aria-label="Loading">
  ${Array.from({ length: rows }, (_, i) => html`<i ref=${css({ w: `${88 - ((i * 17) % 40)}%` })}></i>`)}</div>`;

export const Sparkline = ({ values, label, width = 96, height = 20 }) => {
  const top = Math.max(...values, 1), step = width / (values.length - 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(height - 1.5 - (value / top) * (height - 4)).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <polygon points=${`0,${height} ${points} ${width},${height}`} /><polyline points=${points} /></svg>`;
};

/** What is known beside what would be. Alike texts are one line with words struck out and underlined (never colour
    alone); others are two lines, since an inline diff of two different sentences cannot be read. */
export const WordDiff = ({ before, after }) => {
  const diff = wordDiff(before, after);
  const show = (kinds) => diff.filter(({ kind }) => kinds.includes(kind)).map(({ kind, text }) => {
    const inner = html`<${Safe} text=${text} max=${4_000} />`;
    return kind === "out" ? html`<del>${inner}</del>` : kind === "in" ? html`<ins>${inner}</ins>` : inner;
  });
  if (likeness(diff) >= 0.5) return html`<p class="word-diff">${show(["same", "out", "in"])}</p>`;
  return html`<dl class="two-lines"><dt>Now</dt><dd class="word-diff">${show(["same", "out"])}</dd><dt>Then</dt>
    <dd class="word-diff">${show(["same", "in"])}</dd></dl>`;
};

/** A table that may be wider than its place; it can be reached by keyboard only when it scrolls. */
export const Wide = ({ label, children }) => {
  const ref = useRef(), [scrolls, notice] = useState(false);
  useEffect(() => {
    const watch = new ResizeObserver(() => notice(ref.current.scrollWidth > ref.current.clientWidth));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return html`<div class="table-wrap" role="group" aria-label=${label} tabindex=${scrolls ? 0 : null} ref=${ref}>${children}</div>`;
};

/** A modal dialog: the browser's own, so focus stays inside and Escape closes it. */
export const Dialog = ({ title, onClose, children, actions }) => {
  const ref = useRef();
  useEffect(() => { const el = ref.current; if (!el.open) el.showModal(); return () => el.close(); }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${onClose} onClick=${(e) => e.target === ref.current && onClose()}>
    <div class="dialog"><header><h2 id="dialog-title">${title}</h2>
      <button type="button" class="ghost" aria-label="Close" onClick=${onClose}><${Icon} name="cross" /></button></header>
    <div class="dialog-body">${children}</div>${actions && html`<footer>${actions}</footer>`}</div></dialog>`;
};

/** The end of a list: how much of it is seen, and how to see more. `counted` is how many there were at the last check. */
export const Foot = ({ shown, loaded, next, more, busy, one, counted }) => html`<p class="page-foot">
  ${shown < loaded ? `${number(shown)} of the ${plural(loaded, one)} that ${loaded === 1 ? "is" : "are"} loaded` : next && counted > loaded ? `${number(shown)} of ${plural(counted, one)}` : plural(shown, one)}${next ? ". " : "; there are no more."}
  ${next && html`<button type="button" class="link" onClick=${more} disabled=${busy}>${busy ? "Loading…" : "Load older"}</button>`}</p>`;

export const Facts = ({ items }) => html`<dl class="facts">${items.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt>
  <dd>${value}</dd></div>`)}</dl>`;
export const Json = ({ value, label = "JSON" }) => html`<pre class="json" tabindex="0" aria-label=${label}>
  <${Safe} text=${typeof value === "string" ? value : JSON.stringify(value, null, 2)} max=${1_200} /></pre>`;

/** Call a function for single keys, unless somebody is typing. One that answers true keeps the key to itself. */
export const useKeys = (map, first = false) => {
  const latest = useRef(map);
  latest.current = map;
  useLayoutEffect(() => { // as soon as the page is seen: a key that comes first must not be lost
    const listen = (e) => {
      const typing = e.target.closest?.("input:not([type=range]):not([type=checkbox]), textarea, select, dialog");
      if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
      const act = latest.current[e.key];
      if (!act) return;
      e.preventDefault();
      if (act(e) === true) e.stopImmediatePropagation();
    };
    addEventListener("keydown", listen, first);
    return () => removeEventListener("keydown", listen, first);
  }, []);
};
