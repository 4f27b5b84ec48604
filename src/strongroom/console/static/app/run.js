// One run: what it is about, whether its ledger is whole, its state at any step, and everything that happened.
import { html, useEffect, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Dialog, Empty, Id, Line, Skeleton, Status, Tabs, Time, useKeys } from "./ui.js";
import { spent, number, span } from "./format.js";
import { go, set } from "./router.js";
import { download, get, path, post } from "./api.js";
import { can, complain, toast } from "./state.js";
import { useFigures, usePage, useQuery } from "./query.js";
import { useWatched } from "./live.js";
import { useLedger } from "./run-data.js";
import { Ledger } from "./run-ledger.js";
import { Scrubber, StateAt } from "./run-state.js";
import { Artifacts, Episodes, EPISODES, Usage } from "./run-more.js";

/** Put the state of a step back, if nobody did anything meanwhile. */
const back = (id, seq, expected_seq) => post(`${path("runs", id)}/rollback`, { seq, expected_seq });

const Confirm = ({ id, kind, seq, last, onClose }) => {
  const fork = kind === "fork", [name, call] = useState(fork ? `${id}-fork-${seq}`.slice(0, 200) : "");
  const ready = fork ? name.trim().length > 0 : name === id;
  const act = async () => {
    onClose();
    try {
      if (fork) { const made = await post(`${path("runs", id)}/fork`, { seq, run_id: name.trim() }); go("runs", made.run_id ?? name.trim()); toast(`Forked step ${seq}`); }
      else { await back(id, seq, last); set({ seq: null }); toast(`Rolled back to step ${seq} by a new update`, () => back(id, last, last + 1).then(() => toast("Undone by another update"), complain)); }
    } catch (error) { complain(error); }
  };
  return html`<${Dialog} title=${fork ? `Fork from step ${seq}` : `Roll back to step ${seq}`} onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind=${fork ? "primary" : "danger"} disabled=${!ready} onClick=${act}>${fork ? "Fork" : "Roll back"}<//>`}>
    <p>${fork ? "A new run begins with the state of this step. This run is not touched." : `A new update puts the state of step ${seq} back. Nothing is edited or lost: steps ${seq + 1} to ${last} stay in the ledger.`}</p>
    <label class="field">${fork ? "Name of the new run" : html`Type <b><${Line} text=${id} max=${60} /></b> to confirm`}<input type="text" value=${name} onInput=${(e) => call(e.target.value)} autofocus />
      </label><//>`;
};

const SHORT = 1_000;

/** A short ledger is recomputed when it is looked at, a long one only when asked: its cost is the ledger's length. */
const Verified = ({ id }) => {
  const [found, see] = useState(null), [busy, work] = useState(false);
  const { data: head } = useQuery(`${path("runs", id)}/head`, {}, ["runs"]);
  const verify = async () => {
    work(true);
    try { see(await get(`${path("runs", id)}/verify`)); } catch (error) { complain(error); }
    work(false);
  };
  const isShort = head !== undefined && head.length <= SHORT;
  useEffect(() => { if (isShort) verify(); }, [isShort]);
  if (found && !found.ok) return html`<span class="verified bad"><${Icon} name="alert" /><b>Not as written</b> <span><${Line} text=${found.reason} max=${80} /></span></span>`;
  if (found) return html`<span class="verified"><${Icon} name="shield" /><span title="Recomputed from the first event to the head"><b>Verified</b> ${number(found.checked)} events${head && head.length > found.checked ? `, ${number(head.length - found.checked)} newer` : ""}</span>
    <span class="head-label">head</span><${Id} id=${found.head.chain} /></span>`;
  return html`<span class="verified unknown">${head && html`<span class="head-label">head</span><${Id} id=${head.chain} />`}<${Button} small icon="shield" onClick=${verify} disabled=${busy}>${busy ? "Verifying…" : "Verify"}<//></span>`;
};

