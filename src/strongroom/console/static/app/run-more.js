// The other parts of a run: what it cost, its milestones, what it stored.
import { html, css } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Id, Line, Safe, Time, Wide } from "./ui.js";
import { money, number, span } from "./format.js";
import { download, path } from "./api.js";
import { complain, toast } from "./state.js";
import { useList } from "./query.js";

/** Sums that the store keeps, not events added up here: a long run costs no more to look at than a short one. */
export const Usage = ({ usage }) => {
  if (!usage || (!usage.model_actions && !usage.tool_results)) return html`<${Empty} icon="model" title="Nothing was counted">Record <code>MODEL_ACTION</code> with <code>model</code>, <code>tokens_in</code>, <code>tokens_out</code> and <code>cost</code>, and the sums stand here.<//>`;
  return html`<div class="usage"><h3>Models</h3>
    <${Wide} label="Models"><table class="table"><thead><tr><th>Model</th><th class="num">Calls</th><th class="num">Input</th>
      <th class="num">of it cached</th><th class="num">Output</th><th class="num">Cost</th></tr></thead>
      <tbody>${Object.entries(usage.models ?? {}).map(([name, one]) => html`<tr><td><b><${Line} text=${name} max=${60} /></b></td><td class="num">${number(one.calls)}</td>
        <td class="num">${number(one.tokens_in)}</td><td class="num">${one.tokens_in ? `${Math.round((one.tokens_cached / one.tokens_in) * 100)}%` : ""}</td>
        <td class="num">${number(one.tokens_out)}</td><td class="num">${money(one.cost)}</td></tr>`)}</tbody>
      <tfoot><tr><td>Together</td><td class="num">${number(usage.model_actions)}</td><td class="num" colspan="3">${number(usage.total.tokens_in + usage.total.tokens_out)} tokens</td><td class="num">${money(usage.total.cost)}</td></tr></tfoot></table><//>
    <h3>Tools</h3><p>${number(usage.tool_results)} results, ${span(usage.total.latency_ms)} with models and tools${usage.total.errors ? html`, <b class="bad-text">${number(usage.total.errors)} failed</b>` : ""}</p></div>`;
};

export const Episodes = ({ id, onSeq }) => {
  const { items, next, more, loaded } = useList(`${path("runs", id)}/episodes`, { limit: 20 }, "episodes", ["runs"]);
  if (loaded && !items.length) return html`<${Empty} icon="milestone" title="No milestone yet"><code>run.milestone("…")</code> freezes a before and an after.<//>`;
  return html`<ol class="episodes">${items.map((one) => html`<li key=${one.episode_id}><h3><${Icon} name="milestone" /><${Line} text=${one.reason} /></h3>
    <p class="muted"><${Time} at=${one.created_at} /> · step ${one.ws_after?._update_seq}</p><p class="prose"><${Safe} text=${one.summary} max=${400} /></p>
    ${one.next_entry_point && html`<p class="muted">Next: <${Line} text=${one.next_entry_point} /></p>`}
    <button type="button" class="link" onClick=${() => onSeq(one.ws_after._update_seq)}>See the state then</button></li>`)}</ol>
    ${next && html`<${Button} small onClick=${more}>Load more<//>`}`;
};

/** Stored bytes are only ever saved as a file, never opened as a page. */
export const Artifacts = ({ id, refs }) => {
  if (!refs.length) return html`<${Empty} icon="box" title="Nothing attached">Files of a run are kept with it: <code>run.attach("report.pdf", type="application/pdf")</code>.<//>`;
  const save = (one) => download(`${path("runs", id)}/artifacts/${path(one.id)}`, (one.path || one.id).split("/").pop()).then(() => toast("Saved"), complain);
  return html`<ul class="artifacts">${refs.map((one) => html`<li key=${one.id}><div><b><${Line} text=${one.path} max=${80} /></b><span class="muted"><${Line} text=${one.type} max=${60} /></span></div>
    <${Id} id=${one.sha256} /><${Button} small icon="box" onClick=${() => save(one)}>Save<//></li>`)}</ul>`;
};
