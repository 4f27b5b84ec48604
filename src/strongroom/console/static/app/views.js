// Saved views: the address of a page under a name, kept by this browser for this space. What it shows stays on the server.
import { html, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Dialog, Line } from "./ui.js";
import { plural } from "./format.js";
import { state } from "./state.js";

const KEPT = "views", MOST = 50, LONGEST = 60, LONGEST_ADDRESS = 2_000;

const is = (one) => ["name", "hash", "space"].every((part) => typeof one?.[part] === "string") && one.hash.startsWith("#/");

/** What was kept, as far as it can be read: whatever else lies there is nobody's. */
const read = () => {
  try { return JSON.parse(localStorage.getItem(KEPT) ?? "[]").filter(is).slice(0, MOST); } catch { return []; }
};
const write = (views) => { try { localStorage.setItem(KEPT, JSON.stringify(views)); return true; } catch { return false; } };

const of = (views) => views.filter((one) => one.space === state.me.space);
const isSame = (one, other) => one.name === other.name && one.space === other.space;

export const Views = ({ onClose }) => {
  const [views, set] = useState(read), [name, type] = useState(""), [problem, tell] = useState("");
  const mine = of(views), address = location.hash || "#/overview", given = name.trim().slice(0, LONGEST);
  const keep = (next) => (write(next) ? (set(next), tell("")) : tell("This browser keeps nothing for this page (a private window?)."));
  const save = (e) => {
    e.preventDefault();
    if (!given) return;
    const one = { name: given, hash: address, space: state.me.space }, others = views.filter((other) => !isSame(one, other));
    if (others.length >= MOST) return void tell(`This browser keeps ${MOST} views; delete one first.`);
    if (address.length > LONGEST_ADDRESS) return void tell("This page's address is too long to keep.");
    keep([...others, one]);
    type("");
  };
  return html`<${Dialog} title="Saved views" onClose=${onClose}>
    ${mine.length ? html`<ul class="views" aria-label=${plural(mine.length, "saved view")}>${mine.map((one) => html`<li key=${one.name}>
      <a href=${one.hash} onClick=${onClose} aria-current=${one.hash === address ? "true" : null}><${Icon} name="view" /><span class="cut"><${Line} text=${one.name} max=${LONGEST} /></span></a>
      <button type="button" class="ghost" aria-label=${`Delete ${one.name}`} onClick=${() => keep(views.filter((other) => !isSame(one, other)))}><${Icon} name="erase" /></button></li>`)}</ul>`
      : html`<p>A view is a page with its filters, dates and selection, under a name. This browser keeps it; nothing is sent.</p>`}
    <form onSubmit=${save}><label class="field">Save what you see now as<input type="text" maxlength=${LONGEST} placeholder="policies of untrusted sources" value=${name} onInput=${(e) => type(e.target.value)} autofocus /></label>
      ${problem && html`<p class="banner bad" role="alert"><${Icon} name="alert" /><span>${problem}</span></p>`}
      <${Button} type="submit" disabled=${!given}>Save view<//></form><//>`;
};
