// Where a server asks who is there. The key stays in this tab's memory, and closing the tab forgets it, unless the browser
// is told to keep it: then in a cookie that no script can read, this one neither.
import { html, useState } from "./lib.js";
import { Icon } from "./icons.js";
import { Button } from "./ui.js";
import { enter } from "./state.js";

export const SignIn = () => {
  const [key, type] = useState(""), [kept, keep] = useState(false), [problem, tell] = useState("");
  const go = async (e) => {
    e.preventDefault();
    try {
      if (!await enter(key.trim(), kept)) tell("This server does not know that key.");
    } catch (error) { tell(error.message); }
  };
  return html`<main class="sign-in" id="main"><form onSubmit=${go}>
    <h1>Strongroom</h1><p class="lead">This server asks for a key. It says which space you see and what you may do.</p>
    <label class="field">Key<input type="password" autocomplete="off" placeholder="srk_…" value=${key} onInput=${(e) => type(e.target.value)} autofocus /></label>
    ${problem && html`<p class="banner bad" role="alert"><${Icon} name="alert" /><span>${problem}</span></p>`}
    <label class="radio keep"><input type="checkbox" checked=${kept} onChange=${(e) => keep(e.target.checked)} /><b>Keep me signed in</b><span>for a week, in this browser</span></label>
    <${Button} kind="primary" type="submit" onClick=${go} disabled=${!key.trim()}>Sign in<//>
    <p class="muted">${kept ? "The browser keeps it in a cookie that no page can read, and drops it when you sign out." : "It is kept in this tab's memory only."} An administrator makes keys with <code>strongroom keys create</code>.</p>
  </form></main>`;
};
