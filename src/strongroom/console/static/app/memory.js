// Long-term memory: search with the reason of each hit, filters in the URL, the life of one beside the list.
import { html, cx, useEffect } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Line, Skeleton, Status, Trust, useKeys } from "./ui.js";
import { go, href, set } from "./router.js";
import { path } from "./api.js";
import { can } from "./state.js";
import { number, plural } from "./format.js";
import { useCounted, useList, usePage, useQuery } from "./query.js";
import { MemoryDetail } from "./memory-detail.js";

const TYPES = ["fact", "preference", "policy", "decision", "invariant"];
const TRUST = ["untrusted", "unverified", "trusted"];

const today = () => { const now = new Date(); return new Date(now - now.getTimezoneOffset() * 60_000).toISOString().slice(0, 10); };

const Select = ({ name, label, options, value }) => html`<label class="pick"><span class="sr">${label}</span>
  <select value=${value} onChange=${(e) => set({ [name]: e.target.value })}><option value="">${label}</option>
  ${options.map((one) => html`<option>${one}</option>`)}</select><${Icon} name="down" /></label>`;

const Row = ({ hit: { memory, score, why }, current, params }) => html`<li class=${cx("inbox-row memory-row", current && "current", memory.status !== "active" && "ended")}>
  <a href=${href("memory", memory.id, params)} aria-current=${current ? "true" : null}>
  <span class="inbox-text"><${Line} text=${memory.content} max=${140} /></span>
  <span class="inbox-meta"><span>${memory.type}</span><${Trust} value=${memory.trust} />
    ${memory.status !== "active" && html`<${Status} value=${memory.status} />`}<span class="push">${memory.scope}</span></span>
  ${why && html`<span class="why"><b class="score">${score.toFixed(2)}</b><${Line} text=${why} max=${90} /></span>`}</a></li>`;

/** The last moment of a day in the viewer's zone: what was known when it was over. Nothing for what is no day. */
const endOf = (day) => {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(day ?? "") ? new Date(`${day}T23:59:59.999`) : NaN;
  return Number.isNaN(+at) ? null : at.toISOString();
};

/** A search by words or meaning; without words, a list in the order of arrival: of now, or of what was known on a day. */
const useFound = (params, status) => {
  const q = (params.q ?? "").trim(), day = endOf(params.as_of), filters = { type: params.type, scope: params.scope, min_trust: params.trust, as_of: day };
  const hits = useQuery(q ? "memories/search" : null, { q, k: 50, ...filters, user_id: params.user }, ["memories"]);
  const list = useList(q ? null : "memories", { limit: 100, ...filters, ...(day ? { known_at: day } : { status }), user_id: params.user, everyone: can("erase") ? true : null }, "memories", ["memories"]);
  if (q) return { hits: hits.data?.hits ?? [], loaded: hits.data !== undefined, degraded: hits.data?.degraded };
  return { ...list, hits: list.items.map((memory) => ({ memory })) };
};

/** What the date means here, in words. */
const AsOf = ({ params }) => html`<p class="banner as-of" role="status"><${Icon} name="clock" /><span>${(params.q ?? "").trim()
  ? "What is known now, as far as it was so on that day." : "What was known when that day was over, whatever became of it since."}</span>
  <button type="button" class="link" onClick=${() => set({ as_of: null })}>Back to now</button></p>`;

export const Memory = ({ id, params }) => {
  const status = params.status ?? "active", { hits, loaded, degraded, next, more, busy } = useFound(params, status);
  const direct = useQuery(id && !hits.some((hit) => hit.memory.id === id) ? path("memories", id) : null, {}, ["memories"]).data;
  const chosen = id ? hits.find((hit) => hit.memory.id === id)?.memory ?? direct : null, shown = chosen ?? (id ? null : hits[0]?.memory);
  const counted = useCounted();
  usePage(shown ? path("memories", shown.id) : null);
  const at = hits.findIndex((hit) => hit.memory.id === shown?.id);
  const move = (step) => hits[at + step] && go("memory", hits[at + step].memory.id, params);
  useKeys({ j: () => move(1), k: () => move(-1) });
  useEffect(() => { document.querySelector(".inbox-row.current")?.scrollIntoView({ block: "nearest" }); }, [shown?.id, loaded]);
  const filtered = params.q || params.type || params.scope || params.trust || params.user || params.as_of || status !== "active", past = endOf(params.as_of) !== null;
  if (loaded && !hits.length && !filtered && !id) return html`<div class="page">
    <${Empty} page icon="memory" title="Nothing is known yet" command='strongroom memories add "likes tea" --user u1'>Nothing becomes known by being written: it is proposed, reviewed and committed. Propose the first with <code>ctx.memories.propose(…)</code>.<//></div>`;
  return html`<div class=${cx("split memory", id && "open")}><h1 class="sr">Memory</h1>
    <div class="split-list"><header class="list-head"><div class="list-title" aria-hidden="true">Memory</div>
      <label class="inline-search big"><span class="sr">Search memories</span><${Icon} name="search" />
        <input type="search" placeholder="What is known about…" value=${params.q ?? ""} onInput=${(e) => set({ q: e.target.value })} /></label>
      <div class="picks"><${Select} name="type" label="Type" options=${TYPES} value=${params.type ?? ""} />
        <${Select} name="scope" label="Scope" options=${["user", "project", "global"]} value=${params.scope ?? ""} />
        <${Select} name="trust" label="Trust" options=${TRUST} value=${params.trust ?? ""} />
        ${!past && html`<label class="pick"><span class="sr">Status</span>
          <select value=${status} onChange=${(e) => set({ status: e.target.value === "active" ? null : e.target.value })}>
          ${["active", "superseded", "deprecated", "revoked", "any"].map((one) => html`<option value=${one} selected=${one === status}>${one === "any" ? "any status" : one}</option>`)}</select><${Icon} name="down" /></label>`}
        <label class="pick day"><span>As of</span><input type="date" aria-label="As of" value=${params.as_of ?? ""} max=${today()} onChange=${(e) => set({ as_of: e.target.value || null })} /></label></div></header>
      ${past && html`<${AsOf} params=${params} />`}
      ${degraded && html`<p class="banner warn" role="status"><${Icon} name="alert" /><span>${degraded}</span></p>`}
      ${!loaded ? html`<${Skeleton} rows=${8} />` : html`<ul class="inbox">${hits.map((hit) => html`<${Row} key=${hit.memory.id} hit=${hit} current=${hit.memory.id === shown?.id} params=${params} />`)}</ul>`}
      ${loaded && !hits.length && html`<${Empty} icon="search" title="Nothing is known about this">Memories of a user or a project are found when it is named; with an embedder, search goes by meaning too.<//>`}
      <div class="list-foot"><span>${next && counted ? `${number(hits.length)} of ${number(counted.memories)}` : plural(hits.length, "memory", "memories")}</span>${next && html`<${Button} small onClick=${more} disabled=${busy}>More<//>`}<span><kbd>j</kbd> <kbd>k</kbd> move</span></div></div>
    ${shown ? html`<${MemoryDetail} key=${shown.id} one=${shown} params=${params} />` : html`<div class="split-detail">${id && html`<${Empty} icon="memory" title="No such memory">No memory of this space has this id.<//>`}</div>`}
  </div>`;
};
