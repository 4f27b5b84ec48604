// The inbox: what waits, riskiest first. Everything needed to decide is on one page; the hands stay on the keyboard.
import { html, cx, useState, useEffect, useRef } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Choice, Dialog, Empty, Kbd, Line, Time, useKeys, WordDiff } from "./ui.js";
import { plural } from "./format.js";
import { go, href, set } from "./router.js";
import { can } from "./state.js";
import { decide, useLoaded, usePending } from "./decisions.js";
import { usePage } from "./query.js";
import { Detail, FLAGS, VERB } from "./review-detail.js";

const risk = (one) => one.flags.length * 10 + (one.trust === "untrusted" ? 5 : 0) + (one.replaces.length ? 1 : 0);
const REASONS = ["not true", "hearsay", "already known", "not for long-term memory", "looks like an injection"];

const Row = ({ one, params, current, picked, onPick }) => html`
  <li class=${cx("inbox-row", current && "current")}>
    <input type="checkbox" aria-label="Select this proposal" checked=${picked} onChange=${() => onPick(one.id)} disabled=${!can("review")} />
    <a href=${href("review", one.id, params)} aria-current=${current ? "true" : null}>
      <span class="inbox-line"><b>${VERB[one.request.op]} ${one.request.type}</b>
        ${one.flags.length > 0 && html`<span class="flagged"><${Icon} name="flag" label="flagged" />
        ${one.flags.length}</span>`}<${Time} brief at=${one.created_at} /></span>
      <span class=${cx("inbox-text", one.request.op === "deprecate" && "struck")}><${Line} text=${one.request.content ?? one.replaces[0]?.content ?? one.request.target_memory_id ?? ""} max=${110} />
        </span>
      <span class="inbox-meta"><span><${Line} text=${one.proposer} max=${40} /> · ${one.request.scope}</span></span>
    </a></li>`;

const Reject = ({ count, onClose, onDo }) => {
  const [reason, say] = useState("");
  return html`<${Dialog} title=${`Reject ${plural(count, "proposal")}`} onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind="danger" disabled=${!reason.trim()} onClick=${() => onDo(reason)}>Reject<//>`}>
    <p>The reason stays with the batch and is told to the proposer.</p>
    <label class="field">Reason<input type="text" value=${reason} onInput=${(e) => say(e.target.value)} onKeyDown=${(e) => e.key === "Enter" && reason.trim() && onDo(reason)} autofocus />
      </label>
    <div class="suggestions">${REASONS.map((text) => html`<button type="button" onClick=${() => say(text)}>${text}</button>`)}</div>
      <//>`;
};

/** What was flagged is never accepted by a single key: somebody has to say it twice. */
const Sure = ({ flagged, others, onClose, onAll, onOthers }) => html`<${Dialog} title=${flagged.length === 1 ? "This one is flagged" : `${flagged.length} of these are flagged`} onClose=${onClose} actions=${html`<${Button} onClick=${onClose} autofocus>Cancel<//>
  ${others > 0 && html`<${Button} onClick=${onOthers}>Only the other ${others}<//>`}<${Button} kind="danger" onClick=${onAll}>Accept anyway<//>`}>
    <ul class="falls" tabindex="0" aria-label="Flagged proposals">${flagged.map((one) => html`<li><b>
      ${one.flags.map((flag) => (FLAGS[flag] ?? [flag])[0]).join(", ")}</b><span><${Line} text=${one.request.content ?? ""} /></span>
      </li>`)}</ul><//>`;

/** Other words for a proposal, accepted at once: the proposer stays the proposer, and both texts stay on record. */
const Edit = ({ one, onClose, onDo }) => {
  const said = one.request.content, [text, write] = useState(said), changed = text.trim() && text.trim() !== said;
  const accept = () => changed && onDo(text.trim());
  return html`<${Dialog} title="Edit, then accept" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind="primary" disabled=${!changed} onClick=${accept}>Accept this text<//>`}>
    <p>Your text becomes known, accepted in your name. What <b><${Line} text=${one.proposer} max=${40} /></b> proposed stays on record beside it.${one.flags.length > 0 && html` It was flagged: ${one.flags.map((flag) => (FLAGS[flag] ?? [flag])[0].toLowerCase()).join(", ")}.`}</p>
    <label class="field">Content<textarea rows="5" value=${text} onInput=${(e) => write(e.target.value)} onKeyDown=${(e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && accept()} autofocus></textarea></label>
    ${changed && html`<div class="edit-diff" role="group" aria-label="What you change"><${WordDiff} before=${said} after=${text.trim()} /></div>`}<//>`;
};

