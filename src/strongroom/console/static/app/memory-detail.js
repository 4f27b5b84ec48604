// One memory: what it says, how far it is trusted, its life, its family, and how to end it.
import { html, cx, useEffect, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Dialog, Facts, Id, Line, Safe, Section, Status, Tag, Time, Trust } from "./ui.js";
import { plural } from "./format.js";
import { go, href } from "./router.js";
import { get, path, post } from "./api.js";
import { can, complain, toast } from "./state.js";
import { useQuery } from "./query.js";
import { Graph } from "./memory-graph.js";

const LIFE = { proposed: ["review", "quiet", "Proposed"], committed: ["check", "ok", "Accepted"], superseded: ["back", "quiet", "Superseded"], deprecated: ["cross", "quiet", "Ended"], expired: ["clock", "quiet", "Expired"], revoked: ["cross", "bad", "Revoked"], erased: ["erase", "bad", "Erased"] };

const Lifeline = ({ one }) => {
  const steps = useQuery(`${path("memories", one.id)}/history`, {}, ["memories"]).data?.changes ?? [];
  const first = (id) => steps.find((step) => step.event === "proposed" && step.memory_id === id)?.content;
  return html`<ol class="life">${steps.map((step) => {
    const edited = step.event === "committed" && first(step.memory_id) !== step.content;
    const [icon, tone, name] = edited ? ["edit", "ok", "Edited and accepted"] : LIFE[step.event] ?? ["dot", "quiet", step.event];
    return html`<li class=${cx(step.memory_id && step.memory_id !== one.id && "other")}><span class=${cx("glyph", tone)}>
      <${Icon} name=${icon} /></span><div><b>${name}</b>
      ${step.memory_id && step.memory_id !== one.id && html` <a href=${href("memory", step.memory_id)}><${Line} text=${step.memory_id} max=${40} /></a>`}<span>
      <${Line} text=${step.by || "nobody named"} max=${40} />, <${Time} at=${step.at} /></span>${edited && html`<em>proposed as: <${Line} text=${first(step.memory_id) ?? ""} /></em>`}${step.reason && step.event !== "committed" && html`<em><${Line} text=${step.reason} /></em>`}</div></li>`;
  })}${one.status === "active" && html`<li class="now"><span class="glyph accent"><${Icon} name="dot" /></span><div><b>Known now</b></div></li>`}</ol>`;
};

/** A revocation is of a source: this memory's own id, or one of its sources. What falls is asked for, not guessed. */
const Revoke = ({ one, onClose }) => {
  const sources = [one.id, ...(one.source_refs ?? [])];
  const [reason, say] = useState(""), [source, choose] = useState(one.id);
  const { data: preview, error } = useQuery("memories/revoke/preview", { source_ref: source });
  const falls = preview?.memories ?? [];
  const act = async () => {
    onClose();
    try { const done = await post("memories/revoke", { source_ref: source, reason }); toast(`Revoked ${plural(done.memories, "memory", "memories")}`); } catch (problem) { complain(problem); }
  };
  return html`<${Dialog} title="Revoke, and what falls with it" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind="danger" disabled=${!reason.trim() || !preview} onClick=${act}>Revoke ${preview ? falls.length : ""} for good<//>`}>
    <p>Nothing derived from it is found from then on, at whatever distance. A revocation cannot be taken back.</p>
    <label class="field">Stop believing<select value=${source} onChange=${(e) => choose(e.target.value)}>${sources.map((id) => html`<option value=${id}>${id === one.id ? "this memory" : id}</option>`)}</select></label>
    ${error && html`<p class="banner bad" role="alert"><${Icon} name="alert" /><span>${error.message}</span></p>`}
    <ul class="falls" tabindex="0" aria-label="What would be revoked">${falls.map((other) => html`<li class=${cx(other.id !== one.id && "along")}><b><${Line} text=${other.id} max=${40} /></b><span><${Line} text=${other.content} /></span>
      ${other.id !== one.id && other.derived_from?.length > 0 && html`<em>derived from <${Line} text=${other.derived_from.join(", ")} max=${80} /></em>`}</li>`)}</ul>
    <label class="field">Reason<input type="text" value=${reason} onInput=${(e) => say(e.target.value)} autofocus /></label><//>`;
};

const Erase = ({ one, onClose }) => {
  const [name, type] = useState("");
  const act = async () => {
    onClose();
    try { const done = await post("memories/erase", { memory_id: one.id }); toast(done.pending ? `Erased; still on its way out of the files: ${done.pending}` : "Erased for good"); go("memory", null); } catch (problem) { complain(problem); }
  };
  return html`<${Dialog} title="Erase for good" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="danger" disabled=${name !== one.id} onClick=${act}>Erase<//>`}>
    <p>Its content, rationale and history leave the store, its index and its vectors. That it was there and was erased stays. It cannot be undone.</p>
    <label class="field">Type <b><${Line} text=${one.id} max=${60} /></b> to confirm<input type="text" value=${name} onInput=${(e) => type(e.target.value)} autofocus /></label><//>`;
};

