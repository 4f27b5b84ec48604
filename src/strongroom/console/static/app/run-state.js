// The scrubber over history, and the working set at the chosen step with what that step changed.
import { html, cx, css } from "./lib.js";
import { Json, Safe, Section, Status, Time, Line } from "./ui.js";
import { path } from "./api.js";
import { useQuery } from "./query.js";
import { stepOf } from "./run-data.js";

const MOST_TICKS = 120;
const MARK = { WS_UPDATE_APPLIED: "", ROLLED_BACK: "warn", RUN_START: "start" };

/** A tick for each update, or for some of them where there are many; milestones as diamonds. A native range input
    carries keyboard and screen reader. */
export const Scrubber = ({ seq, last, events, onPick }) => {
  const made = new Map(), milestones = new Set();
  let step = 0;
  for (const event of events) {
    const at = stepOf(event);
    if (at !== undefined) { step = at; made.set(at, event); }
    if (event.type === "MILESTONE") milestones.add(step);
  }
  const every = Math.max(1, Math.ceil(last / MOST_TICKS)), event = made.get(seq), end = Math.max(1, last);
  const ticks = Array.from({ length: Math.floor(last / every) + 1 }, (_, n) => n * every);
  return html`<div class="scrubber" ref=${css({ at: seq / end })}>
    <div class="scrub-track"><span class="scrub-fill"></span>
      ${ticks.map((n) => html`<i class=${cx("tick", n <= seq && "on", milestones.has(n) && "milestone", MARK[made.get(n)?.type])} title=${`Step ${n}`} ref=${css({ at: n / end })}></i>`)}
      <input type="range" min="0" max=${last} step="1" value=${seq} aria-label="Step of the run" aria-valuetext=${`step ${seq} of ${last}`} onInput=${(e) => onPick(Number(e.target.value))} /></div>
    <div class="scrub-label"><span><b class="scrub-seq">Step ${seq}</b> of ${last}${seq === last ? ", now" : ""}</span>
      ${event && html`<span class="scrub-who"><${Line} text=${event.actor} max=${40} />, <${Time} at=${event.at} /></span>`}<span class="scrub-keys"><kbd>[</kbd> <kbd>]</kbd> step</span></div>
  </div>`;
};

const FIELDS = [
  ["next_action", "Next action"], ["last_action_summary", "Last action"], ["blockers", "Blockers"], ["acceptance_criteria", "Done when"],
  ["constraints", "Constraints"], ["pinned_context", "Pinned"], ["sliding_context", "Recent context"], ["artifact_refs", "Artifacts"],
];

const text = (item) => (typeof item === "string" ? item : item.content ?? item.path ?? JSON.stringify(item));

const Value = ({ before: then, now: present }) => {
  const before = Array.isArray(then) ? then.map(text) : then, now = Array.isArray(present) ? present.map(text) : present;
  if (!Array.isArray(now)) {
    const changed = before !== undefined && before !== now;
    return html`${changed && before && html`<del class="old"><${Safe} text=${before} /></del>`}${now ? (changed ? html`<ins>
      <${Safe} text=${now} /></ins>` : html`<${Safe} text=${now} />`) : !changed && html`<span class="none">none</span>`}`;
  }
  const was = before ?? now, gone = was.filter((item) => !now.includes(item));
  if (!now.length && !gone.length) return html`<span class="none">none</span>`;
  return html`<ul>${gone.map((item) => html`<li><del><${Safe} text=${item} /></del></li>`)}${now.map((item) => html`<li>
    ${was.includes(item) ? html`<${Safe} text=${item} />` : html`<ins><${Safe} text=${item} /></ins>`}</li>`)}</ul>`;
};


export const StateAt = ({ id, seq, last, now: present, shows, onShow }) => {
  const at = `${path("runs", id)}/at`;
  const { data: past } = useQuery(seq === last ? null : at, { seq }), { data: before } = useQuery(seq > 0 ? at : null, { seq: seq - 1 });
  const now = seq === last ? present : past;
  if (!now) return html`<${Section} id="state" title=${`State at step ${seq}`} scrolls><p class="muted">Reading…</p><//>`;
  const differs = (field) => before && JSON.stringify(before[field]) !== JSON.stringify(now[field]);
  const changed = FIELDS.filter(([field]) => differs(field)).length + (differs("status") ? 1 : 0);
  return html`<${Section} id="state" title=${seq === last ? "State now" : `State at step ${seq}`} aside=${changed > 0 && html`<button type="button" class="link" aria-pressed=${shows ? "true" : "false"} onClick=${onShow}>
    ${shows ? "Hide" : "Show"} what step ${seq} changed</button>`} scrolls>
    <dl class=${cx("state", shows && "shows")}><div class=${cx(differs("status") && "changed")}><dt>Status</dt><dd>
      ${shows && differs("status") && html`<del class="was">${before.status.toLowerCase().replace("_", " ")}</del> `}<${Status} value=${now.status} /> <span class="muted">in stage ${now.current_stage.toLowerCase()}</span></dd></div>
      ${FIELDS.map(([field, name]) => html`<div class=${cx(differs(field) && "changed")}><dt>${name}</dt><dd>
        <${Value} before=${shows && differs(field) ? before[field] : undefined} now=${now[field]} /></dd></div>`)}
      ${now.state !== undefined && now.state !== null && html`<div class=${cx(differs("state") && "changed")}><dt>State</dt><dd><${Json} value=${now.state} label="State" /></dd></div>`}</dl><//>`;
};
