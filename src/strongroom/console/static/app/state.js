// What every screen shares: who looks, at which space, the connection, the theme, and what just happened.
import { useState, useEffect } from "./lib.js";
import { drop, get, keep, onRefused, useKey } from "./api.js";

const RIGHTS = { reader: ["read"], writer: ["read", "write"], reviewer: ["read", "review"], admin: ["read", "write", "review", "erase", "keys"] };

export const state = { me: null, signIn: false, connection: "connecting", since: Date.now(), theme: null, toasts: [], page: null };
const listeners = new Set();

export const change = (changes) => { Object.assign(state, changes); listeners.forEach((listen) => listen({})); };
export const useApp = () => {
  const [, again] = useState({});
  useEffect(() => { listeners.add(again); return () => listeners.delete(again); }, []);
  return state;
};

export const can = (right) => (RIGHTS[state.me?.role] ?? []).includes(right);

/** Show what happened; `undo` takes it back while that is possible. */
export const toast = (text, undo = null, seconds = 8) => {
  const id = Math.random();
  change({ toasts: [...state.toasts.slice(-2), { id, text, undo }] });
  setTimeout(() => dismiss(id), seconds * 1_000);
  return id;
};
export const dismiss = (id) => change({ toasts: state.toasts.filter((one) => one.id !== id) });

/** Say what the server refused, in its own words. */
export const complain = (error) => toast(error.status === 403 ? "Your key may not do this. Nothing changed." : error.message);

/** Ask who this key is; without one, the browser may keep one, and a server that knows no keys lets this machine in. */
export const enter = async (key, kept = false) => {
  useKey(key);
  try {
    const me = await get("me");
    if (kept) await keep();
    change({ me: { ...me, kept: kept || me.kept }, signIn: false });
    return true;
  } catch (error) {
    useKey(null);
    if (error.status !== 401) throw error;
    return false;
  }
};
// Whoever was signed in and no longer is leaves nothing behind in this tab: what was read goes with the page.
onRefused(() => (state.me ? location.reload() : change({ signIn: true })));
export const leave = async () => { try { await drop(); } catch (error) { complain(error); return; } useKey(null); location.reload(); };

export const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* private window: the choice lasts as long as the tab */ }
  change({ theme });
};
export const startTheme = () => {
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch { /* as above */ }
  theme ??= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
  state.theme = theme;
};