const MOST_PARENTS = 12;

/** The memories around one: those it was derived from at two removes, and those that would fall with it. */
const useFamily = (one) => {
  const { data } = useQuery("memories/revoke/preview", { source_ref: one.id }, ["memories"]);
  const [parents, set] = useState([]);
  useEffect(() => {
    let alive = true;
    const known = async (ids) => (await Promise.all([...new Set(ids)].slice(0, MOST_PARENTS).map((id) => get(path("memories", id)).catch(() => null)))).filter(Boolean);
    const up = async () => {
      const near = await known(one.derived_from ?? []);
      if (alive) set(near);
      const far = await known(near.flatMap((other) => other.derived_from ?? []));
      if (alive && far.length) set([...near, ...far]);
    };
    up();
    return () => { alive = false; };
  }, [one.id]);
  const falls = (data?.memories ?? []).filter((other) => other.id !== one.id);
  return { falls, all: [...new Map([one, ...parents, ...falls].map((other) => [other.id, other])).values()].map((other) => ({ derived_from: [], source_refs: [], ...other })) };
};

/** A correction is proposed in your name, and replaces this one when another reviewer has accepted it. */
const Correct = ({ one, onClose }) => {
  const [text, write] = useState(one.content), [why, say] = useState("");
  const act = async () => {
    const { type, scope, user_id, project_id, confidence, id } = one;
    try {
      await post("memories/propose", { requests: [{ op: "supersede", type, scope, user_id, project_id, confidence, content: text.trim(), rationale: why.trim(), supersedes: [id], source_refs: [id] }] });
      onClose();
      toast("Proposed. It waits in Review for somebody else.");
    } catch (problem) { complain(problem); }
  };
  return html`<${Dialog} title="Correct" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind="primary" disabled=${!text.trim() || text.trim() === one.content || !why.trim()} onClick=${act}>Propose<//>`}>
    <p>Your text is proposed in your name. When another reviewer accepts it, it replaces this memory; until then nothing changes.</p>
    <label class="field">Content<textarea rows="4" value=${text} onInput=${(e) => write(e.target.value)} autofocus></textarea></label>
    <label class="field">Because<input type="text" value=${why} onInput=${(e) => say(e.target.value)} /></label><//>`;
};

export const MemoryDetail = ({ one, params = {} }) => {
  const [dialog, open] = useState(null), { falls: along, all } = useFamily(one), falls = along.length;
  return html`<article class="split-detail" aria-label="Memory">
    <header class="detail-head"><a class="back" href=${href("memory", null, params)}><${Icon} name="right" />Back</a>
      <div><p class="run-line"><${Id} id=${one.id} /><${Status} value=${one.status} /><${Tag}>${one.type}<//><${Tag}>
        <${Line} text=${[one.scope, one.project_id, one.user_id].filter(Boolean).join(" ")} max=${60} /><//></p></div>
      ${one.status === "active" && (can("review") || can("write")) && html`<div class="actions">
        ${can("write") && html`<${Button} icon="edit" onClick=${() => open("correct")}>Correct<//>`}
        ${can("review") && html`<${Button} kind="danger quiet" icon="cross" onClick=${() => open("revoke")}>Revoke${falls ? ` ${falls + 1}` : ""}<//>`}
        ${can("erase") && html`<${Button} kind="danger quiet" icon="erase" aria-label="Erase" title="Erase for good" onClick=${() => open("erase")} />`}</div>`}
      ${!can("review") && !can("write") && html`<p class="no-right">Your key may read, not change.</p>`}</header>
    <p class=${cx("statement", one.status !== "active" && "ended")}><${Safe} text=${one.content} /></p>
    <${Facts} items=${[["Trust", html`<${Trust} value=${one.trust} />`], ["Confidence", html`<span class="num">
      ${Math.round(one.confidence * 100)}%</span>`], ["Because", html`<${Safe} text=${one.rationale ?? ""} />`], one.run_id && ["Run", html`<a href=${href("runs", one.run_id)}>
      <${Line} text=${one.run_id} max=${40} /></a>`], one.superseded_by && ["Replaced by", html`<a href=${href("memory", one.superseded_by)}>
      <${Line} text=${one.superseded_by} max=${40} /></a>`]]} />
    <${Section} id="life" title="Life"><${Lifeline} one=${one} /><//>
    <${Section} id="family" title="Where it comes from, what follows" aside=${falls > 0 && html`<span class="muted">
      ${plural(falls, "memory", "memories")} would fall with it</span>`}><${Graph} one=${all[0]} all=${all} /><//>
    ${dialog === "correct" && html`<${Correct} one=${one} onClose=${() => open(null)} />`}
    ${dialog === "revoke" && html`<${Revoke} one=${one} onClose=${() => open(null)} />`}
    ${dialog === "erase" && html`<${Erase} one=${one} onClose=${() => open(null)} />`}
  </article>`;
};
