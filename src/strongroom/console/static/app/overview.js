// First: what needs a person. Then: what runs, what is promised, what just happened.
import { html, cx, useEffect, useRef } from "./lib.js";
import { Icon, eventLook } from "./icons.js";
import { Empty, Line, Section, Status, Time, Wide } from "./ui.js";
import { bytes, exact, spent, number, plural } from "./format.js";
import { href } from "./router.js";
import { can, state, useApp } from "./state.js";
import { useCounted, useFigures, useList, usePage, useQuery } from "./query.js";
import { usePending } from "./decisions.js";

const Need = ({ tone, count, title, detail, to, verb }) => html`
  <li><a class=${cx("need", tone)} href=${to}><b class="need-count">${count}</b><span class="need-text"><strong><${Line} text=${title} max=${80} /></strong>
    <span><${Line} text=${detail} /></span></span><span class="need-go">${verb}<${Icon} name="right" /></span></a></li>`;

const needs = (pending, runs, told, letters) => {
  const flagged = pending.filter((one) => one.flags.length).length, n = pending.length;
  const of = (status) => runs.filter((one) => one.status === status);
  return [
    n && { tone: flagged ? "warn" : "", count: n, title: n === 1 ? "Proposal waits for review" : "Proposals wait for review", detail: flagged ? `${flagged} flagged, the riskiest first` : "none flagged", to: href("review"), verb: "Review" },
    ...of("FAILED").map((one) => ({ tone: "bad", count: 1, title: `Run ${one.run_id} failed`, detail: told[one.run_id]?.error || one.last_action_summary || one.next_action || one.objective, to: href("runs", one.run_id), verb: "Open" })),
    ...of("WAITING_INPUT").map((one) => ({ tone: "warn", count: 1, title: `Run ${one.run_id} waits for you`, detail: one.next_action || one.objective, to: href("runs", one.run_id), verb: "Look" })),
    letters.length && { tone: "bad", count: letters.length, title: letters.length === 1 ? "Dead letter" : "Dead letters", detail: `${letters[0].handler}: ${letters[0].error}`, to: href("threads"), verb: "Look" },
  ].filter(Boolean);
};

/** What is known to be so: from the last check and the last backup, which the server's own administrators see. */
const Proven = ({ upkeep: { check, backups } }) => html`
  ${check && html`<li class=${check.ok ? "ok" : "bad"}><${Icon} name=${check.ok ? "check" : "alert"} /><div><b>${check.ok ? `${plural(check.runs, "ledger")} verified` : "Something is not as it was written"}</b>
    <span>${check.ok ? "every hash chain intact" : "see Operations"}, <${Time} at=${check.at} /></span></div></li>`}
  ${backups[0] && html`<li class=${backups[0].ok ? "ok" : "bad"}><${Icon} name="disk" /><div><b>${backups[0].ok ? "Backup verified" : "The last backup is not good"}</b><span>${bytes(backups[0].bytes)}, <${Time} at=${backups[0].at} /></span></div></li>`}`;

const Promises = ({ upkeep }) => {
  const { data } = useQuery("durability");
  if (!data) return null;
  const survives = [data.survives_process_crash && "a process crash", data.survives_power_cut && "a power cut"].filter(Boolean).join(" and ");
  return html`<ul class="promises"><li class=${data.name === "durable" ? "ok" : "warn"}><${Icon} name="shield" /><div><b>${data.may_lose === "nothing" ? "Loses nothing" : `May lose ${data.may_lose}`}</b>
    <span>${survives ? `survives ${survives}` : "survives nothing"}</span></div></li>${upkeep && html`<${Proven} upkeep=${upkeep} />`}</ul>`;
};

/** What somebody did, in words: an event of a run, a message, or a change of memories. */
const SAYS = {
  RUN_START: (one) => `starts ${one.id}`, TOOL_CALL: (one) => `calls ${one.about} in ${one.id}`, TOOL_RESULT: (one) => `has the answer of ${one.about} in ${one.id}`,
  MODEL_ACTION: (one) => `${one.about || "decides"}, in ${one.id}`, WS_UPDATE_APPLIED: (one) => `moves ${one.id} to step ${one.about}`, WS_UPDATE_REJECTED: (one) => `is refused in ${one.id}`,
  ERROR: (one) => `fails in ${one.id}: ${one.about}`, MILESTONE: (one) => `${one.about}, in ${one.id}`, ROLLED_BACK: (one) => `rolls ${one.id} back, to step ${one.about}`, FORKED: (one) => `forks ${one.id}`,
  MESSAGE: (one) => `${one.who === "user" ? "asks" : "answers"} in ${one.about}`, PROPOSED: (one) => `proposes ${one.about || "memories"}`, MEMORY_PROPOSED: (one) => `proposes memories in ${one.id}`,
  COMMITTED: (one) => `accepts ${one.about}`, REJECTED: () => "rejects a proposal", REVOKED: (one) => `revokes ${one.about}`, ERASED: (one) => `erases ${one.about || "what was asked"}`,
};
const LOOK = { PROPOSED: "MEMORY_PROPOSED", COMMITTED: "MEMORY_COMMITTED", REJECTED: "MEMORY_REJECTED", REVOKED: "MEMORY_REJECTED" };
const WHERE = { run: (one) => href("runs", one.id), session: (one) => href("sessions", one.id), memory: (one) => href("memory", one.id), batch: () => href("review") };
const TOPICS = ["runs", "sessions", "memories", "review"], MOST = 10;
const keyOf = (one) => `${one.at} ${one.kind} ${one.id} ${one.type}`;