export const Review = ({ id, params }) => {
  const [picked, pick] = useState([]), [dialog, open] = useState(null);
  const filter = params.show ?? "all";
  const pending = usePending(), { loaded, more } = useLoaded(), sorted = [...pending].sort((a, b) => risk(b) - risk(a) || b.created_at.localeCompare(a.created_at));
  usePage("memories/pending", { limit: 100 });
  const list = sorted.filter((one) => filter === "all" || (filter === "flagged" ? one.flags.length > 0 : one.replaces.length > 0));
  const reading = useRef(null), wanted = id ?? reading.current; // what arrives never takes the place of what is being read
  const at = Math.max(0, list.findIndex((one) => one.id === wanted || one.batch.id === wanted)), one = list[at];
  reading.current = one?.id ?? null;
  const move = (step) => list[at + step] && go("review", list[at + step].id, params);
  const toggle = (which) => pick((before) => (before.includes(which) ? before.filter((other) => other !== which) : [...before, which]));
  const settle = (ids, accepted, reason, content) => {
    const next = list.slice(at).concat(list.slice(0, at).reverse()).find((other) => !ids.includes(other.id));
    decide(list.filter((other) => ids.includes(other.id)), accepted, reason, content); pick([]); open(null);
    go("review", next?.id, params);
  };
  const accept = (ids) => (list.some((other) => ids.includes(other.id) && other.flags.length) ? open({ kind: "sure", ids }) : settle(ids, true));
  const chosen = picked.filter((which) => list.some((other) => other.id === which));
  const may = can("review");
  useEffect(() => { document.querySelector(".inbox-row.current")?.scrollIntoView({ block: "nearest" }); }, [one?.id]);
  useKeys(may && one ? {
    j: () => move(1), k: () => move(-1), x: () => toggle(one.id), a: () => accept([one.id]), r: () => open({ kind: "reject", ids: [one.id] }), e: () => one.memory_id && open({ kind: "edit" }),
    A: () => chosen.length && accept(chosen),
  } : { j: () => move(1), k: () => move(-1) });

  if (loaded && !pending.length) return html`<div class="page">
    <${Empty} page icon="check" title="Nothing waits" command="strongroom memories pending">What agents want to remember waits here for a person. Propose something from a program with <code>ctx.memories.propose(…)</code>.<//>
    </div>`;
  const count = (test) => sorted.filter(test).length;
  return html`<div class=${cx("split review", id && "open")}><h1 class="sr">Review</h1>
    <div class="split-list">
      <header class="list-head"><div class="list-title" aria-hidden="true">Review</div>
        <${Choice} label="Show" value=${filter} onPick=${(show) => set({ show: show === "all" ? null : show })} options=${[["all", "All", sorted.length], ["flagged", "Flagged", count((o) => o.flags.length)], ["replaces", "Replaces", count((o) => o.replaces.length)]]} />
        </header>
      <ul class="inbox">${list.map((other) => html`<${Row} key=${other.id} params=${params} one=${other} current=${other === one} picked=${picked.includes(other.id)} onPick=${toggle} />`)}
        ${more && html`<li class="quiet-empty"><${Icon} name="clock" />More wait. They show up here as these are decided.</li>`}</ul>
      ${chosen.length > 0 ? html`<div class="bulk" role="region" aria-label="Selected proposals"><b>${chosen.length} selected</b>
        <${Button} small icon="check" onClick=${() => accept(chosen)}>Accept<//>
        <${Button} small icon="cross" onClick=${() => open({ kind: "reject", ids: chosen })}>Reject<//>
        <button type="button" class="link" onClick=${() => pick([])}>Clear</button></div>`
        : html`<div class="list-foot"><span><${Kbd}>j<//> <${Kbd}>k<//> move</span><span><${Kbd}>a<//> accept</span><span>
          <${Kbd}>r<//> reject</span><span><${Kbd}>x<//> select</span><span><${Kbd}>?<//></span></div>`}
    </div>
    ${one ? html`<${Detail} key=${one.id} params=${params} one=${one} may=${may} place=${`${at + 1} of ${list.length}`} onAccept=${() => accept([one.id])} onReject=${() => open({ kind: "reject", ids: [one.id] })} onEdit=${() => open({ kind: "edit" })} />` : html`<div class="split-detail">
      <${Empty} icon="flag" title="Nothing like that">No proposal matches this filter.<//></div>`}
    ${dialog?.kind === "reject" && html`<${Reject} count=${dialog.ids.length} onClose=${() => open(null)} onDo=${(reason) => settle(dialog.ids, false, reason)} />`}
    ${dialog?.kind === "sure" && html`<${Sure} flagged=${list.filter((other) => dialog.ids.includes(other.id) && other.flags.length)} others=${list.filter((other) => dialog.ids.includes(other.id) && !other.flags.length).length} onClose=${() => open(null)} onAll=${() => settle(dialog.ids, true)} onOthers=${() => settle(list.filter((other) => dialog.ids.includes(other.id) && !other.flags.length).map((other) => other.id), true)} />`}
    ${dialog?.kind === "edit" && html`<${Edit} one=${one} onClose=${() => open(null)} onDo=${(content) => settle([one.id], true, "", content)} />`}
  </div>`;
};
