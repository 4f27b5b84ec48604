import { html, render, useEffect, useState } from "./lib.js";
import { useRoute } from "./router.js";
import { enter, startTheme, useApp } from "./state.js";
import { follow } from "./live.js";
import { SignIn } from "./sign-in.js";
import { Shell } from "./shell.js";
import { Skeleton, Empty } from "./ui.js";

// Each screen is loaded when it is first looked at, so that the first paint needs little.
const LISTS = {
  overview: () => import("./overview.js").then((file) => file.Overview), review: () => import("./review.js").then((file) => file.Review),
  runs: () => import("./runs.js").then((file) => file.Runs), sessions: () => import("./sessions.js").then((file) => file.Sessions),
  memory: () => import("./memory.js").then((file) => file.Memory), threads: () => import("./threads.js").then((file) => file.Threads),
  files: () => import("./files.js").then((file) => file.Files), operations: () => import("./operations.js").then((file) => file.Operations),
};
const ONE = {
  runs: () => import("./run.js").then((file) => file.Run), sessions: () => import("./session.js").then((file) => file.Session),
  files: () => import("./files.js").then((file) => file.OneFile),
};
const loaded = new Map(), RETRY = 1_000;

/** The component behind a route, once it is there. */
const useScreen = (load) => {
  const [tries, again] = useState(0), next = () => again((n) => n + 1);
  useEffect(() => {
    if (!load || loaded.has(load)) return undefined;
    let timer = null;
    load().then((screen) => { loaded.set(load, screen); next(); }, () => { timer = setTimeout(next, RETRY); }); // the server may be away
    return () => clearTimeout(timer);
  }, [load, tries]);
  return loaded.get(load);
};

const NOWHERE = html`<${Empty} page icon="search" title="No such page">The address names a screen that does not exist.<//>`;

const App = () => {
  const route = useRoute();
  const { me, signIn } = useApp();
  const load = (route.id && ONE[route.screen]) || LISTS[route.screen], Screen = useScreen(load);
  useEffect(() => {
    const name = route.screen[0].toUpperCase() + route.screen.slice(1);
    document.title = `${route.id ? `${route.id}, ` : ""}${name} · Strongroom`;
  }, [route.screen, route.id]);
  useEffect(() => { if (me) follow(); }, [me]);
  const page = !load ? NOWHERE : !Screen ? html`<div class="page"><${Skeleton} rows=${10} /></div>` : html`<${Screen} id=${route.id} params=${route.params} />`;
  if (signIn) return html`<${SignIn} />`;
  if (!me) return html`<div class="page"><${Skeleton} rows=${10} /></div>`;
  return html`<${Shell} screen=${route.screen}>${page}<//>`;
};

startTheme();
enter(null);
render(html`<${App} />`, document.getElementById("app"));
