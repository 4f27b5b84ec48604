// Notes of agents: all paths, and what one says now or said at a version.
import { html, cx } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Json, Line, Section, Skeleton, Time, Wide } from "./ui.js";
import { number } from "./format.js";
import { href, set } from "./router.js";
import { useList, usePage, useQuery } from "./query.js";

const VERSIONS = 100;

export const Files = ({ params }) => {
  const { items, next, more, busy, loaded, error } = useList("files", { limit: 100 }, "files", ["files"]);
  usePage("files", { limit: 100 });
  if (error) return html`<div class="page"><${Empty} page icon="alert" title="The files cannot be shown">${error.message}<//></div>`;
  if (!loaded) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!items.length) return html`<div class="page">
    <${Empty} page icon="files" title="No file yet" command="strongroom files write /notes/first.md first.md">A file is a path to text, with every version kept. Write one with <code>ctx.files.write("/notes/first.md", "…")</code>.<//></div>`;
  const q = (params.q ?? "").toLowerCase();
  const list = items.filter((one) => !q || one.path.toLowerCase().includes(q));
  return html`<div class="page"><header class="page-head"><h1>Files</h1></header>
    <div class="filters"><label class="inline-search"><span class="sr">Filter files</span>
      <input type="search" placeholder="Filter by path" value=${params.q ?? ""} onInput=${(e) => set({ q: e.target.value })} /></label></div>
    ${list.length ? html`<${Wide} label="Files"><table class="table rows"><thead><tr><th>Path</th><th class="num">Version</th><th class="num">Bytes</th><th class="num">Changed</th></tr></thead>
      <tbody>${list.map((one) => html`<tr key=${one.path}><td class="cut main-cell"><a class="row-link" href=${href("files", one.path)}><b>
        <${Line} text=${one.path} max=${120} /></b></a></td>
        <td class="num">${number(one.version)}</td><td class="num">${number(one.bytes)}</td><td class="num"><${Time} at=${one.updated_at} /></td></tr>`)}</tbody></table><//>`
      : html`<${Empty} icon="search" title="No path matches">Words inside files are found by the search box above.<//>`}
    <p class="page-foot">${list.length} of the ${items.length} shown${next ? ". " : "; there are no more."}${next && html`<${Button} small onClick=${more} disabled=${busy}>Load more<//>`}</p></div>`;
};

/** The newest versions, the newest first; also of a file that is gone. */
const Versions = ({ path, last, shown }) => {
  const after = last > VERSIONS ? last - VERSIONS : null;
  const { data } = useQuery("files/history", { path, after, limit: VERSIONS }, ["files"]);
  if (!data?.versions.length) return null;
  return html`<${Section} title="Versions" id="versions"><${Wide} label="Versions"><table class="table rows"><thead><tr><th>Version</th><th>Change</th><th class="num">Bytes</th><th class="num">When</th></tr></thead>
    <tbody>${[...data.versions].reverse().map((one) => html`<tr key=${one.version} class=${cx(one.version === shown && "target")}>
      <td><a href=${href("files", path, { version: one.version })} aria-current=${one.version === shown ? "true" : null}>${number(one.version)}</a></td>
      <td>${one.change.replaceAll("_", " ")}${one.other && html` <${Line} text=${one.other} max=${80} />`}</td>
      <td class="num">${number(one.bytes)}</td><td class="num"><${Time} at=${one.at} /></td></tr>`)}</tbody></table><//>
    ${after && html`<p class="page-foot">The newest ${VERSIONS}; <code>strongroom files history</code> lists all.</p>`}<//>`;
};

export const OneFile = ({ id, params }) => {
  const version = params.version ?? null;
  const { data: now, error: gone } = useQuery("files/text", { path: id }, ["files"]), { data: then, error: never } = useQuery(version && "files/text", { path: id, version });
  usePage("files/text", { path: id, version });
  const shown = version ? then : now, error = version ? never : gone;
  if (!shown && !error) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  return html`<div class="page file"><header class="page-head"><div><div class="run-line"><a class="crumb" href="#/files">Files</a><${Icon} name="right" />
    ${shown && html`<span>version ${number(version ?? shown.version)}, ${number(shown.bytes)} bytes</span>`}${version && html`<a href=${href("files", id)}>show it now</a>`}</div>
    <h1><${Line} text=${id} max=${200} /></h1></div></header>
    ${error ? html`<${Empty} icon="alert" title="There is no text to show"><${Line} text=${error.message} max=${300} /><//>` : html`<${Json} key=${shown.version} value=${shown.text} label="Text" />`}
    <${Versions} path=${id} last=${now?.version ?? 0} shown=${Number(version ?? now?.version)} /></div>`;
};
