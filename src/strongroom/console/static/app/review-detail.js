// One proposal: what would change, what is odd about it, where it comes from, how far it can be trusted.
import { html, cx } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Facts, Id, Line, Safe, Section, Tag, Time, Trust, WordDiff } from "./ui.js";
import { href } from "./router.js";
import { useQuery } from "./query.js";

export const VERB = { add: "Add", supersede: "Replace", deprecate: "End", noop: "Nothing" };

export const FLAGS = {
  hidden_characters: ["Hidden characters", "The text holds characters that are not seen or that turn the reading direction. They are spelt out here."],
  instruction_like: ["Reads like an instruction", "It tells a model what to do instead of stating what is so. Prompt injections look like this."],
  encoded_text: ["Long encoded text", "A long run of letters that may hide something from a reader."],
  mixed_scripts: ["Look-alike letters", "One word mixes Latin with letters of another script that look the same."],
  replaces_more_trusted: ["Replaces something trusted more", "What it would end has a higher trust than the proposal has."],
};

const Change = ({ one }) => {
  const { op, content } = one.request, old = one.replaces[0];
  if (op === "deprecate") return html`<div class="change"><p class="word-diff"><del><${Safe} text=${old?.content ?? one.request.target_memory_id} /></del></p>
    <p class="change-note">This memory ends. Nothing takes its place.</p></div>`;
  if (!old) return html`<div class="change"><p class="word-diff"><${Safe} text=${content} max=${2_000} /></p>
    <p class="change-note">New. It replaces nothing.</p></div>`;
  return html`<div class="change"><${WordDiff} before=${old.content} after=${content} />
    <p class="change-note"><span>Ends <a href=${href("memory", old.id)}>
      <${Line} text=${old.id} max=${40} /></a>, accepted <${Time} at=${old.created_at} />.</span>
      <${Trust} value=${old.trust} /></p></div>`;
};

const Flags = ({ flags }) => html`<ul class="flags">
  ${flags.map((flag) => { const [name, meaning] = FLAGS[flag] ?? [flag, ""]; return html`<li><${Icon} name="flag" /><div><b>${name}</b>
  <span>${meaning}</span></div></li>`; })}</ul>`;

const Near = ({ hits }) => html`<ul class="near">${hits.map((hit) => { const one = hit.memory ?? hit; return html`<li>
  <a href=${href("memory", one.id)}><${Line} text=${one.content} /></a><span class="near-meta"><b class="score">
  ${hit.score === undefined ? "" : `${Math.round(hit.score * 100)}%`}</b><span class="why"><${Line} text=${hit.why ?? ""} max=${80} /></span>${one.status !== "active" && html`<${Tag} tone="bad">
  ${one.status}<//>`}</span></li>`; })}</ul>`;

/** The message that a proposal cites, in its conversation. */
const Said = ({ source }) => html`<ol class="excerpt">${source.messages.map((one) => html`<li class=${cx(one.id === source.message_id && "cited")}>
    <b><${Line} text=${one.message.role} max=${20} /></b><span><${Safe} text=${typeof one.message.content === "string" && one.message.content ? one.message.content : "(tool call)"} max=${220} /></span></li>`)}</ol>
    <p class="after"><a href=${href("sessions", source.session_id, { at: source.message_id })}>Open in its conversation</a></p>`;

/** The lowest of its sources decides; shown as links of a chain with the result at the end. */
const Chain = ({ links, result }) => html`<ol class="chain">${links.map(([name, trust], i) => html`<li><span class="chain-role">
  ${i === 0 ? "proposed by" : "derived from"}</span><b><${Line} text=${name.replace(/^https?:\/\//, "")} max=${40} /></b>${trust ? html`<${Trust} value=${trust} />` : html`<span class="muted" title="What it says was not reviewed here, so it adds no trust">not a memory</span>`}
  </li>`)}<li class="result"><span class="chain-role">so it is</span><b>the lowest of these</b><${Trust} value=${result} /></li>
  </ol>`;

/** What else it says, which nobody may approve unseen. */
const besides = ({ tags = [], metadata = {}, happened_at, valid_from, valid_until, expires_at }) => [
  ["Tags", tags.join(", ")], ["Metadata", Object.keys(metadata).length ? JSON.stringify(metadata) : ""], ["Happened", happened_at],
  ["Valid from", valid_from], ["Valid until", valid_until], ["Expires", expires_at],
].filter(([, said]) => said).map(([name, said]) => [name, html`<${Safe} text=${said} />`]);

export const Detail = ({ one, params, may, place, onAccept, onReject, onEdit }) => {
  const { request } = one, refs = (request.source_refs ?? []).slice(0, 20);
  const { data: known } = useQuery(refs.length ? `memories/sources?${refs.map((ref) => `ref=${encodeURIComponent(ref)}`).join("&")}` : null);
  const sources = known?.sources ?? [], source = sources.find((other) => other.kind === "message");
  const chain = [[one.proposer, one.trust], ...sources.slice(0, 3).map((other) => [other.ref, other.trust])];
  return html`<article class="split-detail review-detail" aria-label="Proposal">
    <header class="detail-head"><a class="back" href=${href("review", null, params)}><${Icon} name="right" />Back</a>
      <div><h2>${VERB[request.op]} a ${request.type}</h2><p class="sub">
        ${request.scope} <${Line} text=${[request.project_id, request.user_id].filter(Boolean).join(" ")} max=${60} /> · by <b>
        <${Line} text=${one.proposer} max=${40} /></b> <${Time} at=${one.created_at} /> · ${place}</p></div>
      ${may ? html`<div class="actions"><${Button} kind=${one.flags.length ? "" : "primary"} hint="a" onClick=${onAccept}>
        ${one.flags.length ? "Accept…" : "Accept"}<//><${Button} hint="r" onClick=${onReject}>Reject<//>
        ${one.memory_id && html`<${Button} hint="e" onClick=${onEdit}>Edit<//>`}</div>` : html`<p class="no-right">Your key may read, not decide.</p>`}
    </header>
    ${one.flags.length > 0 && html`<${Flags} flags=${one.flags} />`}
    <${Change} one=${one} />
    <${Section} id="why" title="Why"><p class="prose"><${Safe} text=${request.rationale ?? ""} /></p>
      <${Facts} items=${[["Confidence", html`<span class="num">
        ${Math.round(request.confidence * 100)}%</span>`], ["Sources", html`<span class="refs">
        ${request.source_refs.map((ref) => html`<${Id} id=${ref} />`)}</span>`], ...besides(request), ["Batch", html`<${Id} id=${one.batch.id} />${one.of > 1 ? html` <span class="muted">${one.place + 1} of ${one.of}; a batch is decided as a whole</span>` : ""}`]]} />
        <//>
    <${Section} id="trust" title="Trust"><${Chain} links=${chain} result=${one.trust} /><//>
    ${one.near.length > 0 && html`<${Section} id="near" title="Close to what is known" count=${one.near.length}>
      <${Near} hits=${one.near} /><//>`}
    ${source && html`<${Section} id="source" title="Where it was said"><${Said} source=${source} /><//>`}
  </article>`;
};
