// Messages between workers: what is stuck first, then what waits for whom, who holds which lease, who called whom.
import { html, cx, css, useState, useEffect } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Id, Json, Line, Section, Skeleton, Sparkline, Status, Time, Wide } from "./ui.js";
import { ms, number, plural } from "./format.js";
import { path, post } from "./api.js";
import { can, complain, toast } from "./state.js";
import { useList, usePage, useQuery } from "./query.js";

const retry = async (one, again) => {
  try { await post(`threads/dead/${path(one.id)}/retry`); toast("It is delivered again"); again(); } catch (error) { complain(error); }
};

const Letter = ({ one, again }) => {
  const [open, show] = useState(false);
  return html`<li class="letter"><div class="letter-row"><span class="glyph bad"><${Icon} name="alert" /></span>
    <div class="letter-text"><b><${Line} text=${one.handler} max=${60} /></b><span><${Line} text=${one.error} max=${120} /></span><span class="muted">
    ${one.attempts} attempts · slot ${one.index} of <${Id} id=${one.thread_id} plain /> · <${Time} at=${one.at} /></span></div>
    <div class="letter-actions"><button type="button" class="link" aria-expanded=${open ? "true" : "false"} onClick=${() => show(!open)}>Payload</button>
      ${can("write") && html`<${Button} small icon="back" onClick=${() => retry(one, again)}>Retry<//>`}</div></div>
      ${open && html`<${Json} value=${one.payload ?? "the message is gone"} label="Payload" />`}</li>`;
};

const LEASE = 30; // seconds that a worker takes unless it says otherwise; longer ones fill the bar

/** How long a lease still runs, counted here: the server is not asked every second. */
const Left = ({ until }) => {
  const [now, tick] = useState(Date.now());
  useEffect(() => { const timer = setInterval(() => tick(Date.now()), 1_000); return () => clearInterval(timer); }, []);
  const left = Math.max(0, Math.round((new Date(until) - now) / 1_000));
  return html`<span class="lease" ref=${css({ w: `${Math.min(100, (left / LEASE) * 100)}%` })} title="A worker that is paused past its lease is refused"><i></i></span><span class="num">${left} s</span>`;
};

/** Handlers for whom something waits, or came within the hour: what waits first. */
const merge = (queues, flow) => {
  const rows = new Map(queues.queues.map((one) => [one.handler, one]));
  for (const one of flow?.handlers ?? []) rows.set(one.handler, { handler: one.handler, threads: 0, retrying: 0, ...rows.get(one.handler), flow: one });
  return [...rows.values()];
};

const sum = (values) => values.reduce((total, one) => total + one, 0);

const Queues = ({ rows }) => html`<${Section} id="queues" title="Queues" count=${rows.length}>${rows.length ? html`<${Wide} label="Queues"><table class="table">
  <thead><tr><th>Handler</th><th class="num">Waiting</th><th class="num">Oldest</th><th class="num" title="95 % of the answers of the last hour came within this time">p95</th><th>Last hour</th></tr></thead>
  <tbody>${rows.map((one) => html`<tr key=${one.handler}><td><b><${Line} text=${one.handler} max=${60} /></b>${one.retrying > 0 && html` <span class="warn-text">${one.retrying} retrying</span>`}</td>
    <td class=${cx("num", !one.threads && "muted")}>${number(one.threads)}</td><td class="num">${one.oldest ? html`<${Time} brief at=${one.oldest} />` : ""}</td>
    <td class="num">${one.flow?.answered ? ms(Math.round(one.flow.p95_seconds * 1_000)) : ""}</td>
    <td>${one.flow ? html`<${Sparkline} values=${one.flow.minutes} label=${`${one.handler}: ${plural(sum(one.flow.minutes), "message")} in the last hour`} />` : ""}</td></tr>`)}</tbody></table><//>` : html`<p class="quiet-empty"><${Icon} name="check" />Nothing waits.</p>`}<//>`;

const Branch = ({ node, state }) => {
  const lease = state.leases.find((one) => one.thread_id === node.thread_id), waits = state.waiting.find((one) => one.thread_id === node.thread_id), dead = state.dead.has(node.thread_id), name = node.names.at(-1) ?? node.thread_id, path = node.root ? node.names.slice(0, -1) : [];
  return html`<li><div class="branch" title=${`thread ${node.thread_id}`}>${path.length > 0 && html`<span class="muted cut"><${Line} text=${`${path.join(" › ")} ›`} max=${60} /></span>`}<b class="cut"><${Line} text=${name} max=${40} /></b>
    <${Status} value=${lease ? "handling" : waits?.attempts ? "retrying" : waits ? "waiting" : dead ? "dead" : "live"} />
    ${lease && html`<span class="muted cut">on <${Worker} name=${lease.worker} /></span>`}${waits?.attempts > 0 && html`<span class="muted">${plural(waits.attempts, "attempt")} failed</span>`}<span class="branch-side">
    <span class="num">${plural(node.length, "message")}</span>${node.last_at && html`<${Time} brief at=${node.last_at} />`}</span></div>
    ${node.children.length > 0 && html`<ul>${node.children.map((child) => html`<${Branch} key=${child.thread_id} node=${child} state=${state} />`)}</ul>`}</li>`;
};

/** Who called whom: each thread below the one that called, as far as both are among the newest. */
const tree = (threads) => {
  const nodes = new Map(threads.map((one) => [one.thread_id, { ...one, children: [], root: false }]));
  const roots = [];
  for (const node of nodes.values()) {
    const parent = node.parent && nodes.get(node.parent);
    if (parent) parent.children.push(node); else { node.root = true; roots.push(node); }
  }
  return roots;
};

const Chains = ({ flow, state }) => html`<${Section} id="chains" title="Call chains" aside=${html`<span class="muted">who called whom, the newest threads</span>`}>
  <ul class="tree">${tree(flow.threads).map((node) => html`<${Branch} key=${node.thread_id} node=${node} state=${state} />`)}</ul><//>`;

/** A worker is called by its machine, its process and a mark of its own; the mark is for machines. */
const Worker = ({ name }) => {
  const [host, pid] = name.split(":");
  return pid === undefined ? html`<b><${Line} text=${name} max=${40} /></b>` : html`<b title=${name}><${Line} text=${pid} max=${16} /></b> <span class="muted"><${Line} text=${host} max=${24} /></span>`;
};

const Leases = ({ leases }) => html`<${Section} id="workers" title="Workers and leases" count=${leases.length}>${leases.length ? html`<${Wide} label="Leases"><table class="table"><thead><tr><th>Worker</th><th>Handles</th><th class="num">Lease</th></tr></thead>
  <tbody>${leases.map((one) => html`<tr key=${one.thread_id}><td><${Worker} name=${one.worker} /></td><td><${Line} text=${one.handlers.join(", ")} max=${60} /></td><td class="num"><${Left} until=${one.until} /></td></tr>`)}</tbody></table><//>` : html`<p class="quiet-empty"><${Icon} name="clock" />No worker holds a thread now.</p>`}<//>`;

const Figures = ({ flow, queues, letters }) => {
  const waiting = sum(queues.queues.map((one) => one.threads)), workers = new Set(queues.leases.map((one) => one.worker)), hour = flow ? sum(flow.minutes) : 0;
  const oldest = queues.queues.map((one) => one.oldest).filter(Boolean).sort()[0];
  return html`<ul class="figures"><li><span>Messages in the last hour${flow && !flow.complete ? ", newest threads" : ""}</span><b>${number(hour)}${flow && !flow.complete ? "+" : ""}</b>
      ${flow && html`<${Sparkline} values=${flow.minutes} label="Messages a minute, last hour" width=${220} height=${28} />`}</li>
    <li><span>Threads waiting</span><b>${number(waiting)}${queues.complete ? "" : "+"}</b><em class="muted">${oldest ? html`oldest <${Time} brief at=${oldest} />` : "none"}</em></li>
    <li><span>Workers at work</span><b>${workers.size}</b><em class="muted">${plural(queues.leases.length, "lease")}</em></li>
    <li class=${cx(letters.length && "bad")}><span>Dead letters</span><b>${letters.length}</b><em class="muted">${letters.length ? `from ${plural(new Set(letters.map((one) => one.handler)).size, "handler")}` : "none"}</em></li></ul>`;
};

export const Threads = () => {
  const { data: dead, again } = useQuery("threads/dead", { limit: 100 }, ["threads"]), { data: queues } = useQuery("threads/queues", {}, ["threads"]);
  const { data: flow } = useQuery("threads/flow", {}, ["threads"]), threads = useList("threads", { limit: 50 }, "threads", ["threads"]), letters = dead?.letters ?? [];
  usePage("threads/flow");
  if (!threads.loaded || !queues || !flow) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!threads.items.length && !letters.length) return html`<div class="page">
    <${Empty} page icon="threads" title="No worker, no message" command="strongroom worker program:dispatcher">Send a message with <code>dispatcher.send("t1", payload, to_id="router")</code> and start as many workers as you like.<//></div>`;
  return html`<div class="page threads"><header class="page-head"><h1>Threads and workers</h1></header><${Figures} flow=${flow} queues=${queues} letters=${letters} />
    <div class="columns even"><div>
      <${Section} id="letters" title="Dead letters" count=${letters.length} aside=${letters.length > 1 && can("write") && html`<button type="button" class="link" onClick=${() => letters.forEach((one) => retry(one, again))}>Retry all</button>`}>
        ${letters.length ? html`<ul class="letters">${letters.map((one) => html`<${Letter} key=${one.id} one=${one} again=${again} />`)}</ul>` : html`<p class="quiet-empty"><${Icon} name="check" />Every message was handled.</p>`}<//>
      <${Chains} flow=${flow} state=${{ leases: queues.leases, waiting: queues.waiting, dead: new Set(letters.map((one) => one.thread_id)) }} /></div>
      <div><${Queues} rows=${merge(queues, flow)} /><${Leases} leases=${queues.leases} />
      <${Section} id="threads" title="Threads" count=${`${threads.items.length}${threads.next ? "+" : ""}`}><${Wide} label="Threads"><table class="table"><thead><tr><th>Thread</th><th>State</th><th class="num">Messages</th><th class="num">Begun</th></tr></thead>
        <tbody>${threads.items.map((one) => html`<tr key=${one.thread_id}><td><${Id} id=${one.thread_id} /></td><td><${Status} value=${one.state} /></td><td class="num">${number(one.length)}</td><td class="num"><${Time} at=${one.created_at} /></td></tr>`)}</tbody></table><//>
        ${threads.next && html`<${Button} small onClick=${threads.more}>Load more<//>`}<//></div>
    </div></div>`;
};
