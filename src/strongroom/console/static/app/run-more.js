// The other parts of a run: what it cost, its milestones, what it stored.
import { html, css, useEffect, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Id, Json, Line, Safe, Skeleton, Time, Wide } from "./ui.js";
import { bytes, spent, ms, number } from "./format.js";
import { beginning, download, path } from "./api.js";
import { complain, toast } from "./state.js";
import { useList, useQuery } from "./query.js";

const Tools = ({ tools }) => {
  const named = Object.entries(tools).sort((a, b) => b[1].latency_ms - a[1].latency_ms || b[1].calls - a[1].calls), top = Math.max(1, named[0]?.[1].latency_ms ?? 0);
  if (!named.length) return html`<p class="muted">No tool has answered yet.</p>`;
  return html`<ul class="bars">${named.map(([name, one]) => html`<li key=${name}><span class="bar-name cut"><${Line} text=${name} max=${60} /></span><span class="bar" ref=${css({ w: `${Math.max(1, (one.latency_ms / top) * 100)}%` })}></span>
    <span class="num">${one.latency_ms ? ms(one.latency_ms) : ""}</span><span class="num muted">${number(one.calls)}×${one.errors ? html`, <b class="bad-text">${number(one.errors)} failed</b>` : ""}</span></li>`)}</ul>`;
};

/** Sums that the store keeps, not events added up here: a long run costs no more to look at than a short one. */
export const Usage = ({ usage }) => {
  if (!usage || (!usage.model_actions && !usage.tool_results)) return html`<${Empty} icon="model" title="Nothing was counted">Record <code>MODEL_ACTION</code> with <code>model</code>, <code>tokens_in</code>, <code>tokens_out</code> and <code>cost</code>, and the sums stand here.<//>`;
  return html`<div class="usage"><h3>Models</h3>
    <${Wide} label="Models"><table class="table"><thead><tr><th>Model</th><th class="num">Calls</th><th class="num">Input</th>
      <th class="num">of it cached</th><th class="num">Output</th><th class="num">Cost</th></tr></thead>
      <tbody>${Object.entries(usage.models ?? {}).map(([name, one]) => html`<tr><td><b><${Line} text=${name} max=${60} /></b></td><td class="num">${number(one.calls)}</td>
        <td class="num">${number(one.tokens_in)}</td><td class="num">${one.tokens_in ? `${Math.round((one.tokens_cached / one.tokens_in) * 100)}%` : ""}</td>
        <td class="num">${number(one.tokens_out)}</td><td class="num">${spent(one.cost)}</td></tr>`)}</tbody>
      <tfoot><tr><td>Together</td><td class="num">${number(usage.model_actions)}</td><td class="num" colspan="3">${number(usage.total.tokens_in + usage.total.tokens_out)} tokens</td><td class="num">${spent(usage.total.cost)}</td></tr></tfoot></table><//>
    <h3>Tools, by time</h3><${Tools} tools=${usage.tools ?? {}} /></div>`;
};

export const EPISODES = 20;

export const Episodes = ({ id, onSeq }) => {
  const { items, next, more, loaded } = useList(`${path("runs", id)}/episodes`, { limit: EPISODES }, "episodes", ["runs"]);
  if (loaded && !items.length) return html`<${Empty} icon="milestone" title="No milestone yet"><code>run.milestone("…")</code> freezes a before and an after.<//>`;
  return html`<ol class="episodes">${items.map((one) => html`<li key=${one.episode_id}><span class="glyph accent"><${Icon} name="milestone" /></span><div><h3><${Line} text=${one.reason} /></h3>
    <p class="prose"><${Safe} text=${one.summary} max=${400} /></p>
    <p class="muted">events ${number(one.first_event)} to ${number(one.last_event)} · <${Time} at=${one.created_at} />${one.next_entry_point && html` · goes on with: <${Line} text=${one.next_entry_point} />`}</p>
    <button type="button" class="link" onClick=${() => onSeq(one.ws_after._update_seq)}>See the state at step ${one.ws_after._update_seq}</button></div></li>`)}</ol>
    ${next && html`<${Button} small onClick=${more}>Load more<//>`}`;
};

const FIRST = 1_200;

/** The beginning of a text, or that it is none. */
const Preview = ({ address, name }) => {
  const [text, set] = useState(undefined);
  useEffect(() => { let alive = true; beginning(address, FIRST).then((found) => alive && set(found), () => alive && set(null)); return () => { alive = false; }; }, [address]);
  if (text === undefined) return html`<${Skeleton} rows=${2} />`;
  return text === null ? html`<p class="muted">No text to show. Save it to open it.</p>` : html`<${Json} value=${text} label=${`Beginning of ${name}`} />`;
};

/** Stored bytes are only ever saved as a file or shown as text, never opened as a page. */
export const Artifacts = ({ id }) => {
  const { data } = useQuery(`${path("runs", id)}/artifacts`, {}, ["runs"]);
  if (!data) return html`<${Skeleton} rows=${4} />`;
  if (!data.artifacts.length) return html`<${Empty} icon="box" title="Nothing attached">Files of a run are kept with it: <code>run.attach("report.pdf", type="application/pdf")</code>.<//>`;
  const at = (one) => `${path("runs", id)}/artifacts/${path(one.id)}`;
  const save = (one) => download(at(one), (one.path || one.id).split("/").pop()).then(() => toast("Saved"), complain);
  return html`<ul class="artifacts">${data.artifacts.map((one) => html`<li key=${one.id}><div class="artifact-head"><b><${Line} text=${one.path} max=${80} /></b><span class="muted cut"><${Line} text=${one.type} max=${60} /></span>
    <span class="num">${one.bytes === null ? "gone" : bytes(one.bytes)}</span><${Id} id=${one.sha256} />${one.bytes !== null && html`<${Button} small onClick=${() => save(one)}>Download<//>`}</div>
    ${one.bytes !== null && html`<${Preview} address=${at(one)} name=${one.path} />`}</li>`)}</ul>`;
};
