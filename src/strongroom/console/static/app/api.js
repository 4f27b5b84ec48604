// The one way to the server: JSON over fetch, with the key in a header, or in a cookie that no script can read. Errors
// keep the server's own words. Paths are relative to the page, so the console works behind a prefix too.
let key = null, refused = () => {}, held = 0;

export class Refused extends Error {
  constructor(status, facts) {
    super(facts.error ?? facts.detail ?? `the server answered ${status}`);
    this.status = status;
    this.facts = facts;
  }
}

export const useKey = (value) => { key = value || null; };
/** Say what to do when the server asks who is there: the key was revoked, or has never been. */
export const onRefused = (tell) => { refused = tell; };
/** Do something after which those who have no key are refused, without being refused in the middle of it. */
export const undisturbed = async (work) => { held++; try { return await work(); } finally { held--; } };
export const headers = (more = {}) => (key ? { ...more, authorization: `Bearer ${key}` } : more);

/** A path with its query; what is empty is left out. */
export const url = (path, query = {}) => {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
};

/** Parts of a path that came from stored data. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

export const answered = async (response) => {
  const text = await response.text();
  let facts = {};
  try { facts = text ? JSON.parse(text) : {}; } catch { facts = { error: text.slice(0, 300) }; }
  if (response.status === 401 && !held) refused();
  if (!response.ok) throw new Refused(response.status, facts);
  return facts;
};

export const get = async (address, { signal } = {}) => answered(await fetch(address, { headers: headers(), signal }));

/** A question that needs a body, and writes nothing. */
export const ask = async (address, body) => answered(await fetch(address, { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body) }));

/** A write under an id of its own: sent twice, it is done once. */
export const post = async (address, body = {}, method = "POST") => answered(await fetch(address, {
  method, headers: headers({ "content-type": "application/json", "idempotency-key": crypto.randomUUID() }), body: JSON.stringify(body),
}));

/** Have the browser keep the key in a cookie, and forget it here; or have it drop the cookie. */
export const keep = async () => { await answered(await fetch("sign-in", { method: "POST", headers: headers() })); key = null; };
export const drop = async () => answered(await fetch("sign-out", { method: "POST" }));

/** The first bytes of a file as text; null if they are none. */
export const beginning = async (address, first) => {
  const response = await fetch(url(address, { first }), { headers: headers() });
  if (!response.ok) await answered(response);
  const text = new TextDecoder().decode(new Uint8Array(await response.arrayBuffer()), { stream: true });
  return /[\u0000\ufffd]/.test(text) ? null : text;
};

/** Bytes for a download, as a file of the browser's. */
export const download = async (address, name) => {
  const response = await fetch(address, { headers: headers() });
  if (!response.ok) await answered(response);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};
