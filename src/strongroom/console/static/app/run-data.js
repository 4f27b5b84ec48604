// What a run's page shows, asked piece by piece: the newest events first, older ones on demand, states by their step.
import { useState, useEffect, useRef } from "./lib.js";
import { get, path, url } from "./api.js";
import { complain } from "./state.js";
import { watch } from "./live.js";

const PAGE = 100, MOST_NEW = 1_000;

/** The ledger from its end: `{ events, older, missing }`. New events are added as the stream tells of them. */
export const useLedger = (id) => {
  const [events, set] = useState(null), held = useRef([]), at = `${path("runs", id)}/events`;
  const hold = (list) => { held.current = list; set(list); };
  useEffect(() => {
    let alive = true;
    held.current = [];
    set(null);
    const newest = async () => {
      try {
        const { length } = await get(`${path("runs", id)}/head`);
        const page = await get(url(at, { after: Math.max(0, length - PAGE), limit: PAGE }));
        if (alive) hold(page.events);
      } catch (error) { if (error.status !== 404) complain(error); }
    };
    let busy = false, more = false; // one at a time: two that begin at the same place would add the same events
    const catchUp = async () => {
      more = true;
      if (busy) return;
      for (busy = true; more && alive;) { more = false; await caughtUp(); }
      busy = false;
    };
    const caughtUp = async () => {
      let last = held.current.at(-1)?.sequence_id;
      if (last === undefined) return newest();
      for (let added = 0; alive && added < MOST_NEW;) {
        const page = await get(url(at, { after: last, limit: PAGE })).catch(() => null);
        if (!page?.events.length || !alive) return undefined;
        hold([...held.current, ...page.events]);
        added += page.events.length;
        last = held.current.at(-1).sequence_id;
      }
      return newest(); // too far behind: begin again at the end
    };
    newest();
    const stop = watch(["runs"], (changes) => { if (!changes.length || changes.some((one) => one.id === id)) catchUp(); });
    return () => { alive = false; stop(); };
  }, [id]);
  const older = async () => {
    const first = held.current[0]?.sequence_id;
    if (!first || first === 1) return;
    const after = Math.max(0, first - 1 - PAGE), page = await get(url(at, { after, limit: first - 1 - after })).catch(complain);
    if (page) hold([...page.events, ...held.current]);
  };
  return { events: events ?? [], loaded: events !== null, older, missing: Math.max(0, (events?.[0]?.sequence_id ?? 1) - 1) };
};

/** Which update an event made, if it made one. */
export const stepOf = (event) => {
  const seq = event.payload?.new_seq ?? event.detail?.seq;
  return typeof seq === "number" && /^(WS_UPDATE_APPLIED|RUN_START|ROLLED_BACK|RESTORED|FORKED)$/.test(event.type) ? seq : undefined;
};
