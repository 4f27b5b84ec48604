// The prompt panel: a bar of parts, a slider for the budget, and the receipt for what was left out.
import { html, cx, css, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Line } from "./ui.js";
import { number, plural } from "./format.js";
import { set } from "./router.js";
import { complain, toast } from "./state.js";

export const SMALLEST = 200, LARGEST = 128_000;
const RATIO = Math.log(LARGEST / SMALLEST);
/** The slider is logarithmic: small budgets are where choices hurt. */
const toPlace = (tokens) => (Math.log(tokens / SMALLEST) / RATIO) * 100;
const toTokens = (place) => Math.round((SMALLEST * Math.exp((place / 100) * RATIO)) / 100) * 100;
/** What `ctx.prompt` makes: the conversation beside what a question finds among memories and in what was said earlier. */
export const WHOLE = "prompt";
const STRATEGIES = [[WHOLE, "all that is known"], ["truncate_oldest", "newest that fit"], ["recent_only", "newest only"], ["priority", "by priority"], ["relevant", "newest, and what was found"]];

const WHY_OUT = {
  budget: ["Did not fit", "older than the newest messages that fit; raise the budget to bring them in"],
  tool_pair: ["Tool pair", "a call and its answer are in together or out together"],
  summarized: ["Summarised", "their summary is in; the originals stay in the session"],
  role: ["Role", "this strategy leaves messages of this role out"],
};
const WHOLE_OUT = {
  "conversation budget": ["Did not fit", "message", "Older than the newest that fit; raise the budget to bring them in."],
  "conversation no_call": ["No call", "answer", "The tool call that it answers is not there."],
  "conversation empty": ["Empty", "message", "There is nothing in it to read."],
  "conversation reasoning": ["Reasoning", "message", "Providers take back only their own."],
  "memories budget": ["Memories did not fit", "memory", "Found, and less to the point than what is in."],
  "earlier budget": ["Quotes did not fit", "quote", "Said earlier and found, and less to the point than what is in."],
  "memories no_index": ["Memories were not searched", "memory", "This store has no index of words."],
  "earlier no_index": ["The past was not searched", "quote", "This store has no index of words."],
};
const KINDS = [["system", "System"], ["pinned", "Pinned"], ["found", "Found"], ["recent", "Messages"]];
const PARTS = [["system", "System"], ["tools", "Tools"], ["memories", "Memories"], ["pinned", "Pinned"], ["found", "Said earlier"], ["recent", "Messages"]];

/** Which part of the prompt each message belongs to, in the order of the bar. */
const partsOf = (win, info) => {
  const sums = Object.fromEntries(KINDS.map(([id]) => [id, { tokens: 0, count: 0 }]));
  let newest = info.messages;
  const kept = [...(win?.messages ?? [])].reverse(), recent = new Set();
  for (const one of kept) { if (one.index < newest - 1 && recent.size && one.index !== newest - 1) break; recent.add(one.id); newest = one.index; }
  for (const one of win?.messages ?? []) {
    const id = one.message.role === "system" ? "system" : info.pinned?.includes(one.index) ? "pinned" : recent.has(one.id) ? "recent" : "found";
    sums[id].tokens += one.tokens; sums[id].count += 1;
  }
  return KINDS.map(([id, name]) => [id, name, sums[id].tokens, sums[id].count]).filter(([, , tokens]) => tokens > 0);
};

/** The parts of a whole prompt, as its receipt has them. What is always in of a conversation is told apart by the window. */
const wholeParts = (whole, win, info) => {
  const told = Object.fromEntries(whole.receipt.parts.map((one) => [one.name, one])), always = partsOf(win, info).filter(([id]) => id === "system" || id === "pinned");
  const sums = { tools: told.tools, memories: told.memories, found: told.earlier };
  const [system, pinned] = ["system", "pinned"].map((id) => always.find(([name]) => name === id) ?? [id, "", 0, 0]);
  const spoken = (told.conversation?.tokens ?? 0) + (told.beginning?.tokens ?? 0) + (told.ending?.tokens ?? 0), count = (told.conversation?.ids.length ?? 0) - system[3] - pinned[3];
  const sum = (id) => (id === "system" ? [(told.system?.tokens ?? 0) + system[2], system[3]] : id === "pinned" ? pinned.slice(2) : id === "recent" ? [spoken - system[2] - pinned[2], count] : [sums[id]?.tokens ?? 0, sums[id]?.ids.length ?? 0]);
  return PARTS.map(([id, name]) => [id, name, ...sum(id)]).filter(([, , tokens]) => tokens > 0);
};

/** What is kept for the answer unless somebody says otherwise: a sixth. */
export const usual = (budget) => Math.round(budget / 300) * 50;

const WholeOut = ({ one }) => {
  const [name, kind, meaning] = WHOLE_OUT[`${one.part} ${one.reason}`] ?? [`${one.part}: ${one.reason}`, "piece", ""];
  return html`<li><div><b>${name}</b>${one.count > 0 && html`<span class="num">${plural(one.count, kind, kind === "memory" ? "memories" : `${kind}s`)}</span>`}</div><p>${meaning}</p></li>`;
};

/** What is being typed stays while news come in; it counts when the field is left, or at Enter. */
const Room = ({ value, max }) => {
  const [typed, type] = useState(null);
  return html`<input type="number" min="0" max=${max} step="50" value=${typed ?? value} onInput=${(e) => type(e.target.value)} onChange=${(e) => { set({ reserve: e.target.value }); type(null); }} />`;
};

