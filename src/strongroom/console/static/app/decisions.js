// What waits for review, and decisions on their way. A batch is decided as a whole, so a decision about one of several
// proposals waits here until the others are decided too; and each waits as long as it can be undone.
import { useState, useEffect } from "./lib.js";
import { path, post, url, get } from "./api.js";
import { useQuery } from "./query.js";
import { complain, dismiss, toast } from "./state.js";
import { plural } from "./format.js";

const UNDO_SECONDS = 6, MOST = 100;
const made = new Map(); // "batch:place" -> { accept, reason, content }: content, if it is accepted in other words
const sending = new Map(); // batch -> timer
const listeners = new Set();
const tell = () => listeners.forEach((listen) => listen({}));

/** Every proposal of the batches that wait, each under an id of its own. What is as usual is left out of an answer. */
const flat = (batches) => batches.flatMap((batch) => batch.proposals.map((proposal, place) => ({
  ...proposal, id: `${batch.id}:${place}`, batch, place, of: batch.proposals.length, trust: proposal.trust ?? "untrusted", flags: proposal.flags ?? [], replaces: proposal.replaces ?? [],
  near: proposal.near_duplicates ?? [], proposer: batch.proposer, created_at: batch.created_at,
})));

export const usePending = () => {
  const [, again] = useState({});
  useEffect(() => { listeners.add(again); return () => listeners.delete(again); }, []);
  const { data } = useQuery("memories/pending", { limit: MOST }, ["review"]);
  return flat(data?.batches ?? []).filter((one) => !made.has(one.id));
};
/** Whether it is known what waits, and whether more waits than is shown. */
export const useLoaded = () => { const { data } = useQuery("memories/pending", { limit: MOST }); return { loaded: data !== undefined, more: Boolean(data?.next) }; };

const send = async (batch) => {
  sending.delete(batch.id);
  const decisions = batch.proposals.map((_, place) => made.get(`${batch.id}:${place}`));
  const rejected = Object.fromEntries(decisions.flatMap((one, place) => (one.accept ? [] : [[place, one.reason]])));
  const edited = Object.fromEntries(decisions.flatMap((one, place) => (one.content === undefined ? [] : [[place, one.content]])));
  const at = path("memories", "batches", batch.id);
  try {
    if (Object.keys(rejected).length === batch.proposals.length) await post(`${at}/reject`, { reason: decisions[0].reason });
    else await post(`${at}/commit`, { reject: rejected, edit: edited });
  } catch (error) { complain(error); }
  await get(url("memories/pending", { limit: MOST })).catch(() => {});
  batch.proposals.forEach((_, place) => made.delete(`${batch.id}:${place}`));
  tell();
};

/** Decide proposals; the batches that are then decided whole are sent when the time to undo is over. One may be accepted
    as another content than was proposed: the record keeps both. */
export const decide = (proposals, accept, reason = "", content = undefined) => {
  proposals.forEach((one) => made.set(one.id, { accept, reason, content }));
  const batches = new Map(proposals.map((one) => [one.batch.id, one.batch]));
  const whole = [...batches.values()].filter((batch) => batch.proposals.every((_, place) => made.has(`${batch.id}:${place}`)));
  whole.forEach((batch) => sending.set(batch.id, setTimeout(() => send(batch), UNDO_SECONDS * 1_000)));
  const rest = [...batches.values()].filter((batch) => !whole.includes(batch));
  const left = rest.reduce((sum, batch) => sum + batch.proposals.filter((_, place) => !made.has(`${batch.id}:${place}`)).length, 0);
  const text = `${accept ? "Accepting" : "Rejecting"} ${plural(proposals.length, "proposal")}${content === undefined ? "" : " as edited"}${reason ? `: ${reason}` : ""}${left ? `. Sent when ${plural(left, "other")} of the batch ${left === 1 ? "is" : "are"} decided too` : ""}`;
  const note = toast(text, () => {
    proposals.forEach((one) => made.delete(one.id));
    batches.forEach((batch) => { clearTimeout(sending.get(batch.id)); sending.delete(batch.id); });
    dismiss(note);
    tell();
  }, UNDO_SECONDS);
  tell();
};

addEventListener("pagehide", () => sending.forEach((timer) => clearTimeout(timer)));
addEventListener("beforeunload", (e) => { if (made.size) e.preventDefault(); });