export const Run = ({ id, params }) => {
  const [dialog, open] = useState(null);
  const { data: run, error } = useQuery(path("runs", id), {}, ["runs"]);
  const ledger = useLedger(id), { data: usage } = useQuery(`${path("runs", id)}/usage`, {}, ["runs"]), told = useFigures("runs", [id], "runs")[id];
  const { data: milestones } = useQuery(`${path("runs", id)}/episodes`, { limit: EPISODES }, ["runs"]), episodes = milestones && `${milestones.episodes.length}${milestones.next ? "+" : ""}`;
  usePage(path("runs", id));
  useWatched(`run:${id}`);
  const last = run?._update_seq ?? 0, seq = params.seq === undefined ? last : Math.min(last, Math.max(0, Number(params.seq) || 0));
  const to = (next) => set({ seq: next >= last ? null : Math.max(0, next) });
  useKeys({ "[": () => to(seq - 1), "]": () => to(seq + 1), n: () => to(last), f: () => can("write") && open("fork") });
  if (error && !run) return html`<div class="page">
    <${Empty} page icon="runs" title=${error.status === 404 ? "No such run" : "This run cannot be shown"} command="strongroom runs list">${error.status === 404 ? "No run of this space has this id. It may be in another space: a key opens only its own." : error.message}<//></div>`;
  if (!run) return html`<div class="page"><${Skeleton} rows=${12} /></div>`;
  const tab = params.tab ?? "ledger", past = seq < last, newest = ledger.events.at(-1);
  const save = () => download(`${path("runs", id)}/pack`, `${id}.zip`).then(() => toast(`Wrote ${id}.zip`), complain);
  return html`<div class="page run">
    <header class="run-head">
      <div class="run-line"><a class="crumb" href="#/runs">Runs</a><${Icon} name="right" /><${Id} id=${id} /><${Status} value=${run.status} /><${Verified} key=${id} id=${id} /></div>
      <div class="run-title"><h1><${Line} text=${run.objective} max=${240} /></h1>
        <div class="actions">${can("write") && html`<${Button} icon="fork" onClick=${() => open("fork")}>Fork<//>
          <${Button} icon="back" disabled=${!past} title=${past ? "" : "Choose an earlier step first"} onClick=${() => open("rollback")}>Roll back<//>`}<${Button} icon="box" onClick=${save}>Export<//></div></div>
      <p class="run-sums">${usage && usage.model_actions > 0 && html`<span><b>${number(usage.total.tokens_in + usage.total.tokens_out)}</b> tokens</span><span>cost <b>${spent(usage.total.cost)}</b></span>`}
        ${told && html`<span>${told.worked_ms > 0 && html`<b>${span(told.worked_ms)}</b> at work `}in <b>${span(new Date(told.last_at) - new Date(told.started_at))}</b></span>`}${newest && html`<span>agent <b><${Line} text=${newest.actor} max=${40} /></b></span><span>last event <${Time} at=${newest.at} /></span>`}</p>
    </header>
    <${Scrubber} seq=${seq} last=${last} events=${ledger.events} onPick=${to} />
    ${past && html`<div class="banner" role="status"><${Icon} name="clock" /><span>You look at <b>step ${seq}</b> of ${last}. The run goes on.</span>
      <${Button} small onClick=${() => to(last)} hint="n">Back to now<//></div>`}
    <div class="run-columns">
      <${StateAt} id=${id} seq=${seq} last=${last} now=${run} shows=${params.diff ? params.diff === "on" : past} onShow=${() => set({ diff: (params.diff ? params.diff === "on" : past) ? "off" : "on" })} />
      <div class="run-right"><${Tabs} label="Parts of the run" value=${tab} onPick=${(next) => set({ tab: next === "ledger" ? null : next })} tabs=${[{ id: "ledger", name: "Ledger", count: number(newest?.sequence_id ?? 0) }, { id: "usage", name: "Usage" }, { id: "episodes", name: "Episodes", count: episodes }, { id: "artifacts", name: "Artifacts", count: run.artifact_refs.length }]} />
        ${tab === "ledger" && html`<${Ledger} id=${id} ledger=${ledger} seq=${seq} past=${past} type=${params.type ?? "all"} onSeq=${to} />`}
        ${tab === "usage" && html`<${Usage} usage=${usage} />`}
        ${tab === "episodes" && html`<${Episodes} id=${id} onSeq=${to} />`}
        ${tab === "artifacts" && html`<${Artifacts} id=${id} />`}
      </div>
    </div>
    ${dialog && html`<${Confirm} id=${id} kind=${dialog} seq=${seq} last=${last} onClose=${() => open(null)} />`}
  </div>`;
};
