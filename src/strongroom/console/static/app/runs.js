// All runs: filter by status, find by words, newest first.
import { html } from "./lib.js";
import { Choice, Empty, Foot, Line, Skeleton, Status, Time, Wide } from "./ui.js";
import { spent, number, short } from "./format.js";
import { href, set } from "./router.js";
import { useCounted, useFigures, useList, usePage } from "./query.js";

const GROUPS = { all: null, active: ["BUSY", "IDLE", "BOOT", "PAUSED", "WAITING_INPUT"], failed: ["FAILED"], done: ["DONE"] };
const PAGE = 50;

const Row = ({ one, figures: told }) => html`<tr><td class="cut main-cell"><a class="row-link" href=${href("runs", one.run_id)}><b>
  <${Line} text=${one.run_id} max=${60} /></b><span><${Line} text=${(one.status === "FAILED" && told?.error) || one.objective} /></span></a></td>
  <td><${Status} value=${one.status} /></td><td class="name wide-only">${told && html`<${Line} text=${told.agent} max=${24} />`}</td><td class="num">${number(one._update_seq)}</td>
  <td class="num">${told ? number(told.events) : ""}</td><td class="num">${told ? short(told.tokens) : ""}</td><td class="num">${told ? spent(told.cost) : ""}</td>
  <td class="num">${told && html`<${Time} at=${told.last_at} />`}</td></tr>`;

export const Runs = ({ params }) => {
  const show = params.show in GROUPS ? params.show : "all", q = (params.q ?? "").toLowerCase();
  const query = { limit: PAGE, reverse: true, status: GROUPS[show]?.length === 1 ? GROUPS[show][0] : null }; // of one status, the store knows which
  const { items, next, more, busy, loaded, error } = useList("runs", query, "runs", ["runs"]);
  const told = useFigures("runs", items.map((one) => one.run_id), "runs"), counted = useCounted();
  usePage("runs", query);
  if (error) return html`<div class="page"><${Empty} page icon="alert" title="The runs cannot be shown">${error.message}<//></div>`;
  if (!loaded) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!items.length && show === "all") return html`<div class="page">
    <${Empty} page icon="runs" title="No run yet" command="strongroom demo --serve">A run is one task of one agent: its state, and a ledger of all that happened. Begin one with <code>ctx.runs.create(objective="…")</code>.<//>
    </div>`;
  const inGroup = (one, group) => GROUPS[group]?.includes(one.status) ?? true;
  const list = items.filter((one) => inGroup(one, show) && (!q || `${one.run_id} ${one.objective}`.toLowerCase().includes(q)));
  const count = (group) => (show === "all" && !next ? items.filter((one) => inGroup(one, group)).length : undefined);
  return html`<div class="page"><header class="page-head"><h1>Runs</h1></header>
    <div class="filters"><${Choice} label="Status" value=${show} onPick=${(id) => set({ show: id === "all" ? null : id })} options=${Object.keys(GROUPS).map((id) => [id, id[0].toUpperCase() + id.slice(1), count(id)])} />
      <label class="inline-search"><span class="sr">Filter runs</span>
        <input type="search" placeholder="Filter by words" value=${params.q ?? ""} onInput=${(e) => set({ q: e.target.value })} /></label></div>
    ${list.length ? html`<${Wide} label="Runs"><table class="table rows"><thead><tr><th>Run</th><th>Status</th><th>Agent</th><th class="num">Step</th>
      <th class="num">Events</th><th class="num">Tokens</th><th class="num">Cost</th><th class="num">Last event</th></tr></thead>
      <tbody>${list.map((one) => html`<${Row} key=${one.run_id} one=${one} figures=${told[one.run_id]} />`)}</tbody></table><//>`
      : html`<${Empty} icon="search" title="No run matches">${next ? "None of those that are loaded. Load older ones, or take a word away." : "Take a word away, or show all of them."}<//>`}
    <${Foot} shown=${list.length} loaded=${items.length} next=${next} more=${more} busy=${busy} one="run" counted=${show === "all" ? counted?.runs : undefined} /></div>`;
};
