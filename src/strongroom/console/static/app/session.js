// A conversation as people read it, beside how a prompt would be made of it.
import { html, cx, useState, useEffect, useRef } from "./lib.js";
import { Icon } from "./icons.js";
import { Button, Empty, Id, Json, Line, Safe, Skeleton, Tag, Time, useKeys } from "./ui.js";
import { belongs, ms, number, plural, words } from "./format.js";
import { set } from "./router.js";
import { get, path, url } from "./api.js";
import { complain } from "./state.js";
import { useAsked, useFigures, usePage, useQuery } from "./query.js";
import { useWatched, watch } from "./live.js";
import { LARGEST, Prompt, SMALLEST, usual, WHOLE } from "./session-prompt.js";

const FIRST = 20, NEWER = 60, OLDER = 100;

/** The newest messages, older ones on demand; what arrives is added at the end. */
const useMessages = (id) => {
  const [messages, set] = useState(null), held = useRef([]), at = `${path("sessions", id)}/messages`;
  const hold = (list) => { held.current = list; set(list); };
  useEffect(() => {
    let alive = true;
    held.current = [];
    set(null);
    const newest = () => get(url(at, { k: held.current.length ? NEWER : FIRST })).then((page) => {
      if (!alive) return;
      const from = held.current[0]?.index ?? 0, read = page.messages.filter((one) => one.index >= from); // nothing moves down what is read
      const known = new Set(read.map((one) => one.id)), first = read[0]?.index ?? 0;
      hold([...held.current.filter((one) => one.index < first && !known.has(one.id)), ...read]);
    }, complain);
    newest();
    const stop = watch(["sessions"], (changes) => { if (!changes.length || changes.some((one) => one.id === id)) newest(); });
    return () => { alive = false; stop(); };
  }, [id]);
  const older = async () => {
    const first = held.current[0]?.index ?? 0;
    if (!first) return;
    const page = await get(url(at, { after: String(Math.max(0, first - OLDER)), limit: OLDER })).catch(complain);
    if (page) hold([...page.messages.filter((one) => one.index < first), ...held.current]);
  };
  return { messages: messages ?? [], loaded: messages !== null, older };
};