export const Prompt = ({ info, told, win, whole, refused, budget, reserve, strategy, onBudget }) => {
  const [more, show] = useState(false), made = strategy === WHOLE ? whole && win && { parts: wholeParts(whole, win, info), used: whole.receipt.tokens, receipt: whole.receipt, messages: whole.messages, count: whole.receipt.parts.find((one) => one.name === "conversation")?.ids.length ?? 0 }
    : win && { parts: partsOf(win, info), used: win.total_tokens, receipt: win.receipt, messages: win.messages.map((one) => one.message), count: win.messages.length };
  const parts = made?.parts ?? [], used = made?.used ?? 0, receipt = made?.receipt;
  const all = [...parts, ["reserve", "Kept for the answer", reserve, 0], ["free", "Free", Math.max(0, budget - reserve - used), 0]], unit = Math.max(budget, used + reserve, 1);
  const out = (receipt?.left_out ?? []).reduce((sum, one) => sum + one.count, 0), tokensOut = made && told && strategy !== WHOLE ? told.tokens - used : 0;
  const copy = () => navigator.clipboard?.writeText(JSON.stringify(made.messages, null, 2)).then(() => toast("Copied the prompt as JSON"), complain);
  return html`<aside class=${cx("prompt", more && "more")} aria-label="Prompt">
    <header><h2>The next prompt</h2><p class="muted">${made ? `${number(made.count)} of ${number(info.messages)} messages` : "…"}</p></header>
    <div class="budget" ref=${css({ at: `${toPlace(budget)}%` })}><label for="budget">Budget</label><output for="budget"><b>${number(budget)}</b> tokens</output>
      <input id="budget" type="range" min="0" max="100" step="0.5" value=${toPlace(budget)} aria-valuetext=${`${number(budget)} tokens`} onInput=${(e) => onBudget(toTokens(Number(e.target.value)))} /></div>
    <div class="token-bar" role="img" aria-label=${all.map(([, name, tokens]) => `${name} ${tokens}`).join(", ")}>
      ${all.map(([id, , tokens]) => tokens > 0 && html`<i class=${`part ${id}`} ref=${css({ w: tokens / unit })}></i>`)}</div>
    ${refused && html`<p class="banner bad" role="alert"><${Icon} name="alert" /><span>${refused.message}</span></p>`}
    <button type="button" class="link prompt-toggle" aria-expanded=${more ? "true" : "false"} onClick=${() => show(!more)}>${more ? "Fewer details" : "Parts, and what was left out"}</button>
    <div class="prompt-more"><table class="parts"><caption class="sr">Parts of the prompt</caption><tbody>
      ${all.map(([id, name, tokens, count]) => html`<tr><th scope="row"><i class=${`swatch ${id}`}></i>${name}${count > 1 ? html` <span class="muted">${number(count)}</span>` : ""}</th>
        <td class="num">${number(tokens)}</td><td class="num muted">${Math.round((tokens / unit) * 100)}%</td></tr>`)}</tbody></table>
    <label class="field row">Strategy<select value=${strategy} onChange=${(e) => set({ strategy: e.target.value })}>
      ${STRATEGIES.map(([id, name]) => html`<option value=${id} selected=${id === strategy}>${name}</option>`)}</select></label>
    ${strategy === WHOLE && receipt?.query && html`<p class="muted asked-for">Memories are searched for <q><${Line} text=${receipt.query} max=${90} /></q>${info.tags?.user_id || info.tags?.project_id ? html`, of ${["user", "project"].filter((one) => info.tags[`${one}_id`]).map((one, place) => html`${place ? " and " : ""}${one} <${Line} text=${info.tags[`${one}_id`]} max=${40} />`)} and of everybody` : ", of everybody"}.</p>`}
    ${receipt?.degraded && html`<p class="banner warn" role="status"><${Icon} name="alert" /><span>${receipt.degraded}</span></p>`}
    <label class="field row">For the answer<${Room} value=${reserve} max=${budget} /></label>
    <h3 class="left-head"><span>Left out <span class="count">${number(out)}</span></span>${out > 0 && tokensOut > 0 && html`<span class="muted num">${told.exact ? "" : "about "}${number(tokensOut)} tok</span>`}</h3>
    ${receipt?.left_out.length ? html`<ul class="left-out">${receipt.left_out.map((one) => (strategy === WHOLE ? html`<${WholeOut} one=${one} />` : html`<li><div><b>${(WHY_OUT[one.reason] ?? [one.reason])[0]}</b>
      <span class="num">${plural(one.count, "message")}</span></div><p>${one.first === one.last ? `Number ${one.first}` : `Numbers ${number(one.first)} to ${number(one.last)}`}${WHY_OUT[one.reason] ? `: ${WHY_OUT[one.reason][1]}` : ""}.</p></li>`))}</ul>`
      : made && html`<p class="muted">Nothing. The whole conversation fits.</p>`}
    ${receipt?.stable_prefix_tokens > 0 && html`<p class="stable"><${Icon} name="pin" />The first ${number(receipt.stable_prefix_tokens)} tokens stay the same from turn to turn, so a prompt cache can hold them.</p>`}
    <div class="prompt-foot"><${Button} small icon="copy" onClick=${copy} disabled=${!made}>Copy as JSON<//></div></div>
  </aside>`;
};
