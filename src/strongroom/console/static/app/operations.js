// For whoever keeps the store healthy: what is promised, whether it was checked, who may come in, what is slow.
import { html, cx, useEffect, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Command, Dialog, Empty, Line, Section, Skeleton, Sparkline, Tag, Time, Wide } from "./ui.js";
import { bytes, exact, ms, number, plural } from "./format.js";
import { path, post, undisturbed } from "./api.js";
import { can, complain, enter, state, toast } from "./state.js";
import { usePage, useQuery } from "./query.js";

const ROLES = { reader: "reads", writer: "reads, writes", reviewer: "reads, reviews", admin: "everything" };

const NewKey = ({ onClose, onMade }) => {
  const [role, pick] = useState("writer"), [label, name] = useState(""), [made, make] = useState(null);
  const [keyless] = useState(state.me.keyless);
  const create = async () => {
    try {
      await undisturbed(async () => {
        const { key } = await post("keys", { role, label });
        make(key);
        if (keyless) await enter(key); // nobody is let in without a key from now on
      });
      onMade();
    } catch (error) { complain(error); }
  };
  if (made) return html`<${Dialog} title="Copy the key now" onClose=${onClose} actions=${html`<${Button} kind="primary" onClick=${onClose}>I have copied it<//>`}>
    <p>It is shown once. The store keeps only a hash of it.</p><${Command} text=${made} />
    ${keyless && html`<p>From now on this server asks everybody for a key. This tab goes on with this one.</p>`}<//>`;
  return html`<${Dialog} title="New key" onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" onClick=${create}>Create<//>`}>
    <label class="field">Label<input type="text" placeholder="who or what uses it" value=${label} onInput=${(e) => name(e.target.value)} autofocus /></label>
    <fieldset class="field"><legend>Role in <${Line} text=${state.me.space} max=${40} /></legend>
      ${Object.entries(ROLES).map(([id, what]) => html`<label class="radio"><input type="radio" name="role" checked=${role === id} onChange=${() => pick(id)} /><b>${id}</b><span>${what}</span></label>`)}</fieldset><//>`;
};

const RevokeKey = ({ one, onClose, onDone }) => {
  const act = async () => { onClose(); try { await post(`keys/${path(one.name)}`, {}, "DELETE"); toast("The key is useless now"); onDone(); } catch (error) { complain(error); } };
  return html`<${Dialog} title="Revoke this key" onClose=${onClose} actions=${html`<${Button} onClick=${onClose} autofocus>Cancel<//><${Button} kind="danger" onClick=${act}>Revoke<//>`}>
    <p>Whoever uses <b><${Line} text=${one.label || one.name} max=${60} /></b> is refused from now on. It cannot be taken back.</p><//>`;
};

/** A line of how large a space was at each check; one check is no line. */
const grown = (sizes, space) => {
  const values = sizes.map((one) => one.spaces[space] ?? 0);
  return values.length > 1 ? html`<${Sparkline} values=${values} label=${`Growth of ${space} over ${plural(values.length, "check")}`} width=${64} />` : html`<span class="spark-none" title="The next check begins a line">1 check</span>`;
};

/** How large each space was when everything was last looked at. Counting is looking at everything, so a check does it. */
const Spaces = ({ data: { check, sizes } }) => html`<${Section} id="spaces" title="Spaces" count=${check ? check.spaces.length + check.more_spaces : undefined} aside=${check && html`<span class="muted">as counted <${Time} at=${check.at} /></span>`}>
  ${check?.spaces.length ? html`<${Wide} label="Spaces"><table class="table"><thead><tr><th>Space</th><th class="num">Runs</th><th class="num">Sessions</th><th class="num">Memories</th><th class="num">Records</th>
    <th class="num" title="Bytes of content, without indexes and free room">Content</th><th title=${`Content at the last ${plural(sizes.length, "check")}`}>Growth</th></tr></thead><tbody>${check.spaces.map((one) => html`<tr key=${one.space}><td class="cut"><b><${Line} text=${one.space} max=${60} /></b></td><td class="num">${number(one.runs)}</td>
    <td class="num">${number(one.sessions)}</td><td class="num">${number(one.memories)}</td><td class="num">${number(one.records)}</td><td class="num">${bytes(one.bytes)}</td><td>${grown(sizes, one.space)}</td></tr>`)}</tbody>
    ${check.more_spaces > 0 && html`<tfoot><tr><td colspan="7">and ${plural(check.more_spaces, "smaller space")}</td></tr></tfoot>`}</table><//>`
    : html`<p class="quiet-empty"><${Icon} name="clock" />${check ? "No space held anything." : "A check counts what is in every space."}</p>`}<//>`;

