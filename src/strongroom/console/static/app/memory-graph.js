// What a memory was derived from and what was derived from it, as a small graph in SVG. Layout is by distance.
import { html, cx } from "./lib.js";
import { href } from "./router.js";

const W = 140, H = 40, GAP_X = 24, GAP_Y = 12, FAR = 2;
const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);

const parents = (one) => [...new Set([...one.derived_from, ...one.source_refs])];

/** Columns: negative ones are sources, 0 is the memory, positive ones follow from it. */
const place = (one, all) => {
  const byId = Object.fromEntries(all.map((memory) => [memory.id, memory])), column = new Map([[one.id, 0]]), edges = [], further = new Set();
  const up = (id, depth) => { for (const parent of byId[id] ? parents(byId[id]) : []) { edges.push([parent, id]); column.set(parent, Math.min(column.get(parent) ?? 0, depth - 1)); if (depth - 1 > -FAR) up(parent, depth - 1); else if (byId[parent] && parents(byId[parent]).length) further.add(parent); } };
  const down = (id, depth) => { for (const child of all.filter((memory) => memory.derived_from.includes(id))) { edges.push([id, child.id]); column.set(child.id, Math.max(column.get(child.id) ?? 0, depth + 1)); if (depth + 1 < FAR) down(child.id, depth + 1); } };
  up(one.id, 0); down(one.id, 0);
  const first = Math.min(...column.values()), columns = [];
  for (const [id, at] of column) (columns[at - first] ??= []).push(id);
  const height = Math.max(...columns.map((ids) => ids.length)) * (H + GAP_Y) - GAP_Y, spot = {};
  columns.forEach((ids, x) => ids.forEach((id, y) => { spot[id] = { x: x * (W + GAP_X), y: (height - ids.length * (H + GAP_Y) + GAP_Y) / 2 + y * (H + GAP_Y) }; }));
  return { byId, spot, edges, further, width: columns.length * (W + GAP_X) - GAP_X, height };
};

export const Graph = ({ one, all }) => {
  const { byId, spot, edges, further, width, height } = place(one, all);
  const line = ([from, to]) => { const a = spot[from], b = spot[to], x1 = a.x + W, y1 = a.y + H / 2, x2 = b.x, y2 = b.y + H / 2, mid = (x1 + x2) / 2; return `M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}`; };
  return html`<div class="graph" tabindex="0" role="region" aria-label="Derivation">
    <svg width=${width + 2} height=${height + 2} viewBox=${`-1 -1 ${width + 2} ${height + 2}`} role="group" aria-label="What it comes from, and what follows from it">
    ${edges.map((edge) => html`<path class="edge" d=${line(edge)} />`)}
    ${Object.entries(spot).map(([id, { x, y }]) => {
      const memory = byId[id];
      const box = html`<rect class=${cx("node", memory ? memory.trust : "source", id === one.id && "self")} x=${x} y=${y} width=${W} height=${H} rx="6" />
        <text class="node-id" x=${x + 10} y=${y + 17}>${cut(id.replace("https://", ""), 20)}</text>
        <text class="node-sub" x=${x + 10} y=${y + 31}>
        ${memory ? `${memory.type}, ${memory.trust}${further.has(id) ? " …" : ""}` : "source"}</text>`;
      return memory && id !== one.id ? html`<a href=${href("memory", id)}><title>${memory.content}</title>${box}</a>` : html`<g>
        ${box}</g>`;
    })}</svg></div>`;
};