/** What happened last, and what happens while this page is open: that is marked for a moment. */
const Feed = () => {
  const { data } = useQuery("activity", { limit: MOST }, TOPICS), seen = useRef(null);
  const items = data?.activity ?? [], known = seen.current;
  useEffect(() => { if (data) seen.current = new Set(items.map(keyOf)); }, [data]);
  if (!items.length) return html`<p class="quiet-empty"><${Icon} name="clock" />What happens from now on shows up here.</p>`;
  return html`<ol class="feed">${items.map((one) => {
    const [icon, tone] = eventLook(LOOK[one.type] ?? one.type);
    return html`<li class=${cx(known && !known.has(keyOf(one)) && "fresh")} key=${keyOf(one)}><a href=${(WHERE[one.kind] ?? (() => href("overview")))(one)}><span class=${cx("glyph", tone)}><${Icon} name=${icon} /></span>
      <span class="feed-text"><b><${Line} text=${one.who || "somebody"} max=${40} /></b> <${Line} text=${(SAYS[one.type] ?? (() => `records ${one.type} in ${one.id}`))(one)} max=${90} /></span><${Time} brief at=${one.at} /></a></li>`;
  })}</ol>`;
};

export const Overview = () => {
  const { connection } = useApp();
  const pending = usePending(), runs = useList("runs", { limit: 50, reverse: true }, "runs", ["runs"]);
  const letters = useQuery("threads/dead", { limit: 100 }, ["threads"]).data?.letters ?? [];
  const { data: upkeep } = useQuery(can("keys") ? "upkeep" : null), size = useCounted();
  const active = runs.items.filter((one) => ["BUSY", "PAUSED", "WAITING_INPUT"].includes(one.status));
  const told = useFigures("runs", [...runs.items.filter((one) => one.status === "FAILED"), ...active].map((one) => one.run_id), "runs");
  usePage("runs", { limit: 50, reverse: true });
  const list = needs(pending, runs.items, told, letters), things = list.reduce((sum, one) => sum + one.count, 0);
  if (runs.loaded && !runs.items.length && !list.length) return html`<div class="page"><${Empty} page icon="overview" title="An empty strongroom" command="strongroom demo --serve">
    Nothing was written into this space yet. Fill a store with a day of agents at work, or open this one from your own program.<//></div>`;
  return html`<div class="page overview"><div class="columns">
    <div class="wide"><header class="page-head"><div><h1>${things ? `${plural(things, "thing")} ${things === 1 ? "needs" : "need"} a person` : "Nothing needs you"}</h1>
      <p class="lead">${size && html`<span title=${`As counted ${exact(size.at)}`}>${plural(size.runs, "run")}, ${plural(size.sessions, "session")} and ${plural(size.memories, "memory", "memories")}</span>`} in <b><${Line} text=${state.me.space} /></b></p></div></header>
      ${list.length ? html`<ul class="needs">${list.map((one) => html`<${Need} ...${one} />`)}</ul>`
        : html`<${Empty} icon="check" title="All quiet">Proposals, failed runs and dead letters show up here by themselves.<//>`}
      <${Section} id="active" title="Active runs" count=${active.length} aside=${html`<a href="#/runs">All runs</a>`}>
        <${Wide} label="Active runs"><table class="table rows"><thead><tr><th>Run</th><th>Status</th><th>Next action</th><th class="num">Step</th><th class="num">Cost</th><th class="num">Last</th></tr></thead>
          <tbody>${active.map((one) => html`<tr><td class="name"><a class="row-link" href=${href("runs", one.run_id)}><b><${Line} text=${one.run_id} max=${40} /></b></a></td>
            <td><${Status} value=${one.status} /></td><td class="cut"><${Line} text=${one.next_action} /></td><td class="num">${number(one._update_seq)}</td>
            <td class="num">${told[one.run_id] ? spent(told[one.run_id].cost) : ""}</td><td class="num">${told[one.run_id] && html`<${Time} brief at=${told[one.run_id].last_at} />`}</td></tr>`)}</tbody></table><//>
        ${runs.loaded && !active.length && html`<p class="quiet-empty"><${Icon} name="clock" />No run is at work, paused or waiting.</p>`}<//>
    </div>
    <div class="narrow"><${Section} id="promised" title="In force" aside=${html`<a href="#/operations">Operations</a>`}><${Promises} upkeep=${upkeep} /><//>
      <${Section} id="activity" title="Activity" aside=${html`<span class=${cx("live-dot", connection === "live" ? "live" : "lost")}>${connection === "live" ? "live" : "paused"}</span>`}><${Feed} /><//></div>
  </div></div>`;
};
