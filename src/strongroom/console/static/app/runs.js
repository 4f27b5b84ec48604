// All runs: filter by status, find by words, newest first.
import { html } from "./lib.js";
import { Button, Choice, Empty, Line, Skeleton, Status, Wide } from "./ui.js";
import { href, set } from "./router.js";
import { useList, usePage } from "./query.js";

const GROUPS = { active: ["BUSY", "IDLE", "BOOT", "PAUSED", "WAITING_INPUT"], failed: ["FAILED"], done: ["DONE"] };

export const Runs = ({ params }) => {
  const { items, next, more, busy, loaded, error } = useList("runs", { limit: 100 }, "runs", ["runs"]);
  usePage("runs", { limit: 100 });
  if (error) return html`<div class="page"><${Empty} page icon="alert" title="The runs cannot be shown">${error.message}<//></div>`;
  if (!loaded) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!items.length) return html`<div class="page">
    <${Empty} page icon="runs" title="No run yet" command="strongroom demo --serve">A run is one task of one agent: its state, and a ledger of all that happened. Begin one with <code>ctx.runs.create(objective="…")</code>.<//>
    </div>`;
  const show = params.show ?? "all", q = (params.q ?? "").toLowerCase();
  const inGroup = (one, group) => group === "all" || GROUPS[group].includes(one.status);
  const list = items.filter((one) => inGroup(one, show) && (!q || `${one.run_id} ${one.objective}`.toLowerCase().includes(q)));
  return html`<div class="page"><header class="page-head"><h1>Runs</h1></header>
    <div class="filters"><${Choice} label="Status" value=${show} onPick=${(id) => set({ show: id === "all" ? null : id })} options=${["all", "active", "failed", "done"].map((id) => [id, id[0].toUpperCase() + id.slice(1), items.filter((one) => inGroup(one, id)).length])} />
      <label class="inline-search"><span class="sr">Filter runs</span>
        <input type="search" placeholder="Filter by words" value=${params.q ?? ""} onInput=${(e) => set({ q: e.target.value })} /></label></div>
    ${list.length ? html`<${Wide} label="Runs"><table class="table rows"><thead><tr><th>Run</th><th>Status</th><th>Next action</th><th class="num">Step</th></tr></thead>
      <tbody>${list.map((one) => html`<tr key=${one.run_id}><td class="cut main-cell"><a class="row-link" href=${href("runs", one.run_id)}><b>
        <${Line} text=${one.run_id} max=${60} /></b><span><${Line} text=${one.objective} /></span></a></td><td><${Status} value=${one.status} /></td>
        <td class="cut"><${Line} text=${one.next_action} max=${80} /></td><td class="num">${one._update_seq}</td></tr>`)}</tbody></table><//>`
      : html`<${Empty} icon="search" title="No run matches">Take a word away, or show all of them.<//>`}
    <p class="page-foot">${list.length} of the ${items.length} shown${next ? ". " : "; there are no more."}${next && html`<${Button} small onClick=${more} disabled=${busy}>Load more<//>`}</p></div>`;
};