const Durability = ({ stated: d, place }) => html`<div class="durability"><${Icon} name="shield" /><div><h2>${d.name[0].toUpperCase() + d.name.slice(1)}: may lose ${d.may_lose}</h2><ul>
  <li><${Icon} name=${d.survives_process_crash ? "check" : "cross"} />${d.survives_process_crash ? "survives" : "does not survive"} a process crash</li>
  <li><${Icon} name=${d.survives_power_cut ? "check" : "cross"} />${d.survives_power_cut ? "survives" : "does not survive"} a power cut</li>
  ${place && html`<li><${Icon} name="disk" /><${Line} text=${[place.kind, place.file, place.free_bytes && `${bytes(place.free_bytes)} free`].filter(Boolean).join(", ")} max=${120} /></li>`}</ul></div></div>`;

const begin = async (work, again) => {
  try { await post(`upkeep/${work}`); toast(work === "check" ? "Checking; everybody else goes on" : "Writing a copy; everybody else goes on"); again(); } catch (error) { complain(error); }
};

/** One line of what a check looked at. */
const Looked = ({ ok, icon = ok ? "check" : "alert", label = ok ? "fine" : "not fine", title, detail, side }) => html`<li><span class=${cx("glyph", ok ? "ok" : icon === "clock" ? "warn" : "bad")}><${Icon} name=${icon} label=${label} /></span>
  <div><b>${title}</b><span><${Line} text=${detail} max=${200} /></span></div><span class="check-side">${side}</span></li>`;

/** How the search by meaning is: what fails there keeps nobody from writing. */
const Meaning = ({ waiting, embedder_failing, index_failing }) => {
  const failing = embedder_failing ?? index_failing;
  return html`<${Looked} ok=${!failing && !waiting} icon=${failing ? "alert" : waiting ? "clock" : "check"} label=${failing ? "not fine" : waiting ? "not finished" : "fine"} title="Search by meaning"
    detail=${failing ? failing.error : waiting ? `${plural(waiting, "change")} not taken in yet; the next search catches up` : "everything is taken in"} />`;
};

/** What was begun and came to nothing; why stands in the server's log. */
const Undone = ({ failed, work, name }) => failed?.work === work && html`<ul class="checks"><${Looked} title=${`The last ${name} could not be made`} detail=${`${failed.error}; the server's log says more`} side=${html`<${Time} at=${failed.at} />`} /></ul>`;

const Checks = ({ data: { check, running, failed }, meaning, again }) => html`<${Section} id="checks" title="Checks" aside=${html`<button type="button" class="link" disabled=${running} onClick=${() => begin("check", again)}>${running === "check" ? "Checking…" : "Check now"}</button>`}>
  <${Undone} failed=${failed} work="check" name="check" />
  ${check ? html`<ul class="checks">
    <${Looked} ok=${check.ok} title=${check.ok ? "Everything is as it was written" : "Something is not as it was written"} detail=${(check.problems ?? []).join("; ") || `pages, rows and checksums: ${plural(check.documents, "document")}, ${plural(check.records, "record")}`} side=${html`<${Time} at=${check.at} /><span>${ms(Math.round(check.seconds * 1_000))}</span>`} />
    ${check.ok && html`<${Looked} ok title="Hash chains" detail=${`${plural(check.runs, "ledger")}, every event of each, and the state it tells`} side=${html`<${Time} at=${check.at} />`} />`}
    ${check.pending && html`<${Looked} icon="clock" label="not finished" title="An erasure is not complete" detail=${check.pending} side=${html`<${Time} at=${check.at} />`} />`}
    ${meaning && html`<${Meaning} ...${meaning} />`}</ul>` : html`<p class="quiet-empty"><${Icon} name="clock" />Not checked since this was set up.</p>`}<//>`;

const Backups = ({ data: { backups, running, failed, place }, again }) => html`<${Section} id="backups" title="Backups" aside=${place.file && html`<button type="button" class="link" disabled=${running} onClick=${() => begin("backup", again)}>${running === "backup" ? "Writing…" : "Back up now"}</button>`}>
  <${Undone} failed=${failed} work="backup" name="backup" />
  ${backups.length ? html`<ul class="checks">${backups.map((one) => html`<li key=${one.name}><span class=${cx("glyph", one.ok ? "ok" : "bad")}><${Icon} name=${one.ok ? "check" : "alert"} label=${one.ok ? "verified" : "not good"} /></span><div><b><${Line} text=${one.name} max=${60} /></b><span>${one.ok ? "verified by reading it back" : "not good: it could not be read back as it was written"}</span></div>
    <span class="check-side"><${Time} at=${one.at} /><span>${bytes(one.bytes ?? 0)}</span></span></li>`)}</ul>` : html`<p class="quiet-empty"><${Icon} name="disk" />${place.file ? "None yet." : `${place.kind} is backed up with its own tools; \`strongroom copy\` copies it into another store.`}</p>`}<//>`;

