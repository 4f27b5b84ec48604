// All conversations.
import { html } from "./lib.js";
import { Button, Empty, Line, Skeleton, Tag, Time, Wide } from "./ui.js";
import { number } from "./format.js";
import { href, set } from "./router.js";
import { useList, usePage } from "./query.js";

export const Sessions = ({ params }) => {
  const { items, next, more, busy, loaded, error } = useList("sessions", { limit: 100, reverse: true }, "sessions", ["sessions"]);
  usePage("sessions", { limit: 100, reverse: true });
  if (error) return html`<div class="page"><${Empty} page icon="alert" title="The conversations cannot be shown">${error.message}<//></div>`;
  if (!loaded) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!items.length) return html`<div class="page">
    <${Empty} page icon="sessions" title="No conversation yet" command="strongroom demo --serve">A session is a conversation of any length. Begin one with <code>ctx.sessions.open("support-7").append(…)</code>.<//></div>`;
  const q = (params.q ?? "").toLowerCase();
  const list = items.filter((one) => !q || `${one.id} ${one.title}`.toLowerCase().includes(q));
  return html`<div class="page"><header class="page-head"><h1>Sessions</h1></header>
    <div class="filters"><label class="inline-search"><span class="sr">Filter sessions</span>
      <input type="search" placeholder="Filter by title or id" value=${params.q ?? ""} onInput=${(e) => set({ q: e.target.value })} /></label></div>
    ${list.length ? html`<${Wide} label="Sessions"><table class="table rows"><thead><tr><th>Conversation</th><th>Belongs to</th><th class="num">Messages</th><th class="num">Begun</th></tr></thead>
      <tbody>${list.map((one) => html`<tr key=${one.id}><td class="cut main-cell"><a class="row-link" href=${href("sessions", one.id)}><b>
        <${Line} text=${one.title || one.id} max=${80} /></b><span><${Line} text=${one.id} max=${80} /></span></a></td>
        <td>${Object.entries({ ...one.tags, ...one.metadata }).slice(0, 3).map(([name, value]) => html`<${Tag}><${Line} text=${`${name} ${typeof value === "string" ? value : JSON.stringify(value)}`} max=${40} /><//>`)}</td>
        <td class="num">${number(one.messages)}</td><td class="num"><${Time} at=${one.created_at} /></td></tr>`)}</tbody></table><//>`
      : html`<${Empty} icon="search" title="No session matches">Words inside messages are found by the search box above.<//>`}
    <p class="page-foot">${list.length} of the ${items.length} shown${next ? ". " : "; there are no more."}${next && html`<${Button} small onClick=${more} disabled=${busy}>Load more<//>`}</p></div>`;
};
