// For whoever keeps the store healthy: what is promised, whether it was checked, who may come in, what is slow.
import { html, cx, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Command, Dialog, Empty, Line, Section, Skeleton, Tag, Time, Wide } from "./ui.js";
import { bytes, ms, number } from "./format.js";
import { path, post } from "./api.js";
import { can, complain, state, toast } from "./state.js";
import { usePage, useQuery } from "./query.js";

const ROLES = { reader: "reads", writer: "reads, writes", reviewer: "reads, reviews", admin: "everything" };

const NewKey = ({ onClose, onMade }) => {
  const [role, pick] = useState("writer"), [label, name] = useState(""), [made, make] = useState(null);
  const create = async () => { try { make(await post("keys", { role, label })); onMade(); } catch (error) { complain(error); } };
  if (made) return html`<${Dialog} title="Copy the key now" onClose=${onClose} actions=${html`<${Button} kind="primary" onClick=${onClose}>I have copied it<//>`}>
    <p>It is shown once. The store keeps only a hash of it.</p><${Command} text=${made.key} />
    ${state.me.keyless && html`<p>From now on this server asks everybody for a key: reload the page and sign in with it.</p>`}<//>`;
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

const Durability = ({ stated: d }) => html`<div class="durability"><${Icon} name="shield" /><div><h2>${d.name[0].toUpperCase() + d.name.slice(1)}: may lose ${d.may_lose}</h2><ul>
  <li><${Icon} name=${d.survives_process_crash ? "check" : "cross"} />${d.survives_process_crash ? "survives" : "does not survive"} a process crash</li>
  <li><${Icon} name=${d.survives_power_cut ? "check" : "cross"} />${d.survives_power_cut ? "survives" : "does not survive"} a power cut</li></ul></div></div>`;

const Upkeep = ({ data, again }) => {
  const begin = async (work) => { try { await post(`upkeep/${work}`); toast(work === "check" ? "Checking; everybody else goes on" : "Writing a copy; everybody else goes on"); setTimeout(again, 1_500); } catch (error) { complain(error); } };
  const { check, backups, running } = data;
  return html`<${Section} id="checks" title="Checks" aside=${html`<button type="button" class="link" disabled=${running} onClick=${() => begin("check")}>${running === "check" ? "Checking…" : "Check now"}</button>`}>
      ${check ? html`<ul class="checks"><li><span class=${cx("glyph", check.ok ? "ok" : "bad")}><${Icon} name=${check.ok ? "check" : "alert"} label=${check.ok ? "fine" : "not fine"} /></span>
        <div><b>${check.ok ? "Everything is as it was written" : "Something is not as it was written"}</b><span><${Line} text=${(check.problems ?? []).join("; ") || "pages, rows, checksums, every ledger"} max=${200} /></span></div>
        <span class="check-side"><${Time} at=${check.at} /></span></li></ul>` : html`<p class="quiet-empty"><${Icon} name="clock" />Not checked since this was set up.</p>`}<//>
    <${Section} id="backups" title="Backups" aside=${html`<button type="button" class="link" disabled=${running} onClick=${() => begin("backup")}>${running === "backup" ? "Writing…" : "Back up now"}</button>`}>
      ${backups.length ? html`<ul class="checks">${backups.map((one) => html`<li key=${one.name}><span class="glyph ok"><${Icon} name="check" label="verified" /></span><div><b><${Line} text=${one.name} max=${60} /></b><span>checked after it was written</span></div>
        <span class="check-side"><${Time} at=${one.at} /><span>${bytes(one.bytes ?? 0)}</span></span></li>`)}</ul>` : html`<p class="quiet-empty"><${Icon} name="disk" />None yet.</p>`}<//>`;
};

export const Operations = () => {
  const [dialog, open] = useState(null), admin = can("keys");
  const { data: durability } = useQuery("durability"), upkeep = useQuery(admin ? "upkeep" : null), keys = useQuery(admin ? "keys" : null), calls = useQuery(admin ? "calls" : null);
  usePage(admin ? "upkeep" : "durability");
  if (!durability) return html`<div class="page"><${Skeleton} rows=${8} /></div>`;
  const list = keys.data?.keys ?? [];
  return html`<div class="page operations"><header class="page-head"><h1>Operations</h1></header><${Durability} stated=${durability} />
    ${!admin ? html`<${Empty} icon="shield" title="The rest is for administrators">Checks, backups, keys and slow calls are seen with an administrator's key.<//>` : html`
    <div class="columns even"><div>${upkeep.data ? html`<${Upkeep} data=${upkeep.data} again=${upkeep.again} />` : upkeep.error && html`<p class="muted">${upkeep.error.message}</p>`}</div><div>
      <${Section} id="keys" title="Keys" count=${list.length} aside=${html`<button type="button" class="link" onClick=${() => open({ kind: "new" })}>New key</button>`}>
        ${list.length ? html`<${Wide} label="Keys"><table class="table"><thead><tr><th>Label</th><th>Role</th><th class="num">Made</th><th><span class="sr">Actions</span></th></tr></thead><tbody>
        ${list.map((one) => html`<tr key=${one.name}><td><b><${Line} text=${one.label || "no label"} max=${40} /></b> <span class="id">${one.name}</span></td><td><${Tag} tone=${one.role === "admin" ? "accent" : ""}>${one.role}<//></td>
          <td class="num"><${Time} at=${one.created_at} /></td><td class="num"><button type="button" class="link danger" aria-label=${`Revoke ${one.label || one.name}`} onClick=${() => open({ kind: "revoke", one })}>Revoke</button></td></tr>`)}</tbody></table><//>`
          : html`<p class="quiet-empty"><${Icon} name="shield" />None: only this machine is let in. The first key closes the door for everybody else.</p>`}<//>
      <${Section} id="slow" title="Slowest calls" aside=${html`<span class="muted">since this worker started</span>`}>${calls.data ? html`
        <${Wide} label="Slowest calls"><table class="table"><thead><tr><th>Route</th><th class="num">Calls</th><th class="num">p50</th><th class="num">p95</th><th class="num">Worst</th></tr></thead><tbody>
        ${calls.data.calls.slice(0, 8).map((one) => html`<tr><td class="mono cut">${one.method} ${one.route}</td><td class="num">${number(one.count)}</td>
          <td class="num">${ms(Math.round(one.p50 * 1_000))}</td><td class="num">${ms(Math.round(one.p95 * 1_000))}</td><td class="num">${ms(Math.round(one.longest * 1_000))}</td></tr>`)}</tbody></table><//>` : calls.error && html`<p class="muted">${calls.error.message}</p>`}<//>
    </div></div>`}
    ${dialog?.kind === "new" && html`<${NewKey} onClose=${() => open(null)} onMade=${keys.again} />`}
    ${dialog?.kind === "revoke" && html`<${RevokeKey} one=${dialog.one} onClose=${() => open(null)} onDone=${keys.again} />`}</div>`;
};