const Keys = ({ data, onNew, onRevoke }) => html`<${Section} id="keys" title="Keys" count=${data.keys.length} aside=${html`<button type="button" class="link" onClick=${onNew}>New key</button>`}>
  ${data.keys.length ? html`<${Wide} label="Keys"><table class="table"><thead><tr><th>Label</th><th>Role</th><th class="num">Made</th><th class="num" title=${`As the worker that answered knows, since ${exact(data.since)}`}>Last used</th><th><span class="sr">Actions</span></th></tr></thead><tbody>
    ${data.keys.map((one) => html`<tr key=${one.name}><td><b><${Line} text=${one.label || "no label"} max=${40} /></b> <span class="id">${one.name}</span></td><td><${Tag} tone=${one.role === "admin" ? "accent" : ""}>${one.role}<//></td>
      <td class="num"><${Time} at=${one.created_at} /></td><td class="num">${one.used_at ? html`<${Time} at=${one.used_at} />` : html`<span class="muted" title=${`Not since this worker started, ${exact(data.since)}`}>not lately</span>`}</td>
      <td class="num"><button type="button" class="link danger" aria-label=${`Revoke ${one.label || one.name}`} onClick=${() => onRevoke(one)}>Revoke</button></td></tr>`)}</tbody></table><//>`
    : html`<p class="quiet-empty"><${Icon} name="shield" />None: only this machine is let in. The first key closes the door for everybody else.</p>`}<//>`;

// A stream lasts as long as somebody looks, and files are no calls.
const LASTING = /^other$|^\/changes$|\/follow$|^\/store\/wait$|^\/mcp$/;

const Calls = ({ data }) => html`<${Section} id="slow" title="Slowest calls" aside=${html`<span class="muted">since this worker started</span>`}>
  <${Wide} label="Slowest calls"><table class="table"><thead><tr><th>Route</th><th class="num">Calls</th><th class="num">p50</th><th class="num">p95</th><th class="num">Worst</th></tr></thead><tbody>
  ${data.calls.filter((one) => !LASTING.test(one.route)).slice(0, 8).map((one) => html`<tr><td class="mono cut">${one.method} ${one.route}</td><td class="num">${number(one.count)}</td>
    <td class="num">${ms(Math.round(one.p50 * 1_000))}</td><td class="num">${ms(Math.round(one.p95 * 1_000))}</td><td class="num">${ms(Math.round(one.longest * 1_000))}</td></tr>`)}</tbody></table><//><//>`;

/** What an answer says, or why there is none: an administrator of one space is not the server's. */
const Answer = ({ query: { data, error, again }, of: Shown, ...rest }) => (data ? html`<${Shown} data=${data} again=${again} ...${rest} />` : error && html`<p class="muted">${error.message}</p>`);

export const Operations = () => {
  const [dialog, open] = useState(null), admin = can("keys");
  const { data: durability } = useQuery("durability"), upkeep = useQuery(admin ? "upkeep" : null), keys = useQuery(admin ? "keys" : null), calls = useQuery(admin ? "calls" : null);
  usePage(admin ? "upkeep" : "durability");
  useEffect(() => {
    if (!upkeep.data?.running) return undefined;
    const timer = setTimeout(upkeep.again, 1_500); // it may take long, and another worker may be asked next
    return () => clearTimeout(timer);
  }, [upkeep.data, upkeep.error]); // an answer that failed is asked for again too
  if (!durability) return html`<div class="page"><${Skeleton} rows=${8} /></div>`;
  return html`<div class="page operations"><header class="page-head"><h1>Operations</h1></header><${Durability} stated=${durability} place=${upkeep.data?.place} />
    ${!admin ? html`<${Empty} icon="shield" title="The rest is for administrators">Checks, backups, sizes, keys and slow calls are seen with an administrator's key.<//>` : html`
    <div class="columns even"><div><${Answer} query=${upkeep} of=${Checks} meaning=${durability.meaning} /><${Answer} query=${keys} of=${Keys} onNew=${() => open({ kind: "new" })} onRevoke=${(one) => open({ kind: "revoke", one })} /></div>
      <div><${Answer} query=${upkeep} of=${Spaces} /><${Answer} query=${calls} of=${Calls} />${upkeep.data && html`<${Backups} data=${upkeep.data} again=${upkeep.again} />`}</div></div>`}
    ${dialog?.kind === "new" && html`<${NewKey} onClose=${() => open(null)} onMade=${keys.again} />`}
    ${dialog?.kind === "revoke" && html`<${RevokeKey} one=${dialog.one} onClose=${() => open(null)} onDone=${keys.again} />`}</div>`;
};
