// Keeps an open page as the server has it: after an event the page is fetched anew, and its changed parts are put in.

import { given, itemIn } from "./answers.js";
import { watchDay } from "./day.js";
import { beginEdit, isTyped } from "./edit.js";
import { changedByItself } from "./guard.js";
import { keepTicks } from "./list.js";
import { watchReading } from "./reading.js";
import { restoreTyped } from "./typed.js";
import { countDown } from "./undo.js";

const AGAIN = 3000;
const QUIET = 150; // one fetch for events that come together

let main = document.querySelector("main[data-live]");
const served = new Map();
let source;
let timer;
let running; // the fetch under way
let next; // the one after it, for all who asked meanwhile

const parts = (root) => [...root.querySelectorAll("[data-part]")];

/** Say at the page's head how it stands with the server. */
export function say(text) {
  const place = document.getElementById("lost");
  if (place.textContent !== text) place.textContent = text;
}

/** Take back what was said, if nothing else was since. */
export function unsay(text) {
  if (document.getElementById("lost").textContent === text) say("");
}

/** What was learned is told once: what the page was told of stays, and what is new takes its place. */
export function tellLearned(fresh) {
  const place = document.getElementById("learned");
  for (const lesson of fresh.querySelectorAll("#learned > *")) {
    if (!document.getElementById(lesson.id)) place.append(document.adoptNode(lesson));
  }
  const lessons = [...place.querySelectorAll(".learned")];
  for (const [before, lesson] of lessons.entries()) {
    lesson.hidden = lesson !== lessons.at(-1);
    const more = lesson.querySelector("a");
    more.hidden = !before;
    more.textContent = `and ${before} more`;
  }
}

/** Whether the person is at it: what they have begun there would be lost, and the next letter taken for a key. */
function isInUse(part) {
  return isTyped(part) || part.querySelector("[data-strike]:checked, [data-proposed]:focus, textarea:focus, select:focus");
}

/** All that a press of the button would do. */
const proposedIn = (part) => [...part.querySelectorAll(".as-proposed, .written, .heads, .part .notice")].map((each) => each.textContent).join();

/** Put in the parts of the page that have changed. */
export function update(fresh) {
  document.title = fresh.title;
  tellLearned(fresh);
  for (const part of parts(document)) {
    const next = fresh.getElementById(part.id);
    const html = next?.outerHTML;
    if (!html || html === served.get(part.id) || isInUse(part)) continue;
    served.set(part.id, html);
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const restore = keepTicks();
    if (proposedIn(part) !== proposedIn(next)) changedByItself();
    part.replaceWith(document.adoptNode(next));
    restore();
    countDown(next);
    watchDay();
    watchReading(next);
    beginEdit(next);
    restoreTyped(next);
    refocus(next, focused);
  }
  if (!document.querySelector("form[data-answer]")) document.getElementById("not-arrived")?.remove(); // it has
}

/** Give the focus back to what stands where it was: the same row, else the same place. */
function refocus(part, focused) {
  if (!focused) return;
  const row = focused.closest("li[id]");
  const same = row ? part.querySelector(`#${CSS.escape(row.id)} ${focused.localName}`) : null;
  (same ?? part.querySelector("a.row") ?? main).focus({ preventScroll: true });
}

/** Something else has taken the place of what the page shows: its address is that page's from now on. */
function follow(address, fresh) {
  main.dataset.live = fresh.querySelector("main").dataset.live;
  history.replaceState(null, "", address);
}

async function fetchAnew() {
  try {
    const asked = main;
    const answer = await fetch(asked.dataset.live);
    if (answer.status === 401) return say("You are logged out; log in again in another tab, then go on here.");
    const text = await answer.text();
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (answer.ok && asked === main) {
      if (answer.redirected) follow(answer.url, fresh);
      update(fresh);
    }
    document.dispatchEvent(new Event("refreshed"));
  } catch {
    // The connection is gone; the event source says so and tries again.
  }
}

/** Put in what has changed on the page; ends when all that the server had by now is there. */
export function refresh() {
  if (!running) return (running = fetchAnew().finally(() => (running = undefined)));
  next ??= running.then(() => {
    next = undefined;
    return refresh();
  });
  return next;
}

/** Fetch the page anew, once for all that comes together. */
export function soon() {
  clearTimeout(timer);
  timer = setTimeout(refresh, QUIET);
}

/** Whether the server tells of changes just now. */
export function isHeard() {
  return source?.readyState === EventSource.OPEN;
}

/** Whether a change is what is answered here, beside a card: what comes of that is told with the answer. */
function isKnown({ items, mails, accounts }) {
  for (const { id, status } of items) if (status === "pending") given.delete(id);
  const isTold = "sending" in document.body.dataset || !given.has(itemIn(main.dataset.live));
  const isBeside = document.querySelector("form[data-answer]") && isTold;
  return isBeside && !mails.length && !accounts.length && items.every(({ id }) => given.has(id));
}

function hear(event) {
  if (event.type === "change" && isKnown(JSON.parse(event.data))) return;
  document.dispatchEvent(new Event("changed"));
  soon();
}

function connect() {
  source?.close();
  source = new EventSource("/api/events");
  source.addEventListener("open", () => {
    say("");
  });
  for (const name of ["change", "reload"]) source.addEventListener(name, hear);
  source.addEventListener("error", () => {
    say("Connection lost; trying again. What you type is kept.");
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(connect, AGAIN);
    soon(); // it may be that one is logged out
  });
}

/** Take the page that was put in for the one that is served. */
export function keepAsServed() {
  main = document.querySelector("main[data-live]");
  served.clear();
  for (const part of parts(document)) served.set(part.id, part.outerHTML);
}

export function watchServer() {
  if (!main) return;
  keepAsServed();
  // A page in the background holds no connection: browsers allow six to one server, over all tabs.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else connect();
  });
  document.addEventListener("forgotten", soon);
  if (!document.hidden) connect();
}
