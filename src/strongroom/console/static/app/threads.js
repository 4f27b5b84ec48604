// Messages between workers: what is stuck first, then what waits for whom, who holds which lease, and the threads.
import { html, cx, useState, useEffect } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Id, Json, Line, Section, Skeleton, Status, Time, Wide } from "./ui.js";
import { number, plural } from "./format.js";
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

/** How long a lease still runs, counted here: the server is not asked every second. */
const Left = ({ until }) => {
  const [now, tick] = useState(Date.now());
  useEffect(() => { const timer = setInterval(() => tick(Date.now()), 1_000); return () => clearInterval(timer); }, []);
  return html`<span class="num">${Math.max(0, Math.round((new Date(until) - now) / 1_000))} s</span>`;
};

export const Threads = () => {
  const { data: dead, again } = useQuery("threads/dead", { limit: 100 }, ["threads"]), { data: queues } = useQuery("threads/queues", {}, ["threads"]);
  const threads = useList("threads", { limit: 50 }, "threads", ["threads"]), letters = dead?.letters ?? [];
  usePage("threads/queues");
  if (!threads.loaded || !queues) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  if (!threads.items.length && !letters.length) return html`<div class="page">
    <${Empty} page icon="threads" title="No worker, no message" command="strongroom worker program:dispatcher">Send a message with <code>dispatcher.send("t1", payload, to_id="router")</code> and start as many workers as you like.<//></div>`;
  const waiting = queues.queues.reduce((sum, one) => sum + one.threads, 0), workers = new Set(queues.leases.map((one) => one.worker));
  return html`<div class="page threads"><header class="page-head"><h1>Threads and workers</h1></header>
    <ul class="figures"><li><span>Threads waiting</span><b>${number(waiting)}${queues.complete ? "" : "+"}</b><em class="muted">for ${plural(queues.queues.length, "handler")}</em></li>
      <li><span>Workers at work</span><b>${workers.size}</b><em class="muted">${plural(queues.leases.length, "lease")}</em></li>
      <li class=${cx(letters.length && "bad")}><span>Dead letters</span><b>${letters.length}</b><em class="muted">${letters.length ? `from ${plural(new Set(letters.map((one) => one.handler)).size, "handler")}` : "none"}</em></li></ul>
    <div class="columns even"><div>
      <${Section} id="letters" title="Dead letters" count=${letters.length} aside=${letters.length > 1 && can("write") && html`<button type="button" class="link" onClick=${() => letters.forEach((one) => retry(one, again))}>Retry all</button>`}>
        ${letters.length ? html`<ul class="letters">${letters.map((one) => html`<${Letter} key=${one.id} one=${one} again=${again} />`)}</ul>` : html`<p class="quiet-empty"><${Icon} name="check" />Every message was handled.</p>`}<//>
      <${Section} id="threads" title="Threads" count=${threads.items.length}><${Wide} label="Threads"><table class="table"><thead><tr><th>Thread</th><th>State</th><th class="num">Messages</th><th class="num">Begun</th></tr></thead>
        <tbody>${threads.items.map((one) => html`<tr key=${one.thread_id}><td><${Id} id=${one.thread_id} /></td><td><${Status} value=${one.state} /></td><td class="num">${number(one.length)}</td><td class="num"><${Time} at=${one.created_at} /></td></tr>`)}</tbody></table><//>
        ${threads.next && html`<${Button} small onClick=${threads.more}>Load more<//>`}<//></div>
      <div><${Section} id="queues" title="Queues" count=${queues.queues.length}>${queues.queues.length ? html`<${Wide} label="Queues"><table class="table"><thead><tr><th>Handler</th><th class="num">Waiting</th><th class="num">Oldest</th></tr></thead>
        <tbody>${queues.queues.map((one) => html`<tr key=${one.handler}><td><b><${Line} text=${one.handler} max=${60} /></b>${one.retrying > 0 && html` <span class="warn-text">${one.retrying} retrying</span>`}</td>
          <td class="num">${number(one.threads)}</td><td class="num">${one.oldest ? html`<${Time} at=${one.oldest} />` : ""}</td></tr>`)}</tbody></table><//>` : html`<p class="quiet-empty"><${Icon} name="check" />Nothing waits.</p>`}<//>
      <${Section} id="workers" title="Leases" count=${queues.leases.length}>${queues.leases.length ? html`<${Wide} label="Leases"><table class="table"><thead><tr><th>Worker</th><th>Handles</th><th class="num">Lease</th></tr></thead>
        <tbody>${queues.leases.map((one) => html`<tr key=${one.thread_id}><td><${Line} text=${one.worker} max=${40} /></td><td><${Line} text=${one.handlers.join(", ")} max=${60} /></td><td class="num"><${Left} until=${one.until} /></td></tr>`)}</tbody></table><//>` : html`<p class="quiet-empty"><${Icon} name="clock" />No worker holds a thread now.</p>`}<//></div>
    </div></div>`;
};
