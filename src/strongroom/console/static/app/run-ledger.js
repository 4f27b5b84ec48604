// The ledger as a timeline, newest last; idle time is folded; new events never move what is being read.
import { html, cx, useState, useRef, useEffect, useLayoutEffect } from "./lib.js";
import { Icon, eventLook } from "./icons.js";
import { clock, spent, ms, number, span, words } from "./format.js";
import { Button, Choice, Id, Json, Line, Time } from "./ui.js";
import { path } from "./api.js";
import { useQuery } from "./query.js";
import { set } from "./router.js";
import { stepOf } from "./run-data.js";

const GROUPS = {
  all: () => true, state: (t) => /^(WS_|ROLLED|FORKED|RESTORED|RUN_)/.test(t), tools: (t) => t.startsWith("TOOL"), model: (t) => t.startsWith("MODEL"),
  memory: (t) => t.startsWith("MEMORY"), problems: (t) => /ERROR|REJECTED/.test(t),
};
const IDLE = 20 * 60_000;

const said = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");
const touched = (change) => [...Object.keys(change?.set ?? {}), ...Object.keys(change?.lists ?? {})].filter((name) => name !== "_update_seq");
const named = (fields) => fields.map((name) => name.replaceAll("_", " ")).join(", ");

/** What an update changed whose event holds the whole state, as every so many do: asked for, since it does not say. */
const Whole = ({ id, seq }) => {
  const { data } = useQuery(`${path("runs", id)}/diff`, { from_seq: seq - 1, to_seq: seq });
  return html`<${Line} text=${data ? named(data.changes.map((one) => one.field).filter((field) => field !== "_update_seq")) : "…"} max=${110} />`;
};
const summary = ({ type, payload, detail }) => {
  switch (type) {
    case "RUN_START": return `with a working set of ${number(payload.config?.ws_max_tokens ?? 0)} tokens`;
    case "MODEL_ACTION": return said(payload.action);
    case "TOOL_CALL": return typeof payload.arguments === "object" ? words(payload.arguments) : said(payload.arguments);
    case "TOOL_RESULT": return said(payload.result ?? payload.error);
    case "WS_UPDATE_APPLIED": return named(touched(detail?.change));
    case "WS_UPDATE_REJECTED": return said(payload.error).replace("; nothing changed", "");
    case "ERROR": return `${payload.error_type}: ${payload.message}`;
    case "MILESTONE": return payload.reason;
    case "ROLLED_BACK": return `to step ${payload.to_seq}`;
    case "MEMORY_PROPOSED": return `${payload.count ?? ""} waiting in ${payload.batch_id}`.trim();
    case "MEMORY_COMMITTED": return (payload.memory_ids ?? []).join(", ");
    default: return words(payload);
  }
};
const cost = ({ type, payload }) => {
  const parts = [];
  if (type === "MODEL_ACTION" && payload.tokens_in !== undefined) parts.push(`${number((payload.tokens_in ?? 0) + (payload.tokens_out ?? 0))} tok`);
  if (payload?.cost !== undefined && /^(MODEL_ACTION|TOOL_RESULT)$/.test(type)) parts.push(`cost ${spent(payload.cost)}`);
  if (type === "TOOL_RESULT" && payload.latency_ms !== undefined) parts.push(ms(payload.latency_ms));
  return parts.join(" · ") || null;
};

const Event = ({ run, event, seq, open, onOpen, onSeq }) => {
  const failed = event.payload?.ok === false, step = stepOf(event);
  const [icon, tone, name] = eventLook(event.type);
  const label = failed ? "Tool failed" : name, isStep = step !== undefined;
  return html`<li class=${cx("event", step === seq && "here", event.fresh && "fresh")}>
    <button type="button" class="event-row" aria-expanded=${open ? "true" : "false"} onClick=${onOpen}>
      <span class="event-no">${event.sequence_id}</span><span class=${cx("glyph", failed ? "bad" : tone)}><${Icon} name=${icon} />
        </span>
      <span class="event-text"><b>${label}${isStep && step > 0 ? ` ${step}` : ""}</b> <span class="event-sum">
        ${event.type === "TOOL_CALL" && html`<code>
        <${Line} text=${event.payload.tool_name} max=${60} /></code> `}${event.type === "WS_UPDATE_APPLIED" && event.detail?.state && step > 0 ? html`<${Whole} id=${run} seq=${step} />` : html`<${Line} text=${event.erased ? "(erased)" : summary(event)} max=${110} />`}
        </span></span>
      ${cost(event) && html`<span class="event-cost">${cost(event)}</span>`}<${Time} brief at=${event.at} /></button>
    ${open && html`<div class="event-more"><div class="event-facts"><${Id} id=${event.event_id} /><span>${event.type}</span>
      <span>by <${Line} text=${event.actor} max=${60} /></span><span>${clock(event.at)}</span>
      ${isStep && html`<button type="button" class="link" onClick=${() => onSeq(step)}>See the state at this step</button>`}</div>
      <${Json} value=${event.payload} label="Payload" /></div>`}
  </li>`;
};

export const Ledger = ({ id, ledger, seq, past, type, onSeq }) => {
  const [opened, open] = useState([]), box = useRef(), atEnd = useRef(true), [missed, miss] = useState(0), count = useRef(0);
  const newest = ledger.events.at(-1)?.sequence_id ?? 0, events = ledger.events.filter((event) => GROUPS[type](event.type));
  useLayoutEffect(() => {
    const fresh = newest - count.current, first = count.current === 0;
    count.current = newest;
    if (fresh > 0) (first || (atEnd.current && !past)) ? (box.current.scrollTop = box.current.scrollHeight) : miss(missed + fresh);
  }, [newest]);
  const here = past && events.some((event) => stepOf(event) === seq); // also where a step is reached by its address, and its event comes last
  useEffect(() => { const el = here && box.current.querySelector(".here"); if (el) box.current.scrollTop = el.offsetTop - box.current.clientHeight / 2; }, [seq, here]);
  const toEnd = () => { box.current.scrollTop = box.current.scrollHeight; miss(0); };
  const rows = events.flatMap((event, i) => {
    const gap = i && type === "all" ? new Date(event.at) - new Date(events[i - 1].at) : 0;
    return [gap > IDLE && html`<li class="gap"><span>${span(gap)} idle</span>
      </li>`, html`<${Event} key=${event.event_id} run=${id} event=${event} seq=${past ? seq : null} open=${opened.includes(event.event_id)} onSeq=${onSeq} onOpen=${() => open(opened.includes(event.event_id) ? opened.filter((id) => id !== event.event_id) : [...opened, event.event_id])} />`];
  });
  return html`<div class="ledger"><div class="ledger-filter">
    <${Choice} label="Events" value=${type} onPick=${(next) => set({ type: next === "all" ? null : next })} options=${Object.keys(GROUPS).map((id) => [id, id[0].toUpperCase() + id.slice(1)])} />
    </div>
    <div class="ledger-box" ref=${box} tabindex="0" role="region" aria-label="Ledger" onScroll=${(e) => { atEnd.current = e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 24; if (atEnd.current && missed) miss(0); }}>
      ${ledger.missing > 0 && html`<p class="after"><${Button} small onClick=${ledger.older}>${number(ledger.missing)} older<//></p>`}<ol class="events">${rows}</ol></div>
    ${missed > 0 && html`<button type="button" class="new-pill" onClick=${toEnd}>${missed} new<${Icon} name="down" />
      </button>`}</div>`;
};
