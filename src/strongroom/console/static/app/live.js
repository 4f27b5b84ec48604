// One stream a tab: the server says what kind of thing changed, and whoever shows it asks again. fetch() and not
// EventSource, which could not send the key. After a break it goes on from the last id it saw, so nothing is missed.
import { useEffect } from "./lib.js";
import { answered, headers } from "./api.js";
import { change, state, toast } from "./state.js";

const FIRST_WAIT = 500, LONGEST_WAIT = 10_000, SETTLE = 120;
const watchers = new Set(); // { topics, tell }
let last = null, stop = null, due = new Map(), timer = null, watched = null;

/** Call `tell(changes)` soon after something of these topics changed. Returns how to stop. */
export const watch = (topics, tell) => {
  const watcher = { topics, tell };
  watchers.add(watcher);
  return () => watchers.delete(watcher);
};

const settle = () => {
  timer = null;
  const changes = [...due.values()];
  due = new Map();
  for (const { topics, tell } of [...watchers]) {
    const mine = changes.filter((one) => topics.includes(one.topic));
    if (mine.length) tell(mine);
  }
};
const notice = (one) => {
  due.set(`${one.topic} ${one.id}`, one);
  timer ??= setTimeout(settle, SETTLE);
};
/** After a break nobody knows what was missed on screens that follow no stream of their own: all ask again. */
const everything = () => watchers.forEach(({ tell }) => tell([]));

const read = async (signal) => {
  const more = last === null ? {} : { "last-event-id": last };
  const response = await fetch(watched === null ? "changes" : `changes?watch=${encodeURIComponent(watched)}`, { headers: headers({ accept: "text/event-stream", ...more }), signal });
  if (!response.ok) await answered(response); // which throws
  if (state.connection === "reconnecting") { everything(); toast("Connected again, and caught up."); }
  change({ connection: "live", since: Date.now() });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = { data: [] };
      for (const line of text.slice(0, end).split("\n")) {
        const at = line.indexOf(":"), name = line.slice(0, at), part = line.slice(at + 1).trimStart();
        if (name === "data") event.data.push(part); else if (name) event[name] = part;
      }
      if (event.id !== undefined) last = event.id;
      if (event.event === "reset") everything();
      if (event.event === "change") notice(JSON.parse(event.data.join("\n")));
    }
  }
};

/** Follow for as long as somebody is signed in. */
export const follow = async () => {
  let wait = FIRST_WAIT;
  const who = state.me;
  stop?.abort();
  while (state.me === who) {
    stop = new AbortController();
    const about = watched;
    try { await read(stop.signal); wait = FIRST_WAIT; } catch { /* told by the banner */ }
    if (about !== watched || state.me !== who) continue; // not broken: another page is looked at
    change({ connection: "reconnecting", since: state.connection === "live" ? Date.now() : state.since });
    await new Promise((go) => { const at = setTimeout(go, wait); hurry = () => { clearTimeout(at); go(); }; });
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
};
let hurry = () => {};
export const retryNow = () => hurry();

/** Have one thing looked after however old it is, while its page is open: `run:r1`, `session:s1`. */
export const useWatched = (name) => useEffect(() => {
  watched = name;
  stop?.abort();
  return () => { if (watched === name) { watched = null; stop?.abort(); } };
}, [name]);
