// All conversations, as people remember them: by how they began.
import { html } from "./lib.js";
import { Empty, Foot, Line, Skeleton, Tag, Time, Wide } from "./ui.js";
import { belongs, number, short } from "./format.js";
import { href, set } from "./router.js";
import { useCounted, useFigures, useList, usePage } from "./query.js";

const QUERY = { limit: 50, reverse: true };

const Row = ({ one, figures: told }) => html`<tr><td class="cut main-cell"><a class="row-link" href=${href("sessions", one.id)}><b>
  <${Line} text=${one.title || one.id} max=${80} /></b><span><${Line} text=${told?.first || (one.title ? one.id : "nothing was said yet")} max=${120} /></span></a></td>
  <td><span class="tags">${belongs(one).slice(0, 1).map((text) => html`<${Tag}><${Line} text=${text} max=${40} /><//>`)}${belongs(one).length > 1 && html`<span class="muted" title=${belongs(one).slice(1).join(", ")}>+${belongs(one).length - 1}</span>`}</span></td>
  <td class="num">${number(one.messages)}</td><td class="num">${told && html`<span title=${told.exact ? null : "Projected from the newest messages"}>${told.exact ? "" : "~"}${short(told.tokens)}</span>`}</td>
  <td class="num">${told && (told.last_at ? html`<${Time} at=${told.last_at} />` : "never")}</td></tr>`;

export const Sessions = ({ params }) => {
  const { items, next, more, busy, loaded, error } = useList("sessions", QUERY, "sessions", ["sessions"]);
  const told = useFigures("sessions", items.map((one) => one.id), "sessions"), counted = useCounted();
  usePage("sessions", QUERY);
  if (error) return html`<div class="page"><${Empty} page icon="alert" title="The conversations cannot be shown">${error.message}<//></div>`;
  if (!loaded) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!items.length) return html`<div class="page">
    <${Empty} page icon="sessions" title="No conversation yet" command="strongroom demo --serve">A session is a conversation of any length. Begin one with <code>ctx.sessions.open("support-7").append(…)</code>.<//></div>`;
  const q = (params.q ?? "").toLowerCase();
  const list = items.filter((one) => !q || `${one.id} ${one.title} ${told[one.id]?.first ?? ""}`.toLowerCase().includes(q));
  return html`<div class="page"><header class="page-head"><div><h1>Sessions</h1><p class="lead">as they began, the newest first</p></div></header>
    <div class="filters"><label class="inline-search"><span class="sr">Filter sessions</span>
      <input type="search" placeholder="Filter by title, id or first words" value=${params.q ?? ""} onInput=${(e) => set({ q: e.target.value })} /></label></div>
    ${list.length ? html`<${Wide} label="Sessions"><table class="table rows"><thead><tr><th>Conversation</th><th>Belongs to</th><th class="num">Messages</th><th class="num">Tokens</th><th class="num">Last message</th></tr></thead>
      <tbody>${list.map((one) => html`<${Row} key=${one.id} one=${one} figures=${told[one.id]} />`)}</tbody></table><//>`
      : html`<${Empty} icon="search" title="No session matches">Words inside messages are found by the search box above.<//>`}
    <${Foot} shown=${list.length} loaded=${items.length} next=${next} more=${more} busy=${busy} one="session" counted=${counted?.sessions} /></div>`;
};
