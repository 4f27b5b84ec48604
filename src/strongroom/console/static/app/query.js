// Asking and keeping: a component says what it shows, and has it again when the live stream says that it changed.
import { useState, useEffect, useRef, useCallback } from "./lib.js";
import { ask as asking, get, url } from "./api.js";
import { can, change, complain, state } from "./state.js";
import { watch } from "./live.js";

const kept = new Map(); // the newest answers, so that going back shows something at once
const MOST = 200;
const keep = (address, data) => {
  kept.delete(address);
  kept.set(address, data);
  if (kept.size > MOST) kept.delete(kept.keys().next().value);
};

/** One answer: `{ data, error, again }`. `null` as path asks nothing. */
export const useQuery = (path, query = {}, topics = []) => {
  const address = path === null ? null : url(path, query);
  const [result, set] = useState({ address, data: kept.get(address), error: null });
  const [tries, ask] = useState(0);
  useEffect(() => {
    if (address === null) return undefined;
    const stop = new AbortController();
    get(address, { signal: stop.signal }).then(
      (data) => { keep(address, data); set({ address, data, error: null }); },
      (error) => error.name !== "AbortError" && set({ address, data: kept.get(address), error }),
    );
    return () => stop.abort();
  }, [address, tries]);
  useEffect(() => (topics.length ? watch(topics, () => ask((n) => n + 1)) : undefined), [topics.join()]);
  const again = useCallback(() => ask((n) => n + 1), []);
  return result.address === address ? { ...result, again } : { data: kept.get(address), error: null, again };
};

/** What a question that only reads is answered with, if it takes a body: `{ data, error }`. `null` asks nothing. */
export const useAsked = (path, body, topics = []) => {
  const asked = body === null ? null : JSON.stringify(body), [result, set] = useState({}), [tries, ask] = useState(0);
  useEffect(() => {
    if (asked === null) return undefined;
    let alive = true;
    asking(path, JSON.parse(asked)).then((data) => alive && set({ asked, data, error: null }), (error) => alive && set({ asked, data: undefined, error }));
    return () => { alive = false; };
  }, [path, asked, tries]);
  useEffect(() => (topics.length ? watch(topics, () => ask((n) => n + 1)) : undefined), [topics.join()]);
  return asked === null ? {} : { data: result.data, error: result.asked === asked ? result.error : null };
};

/** A list in pages: `{ items, next, more, error }`. Only what was asked for is held; news reload the first pages. */
export const useList = (path, query, name, topics = []) => {
  const first = useQuery(path, query, topics);
  const address = url(path ?? "", query);
  const [rest, set] = useState({ address, items: [], next: undefined, busy: false });
  const mine = rest.address === address ? rest : { items: [], next: undefined, busy: false };
  const next = mine.next === undefined ? first.data?.next : mine.next;
  const more = async () => {
    if (!next || mine.busy) return;
    set({ address, ...mine, busy: true });
    try {
      const page = await get(url(path, { ...query, after: next }));
      set({ address, items: [...mine.items, ...page[name]], next: page.next ?? null, busy: false });
    } catch (error) { set({ address, ...mine, busy: false }); complain(error); }
  };
  const seen = new Set();
  const items = [...(first.data?.[name] ?? []), ...mine.items].filter((one) => {
    const id = one.episode_id ?? one.run_id ?? one.id ?? one.thread_id ?? one.path;
    if (seen.has(id)) return false;
    seen.add(id);
    return true;
  });
  return { items, next, more, busy: mine.busy, loaded: first.data !== undefined, error: first.error, again: first.again };
};

const MOST_AT_ONCE = 25;

/** What the things of a list came to, by id, asked a few at a time once the list is there; again for those that changed. */
export const useFigures = (kind, ids, topic) => {
  const [found, set] = useState({}), shown = useRef([]), name = kind === "runs" ? "run_id" : "session_id";
  shown.current = ids;
  const ask = async (some, isAlive) => {
    for (let at = 0; at < some.length && isAlive(); at += MOST_AT_ONCE) {
      const query = some.slice(at, at + MOST_AT_ONCE).map((id) => `id=${encodeURIComponent(id)}`).join("&");
      const told = await get(`figures/${kind}?${query}`).catch(() => null); // a list without figures is still a list
      if (told && isAlive()) set((before) => ({ ...before, ...Object.fromEntries(told[kind].map((one) => [one[name], one])) }));
    }
  };
  useEffect(() => {
    let alive = true;
    ask(ids.filter((id) => !(id in found)), () => alive);
    return () => { alive = false; };
  }, [ids.join("\n")]);
  useEffect(() => {
    let alive = true;
    const stop = watch([topic], (changes) => ask(changes.length ? shown.current.filter((id) => changes.some((one) => one.id === id)) : shown.current, () => alive));
    return () => { alive = false; stop(); };
  }, [topic]);
  return found;
};

/** How much the space held when everything was last looked at, for the server's own administrators. */
export const useCounted = () => {
  const { data } = useQuery(can("keys") ? "upkeep" : null), size = data?.check?.spaces.find((one) => one.space === state.me.space);
  return size ? { ...size, at: data.check.at } : null;
};

/** Tell the shell which answer stands behind the page ("this page as JSON"). */
export const usePage = (path, query = {}) => {
  const address = path === null ? null : url(path, query), was = useRef(null);
  useEffect(() => { if (was.current !== address) { was.current = address; change({ page: address }); } }, [address]);
};