/** Text in paragraphs, with fenced code shown as code. Nothing else is read as markup. */
const plain = (content) => (typeof content === "string" ? content : Array.isArray(content) ? content.map((part) => part.text ?? `[${part.type ?? "part"}]`).join("\n\n") : content == null ? "" : JSON.stringify(content));
const parsed = (text) => { try { return JSON.parse(text); } catch { return text; } };
const callsOf = (message) => (message.tool_calls ?? []).map((one) => ({ id: one.id, name: one.function?.name ?? one.name ?? "tool", arguments: parsed(one.function?.arguments ?? one.arguments ?? "") }));
const Body = ({ text }) => text.split(/```/).map((part, i) => (i % 2 ? html`<${Json} value=${part.replace(/^\w*\n/, "").trimEnd()} label="Code" />`
  : part.split(/\n{2,}/).map((paragraph) => paragraph.trim() && html`<p><${Safe} text=${paragraph.trim()} max=${420} /></p>`)));

/** Whether an answer says that the tool failed, in one of the ways that providers have for it. */
const failed = (answer) => answer.message.is_error === true || answer.message.status === "error" || answer.message.ok === false;

const ToolCall = ({ call, at, answer, inside, open, onOpen }) => html`<li class=${cx("message tool", inside ? "in" : "out")}>
  <button type="button" class="tool-row" aria-expanded=${open ? "true" : "false"} onClick=${onOpen}><${Icon} name="tool" /><b>
    <${Line} text=${call.name} max=${60} /></b><span class="cut muted"><${Line} text=${typeof call.arguments === "object" ? words(call.arguments) : String(call.arguments)} max=${80} /></span>
    <span class=${cx("tool-state", answer && !failed(answer) ? "ok" : "bad")}><${Icon} name=${!answer ? "clock" : failed(answer) ? "cross" : "check"} label=${!answer ? "no answer" : failed(answer) ? "failed" : "answered"} />
      ${answer && new Date(answer.at) > new Date(at) && ms(new Date(answer.at) - new Date(at))}</span></button>
  ${open && html`<div class="tool-more"><span class="label">Asked</span><${Json} value=${call.arguments} label="Arguments" />
    <span class="label">Answered</span><${Json} value=${answer ? plain(answer.message.content) : "no answer yet"} label="Answer" /></div>`}</li>`;

const Message = ({ one, inside, pinned, hit, target }) => html`<li id=${`msg-${one.id}`} class=${cx("message", one.message.role, inside ? "in" : "out", hit && "hit", target && "target")}>
  <div class="message-head"><b><${Line} text=${one.message.role} max=${40} /></b>${pinned && html`<${Tag}>
    <${Icon} name="pin" />pinned<//>`}${!inside && html`<span class="out-mark">left out</span>`}<span class="message-side">
    <span class="tok">${number(one.tokens)} tok</span><${Time} at=${one.at} /></span></div>
  <div class="message-body prose"><${Body} text=${plain(one.message.content)} /></div>${hit && html`<p class="why">
    <${Icon} name="search" /><${Line} text=${hit.why} max=${120} /></p>`}</li>`;

const RULES = ["system", "developer"];

const Conversation = ({ messages, older, win, kept, pinned, hits, at, all }) => {
  const [opened, open] = useState([]);
  const toggle = (id) => open(opened.includes(id) ? opened.filter((one) => one !== id) : [...opened, id]);
  const answers = Object.fromEntries(messages.filter((one) => one.message.role === "tool").map((one) => [one.message.tool_call_id, one]));
  const first = messages[0]?.index ?? 0, shown = new Set(messages.map((one) => one.id));
  const called = new Set(messages.flatMap((one) => callsOf(one.message).map((call) => call.id)));
  const rules = (win?.messages ?? []).filter((one) => one.index < first && RULES.includes(one.message.role)), above = new Set(rules.map((one) => one.id));
  const before = [...kept ?? []].filter((id) => !shown.has(id) && !above.has(id)).length, left = first - rules.length;
  return html`<ol class="conversation">
    ${rules.map((one) => html`<${Message} key=${one.id} one=${one} inside=${true} pinned=${pinned.includes(one.index)} target=${at === one.id} />`)}
    ${left > 0 && html`<li class=${cx("older", before && "in")}><button type="button" class="link" onClick=${older}>Show ${left > OLDER ? `${OLDER} of ${plural(left, "older message")}` : plural(left, "older message")}</button>
      <span class="muted">${before ? `${number(before)} of them ${before === 1 ? "is" : "are"} in the prompt` : "none of them is in the prompt"}</span></li>`}
    ${messages.filter((one) => one.message.role !== "tool" || !called.has(one.message.tool_call_id)).flatMap((one) => {
      const inside = !kept || kept.has(one.id), calls = callsOf(one.message), text = plain(one.message.content);
      return [
        (text || !calls.length) && html`<${Message} key=${one.id} one=${one} inside=${inside} pinned=${pinned.includes(one.index)} hit=${hits.find((hit) => hit.message_id === one.id)} target=${at === one.id} />`,
        ...calls.map((call) => html`<${ToolCall} key=${`${one.id} ${call.id}`} call=${call} at=${one.at} answer=${answers[call.id]} inside=${inside} open=${all || opened.includes(call.id)} onOpen=${() => toggle(call.id)} />`),
      ];
    })}</ol>`;
};

export const Session = ({ id, params }) => {
  const [all, openAll] = useState(false), here = path("sessions", id);
  const { data: info, error } = useQuery(here, {}, ["sessions"]), { messages, loaded, older } = useMessages(id);
  const budget = Math.min(LARGEST, Math.max(SMALLEST, Number(params.budget) || 3_600)), strategy = params.strategy ?? WHOLE, q = params.q ?? "";
  const reserve = Math.min(budget, Math.max(0, Number(params.reserve ?? usual(budget)) || 0));
  const told = useFigures("sessions", [id], "sessions")[id];
  const { data: found } = useQuery(q.trim() ? `${here}/search` : null, { q: q.trim(), k: 10 }), hits = q.trim() ? found?.hits ?? [] : [];
  const asks = strategy === "relevant" ? { q: q.trim() || lastAsked(messages) } : {};
  const frame = { max_tokens: budget, reserve_tokens: reserve, strategy: strategy === WHOLE ? null : strategy, ...asks }, { user_id, project_id } = info?.tags ?? {};
  const { data: win, error: noWindow } = useQuery(loaded ? `${here}/window` : null, frame, ["sessions"]);
  const { data: whole, error: noPrompt } = useAsked("prompt", strategy === WHOLE && info ? { session_id: id, max_tokens: budget, reserve_tokens: reserve, user_id, project_id } : null, ["sessions", "memories"]);
  const refused = noWindow ?? noPrompt, kept = keptIn(strategy === WHOLE ? whole : null, win);
  usePage(`${here}/window`, frame);
  useWatched(`session:${id}`);
  const pick = (value) => set({ budget: Math.min(LARGEST, Math.max(SMALLEST, value)) });
  useKeys({ "[": () => pick(budget - 200), "]": () => pick(budget + 200), v: () => openAll(!all) });
  useEffect(() => { if (params.at) document.getElementById(`msg-${params.at}`)?.scrollIntoView({ block: "center" }); }, [params.at, loaded]);
  if (error && !info) return html`<div class="page">
    <${Empty} page icon="sessions" title=${error.status === 404 ? "No such conversation" : "This conversation cannot be shown"} command="strongroom sessions list">${error.status === 404 ? "No session of this space has this id." : error.message}<//></div>`;
  if (!info || !loaded) return html`<div class="page"><${Skeleton} rows=${12} /></div>`;
  const newest = messages.at(-1);
  return html`<div class="page session">
    <header class="session-head"><div class="run-line"><a class="crumb" href="#/sessions">Sessions</a><${Icon} name="right" /><${Id} id=${id} />
      ${belongs(info).slice(0, 4).map((text) => html`<${Tag}><${Line} text=${text} max=${40} /><//>`)}</div>
      <div class="run-title"><h1><${Line} text=${info.title || id} max=${160} /></h1></div><p class="run-sums"><span><b>${number(info.messages)}</b> messages</span>${told && html`<span><b>${told.exact ? "" : "~"}${number(told.tokens)}</b> tokens</span>`}
        <span>counted by <${Line} text=${info.tokenizer} max=${40} /></span>${newest && html`<span>last <${Time} at=${newest.at} /></span>`}</p></header>
    <div class="session-columns">
      <div class="talk">
        <div class="talk-tools"><label class="inline-search"><span class="sr">Search this conversation</span>
          <input type="search" placeholder="Search this conversation" value=${q} onInput=${(e) => set({ q: e.target.value })} /></label><${Button} small onClick=${() => openAll(!all)} hint="v">${all ? "Fold tools" : "Open tools"}<//></div>
        ${hits.length > 0 && html`<ol class="hit-list" aria-label="Hits">${hits.map((hit) => html`<li>
          <button type="button" class="hit-row" onClick=${() => set({ at: hit.message_id })}><b class="score">${hit.score.toFixed(2)}</b><span class="cut">
          <${Line} text=${plain(hit.message.message.content) || callsOf(hit.message.message).map((one) => one.name).join(", ") || "(empty)"} max=${100} /></span><span class="why"><${Line} text=${hit.why} max=${80} /></span></button></li>`)}</ol>`}
        ${q.trim() && found && !hits.length && html`<p class="quiet-empty"><${Icon} name="search" />No message has these words.</p>`}
        <${Conversation} messages=${messages} older=${older} win=${win} kept=${kept} pinned=${info.pinned ?? []} hits=${hits} at=${params.at} all=${all} />
      </div>
      <${Prompt} info=${info} told=${told} win=${win} whole=${whole} refused=${refused} budget=${budget} reserve=${reserve} strategy=${strategy} onBudget=${pick} />
    </div></div>`;
};
/** The ids of the messages that are in the prompt; null as long as that is not known. */
const keptIn = (whole, win) => (whole ? new Set(whole.receipt.parts.filter((one) => one.name === "conversation").flatMap((one) => one.ids)) : win ? new Set(win.messages.map((one) => one.id)) : null);
const lastAsked = (messages) => plain(messages.filter((one) => one.message.role === "user").at(-1)?.message.content ?? "").slice(0, 400) || "what was said";
