// The one way to the server: JSON over fetch with the key in a header, so no cookie can be ridden. Errors keep the
// server's own words. Paths are relative to the page, so the console works behind a prefix too.
let key = null;

export class Refused extends Error {
  constructor(status, facts) {
    super(facts.error ?? facts.detail ?? `the server answered ${status}`);
    this.status = status;
    this.facts = facts;
  }
}

export const useKey = (value) => { key = value || null; };
export const headers = (more = {}) => (key ? { ...more, authorization: `Bearer ${key}` } : more);

/** A path with its query; what is empty is left out. */
export const url = (path, query = {}) => {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
};

/** Parts of a path that came from stored data. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

const answered = async (response) => {
  const text = await response.text();
  let facts = {};
  try { facts = text ? JSON.parse(text) : {}; } catch { facts = { error: text.slice(0, 300) }; }
  if (!response.ok) throw new Refused(response.status, facts);
  return facts;
};

export const get = async (address, { signal } = {}) => answered(await fetch(address, { headers: headers(), signal }));

/** A write under an id of its own: sent twice, it is done once. */
export const post = async (address, body = {}, method = "POST") => answered(await fetch(address, {
  method, headers: headers({ "content-type": "application/json", "idempotency-key": crypto.randomUUID() }), body: JSON.stringify(body),
}));

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
