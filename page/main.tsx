import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createClient } from "../src/client/client.ts";
import { InterlockProvider, liveViewsOf } from "../src/react/hooks.ts";
import "./tokens.css";
import "./page.css";
import { Opening } from "./moment/opening.ts";
import { parseAddress } from "./shell/address.ts";
import { beginAnew, receiveNewOwner } from "./shell/another-user.ts";
import { readOwner, watchOwner } from "./shell/choices.ts";
import { PageFrame } from "./shell/frame.tsx";
import { SignInDemand } from "./shell/sign-in-demand.ts";
import { applyChosenTheme } from "./shell/theme.ts";
import { viewOf } from "./shell/views.ts";
import { loadWords, preferredLanguage, Speaking, tagOf } from "./words/words.tsx";

/** The time for which a command is repeated while the server is away, in ms: longer than a node's restart. */
const PATIENCE_MS = 60_000;

applyChosenTheme();
const language = preferredLanguage();
// The page's own folder: the API is relative to it, also under a path that a proxy adds.
const baseUrl = new URL(".", location.href).href;
const signIn = new SignInDemand({ ownerId: readOwner(), beginAnew });
watchOwner(signIn.changedElsewhere);
const newOwner = receiveNewOwner();
document.documentElement.lang = tagOf(language);
const headers = {
  /**
   * The server's sentences, such as the reason of a decision, are in the language of the page, not in the browser's.
   */
  get "Accept-Language"() {
    return document.documentElement.lang;
  },
};
const client = createClient({ baseUrl, headers, patienceMs: PATIENCE_MS, signInAgain: signIn.signIn });
const address = parseAddress(location.hash);
const opening = new Opening(liveViewsOf(client), { ...address, view: viewOf(address.view).name });
const root = document.getElementById("page");
if (!root) throw new Error("index.html has no #page");
// Not a top-level await: a chunk that imports from this one would wait for it, and it for the chunk.
void loadWords(language).then((words) =>
  createRoot(root).render(
    <StrictMode>
      <Speaking first={{ language, words }}>
        <InterlockProvider client={client}>
          <PageFrame opening={opening} signIn={signIn} newOwner={newOwner} />
        </InterlockProvider>
      </Speaking>
    </StrictMode>,
  ),
);
