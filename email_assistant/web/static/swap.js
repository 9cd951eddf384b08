// Goes from one mail to the next without loading the page's frame again: at once, where the next one is at hand, while
// the answer to the one before is under way. Addresses and the way back stay true, and whatever can't be done so is left
// to the browser.

import { given, itemIn, post, settled } from "./answers.js";
import { isTyped, wouldBeLost } from "./edit.js";
import { cardShown, changedByItself, isSlip } from "./guard.js";
import { isHeard, say, tellLearned, unsay, update } from "./live.js";
import { forgetTaken } from "./typed.js";
import { countDown } from "./undo.js";

const LINKS = ".inbox a.row, #next, #previous, #back, #results a";
const FORMS = 'form[data-answer]:not([data-chat]), #later, form.undo[action^="/items/"]';
const APPROVES = ["accept", "edit", "gmail"];
const AHEAD = 2; // cards that are fetched before they are asked for
const FRESH = 300_000; // milliseconds for which they are good, if the server tells of changes
const FRESH_UNHEARD = 10_000;
const LOST = "The connection is lost, and your answer may not have arrived. It is as you left it: answer once more.";
const FAILED = "Something went wrong here, and your answer may not have been taken. It is as you left it: answer once more.";
const GONE = "This is not here any more: its mail was forgotten, or its mailbox removed. Nothing is done; what you typed still stands here.";
const LOGGED_OUT = "You are logged out: log in again in another tab, then answer once more.";
const UNDO_LOST = "Your Undo may not have arrived, and what you had answered may be done.";
const STILL = "An answer is still on its way.";
const PATIENCE = 5000; // milliseconds
const NOT_TAKEN = "An answer was not taken; its card comes next.";

const ahead = new Map();
const returns = []; // cards that have to be come back to
const arrivals = [];
const sending = new WeakSet(); // forms
let steps = 0;

/** Have something done with each page that is put in. */
export function onArrival(step) {
  arrivals.push(step);
}

const main = () => document.querySelector("main");
const isOurs = (page) => page.querySelector("main[data-swap]");

function cardOf(page, address = main().dataset.live) {
  return { address, title: page.title, main: page.querySelector("main") };
}

// Ahead

async function fetched(address) {
  const found = await fetch(address);
  const page = new DOMParser().parseFromString(await found.text(), "text/html");
  return [found, page];
}

const nextIn = (page) => page.getElementById("next")?.href;
const isGood = (entry) => performance.now() - entry.at < (isHeard() ? FRESH : FRESH_UNHEARD);

function fetchAhead(address, count = AHEAD) {
  if (!address || !count || given.has(itemIn(address))) return;
  const known = ahead.get(address);
  if (known && isGood(known)) return known.page && fetchAhead(nextIn(known.page), count - 1);
  const entry = { at: performance.now() };
  ahead.set(address, entry);
  entry.coming = fetched(address).then(([found, page]) => {
    tellLearned(page);
    entry.page = page;
    if (ahead.get(address) === entry && isOurs(page)) fetchAhead(nextIn(page), count - 1);
    return [found, page];
  });
  entry.coming.catch(() => ahead.delete(address));
}

function taken(address) {
  const entry = ahead.get(address);
  ahead.delete(address);
  return entry && isGood(entry) ? entry : undefined;
}

/** What was fetched may be out of date. */
function forget() {
  ahead.clear();
  fetchAhead(nextIn(document));
}

/** The card that comes after an answer, if it is at hand and can be answered. */
function onward() {
  if (returns.length) return returns.shift();
  const address = nextIn(document);
  const page = ahead.get(address)?.page;
  if (!page?.querySelector("form[data-answer]") || given.has(itemIn(address))) return undefined;
  return taken(address) && cardOf(page, address);
}

// Arriving

function show(card, { isBack = false } = {}) {
  const pane = document.querySelector(".pane")?.scrollTop ?? 0;
  document.title = card.title;
  main().replaceWith(document.adoptNode(card.main));
  for (const item of given) document.querySelector(`.pane #row-${item}`)?.remove();
  const list = document.querySelector(".pane");
  if (list) list.scrollTop = pane;
  window.scrollTo({ top: 0, behavior: "instant" });
  if (!isBack && new URL(card.address, location).href !== location.href) history.pushState(null, "", card.address);
  main().focus({ preventScroll: true });
  document.querySelector(".pane .on")?.scrollIntoView({ block: "nearest" });
  for (const step of arrivals) step(main());
  cardShown();
  fetchAhead(nextIn(document));
}

/** Go to a page by its address. */
async function go(address, how) {
  const step = ++steps;
  try {
    const coming = taken(address)?.coming ?? settled().then(() => fetched(address));
    const [found, page] = await coming;
    if (step !== steps) return;
    if (!isOurs(page)) return location.assign(found.url);
    tellLearned(page);
    show(cardOf(page, found.url), how);
  } catch {
    if (step === steps) say("The connection is lost; try again.");
  }
}

// Answering

/** Send what was answered, and go on meanwhile if that is possible. */
async function answer(form, fields) {
  const [card, step, isLast] = [cardOf(document), ++steps, goesOn(form, fields)];
  for (const item of itemsIn(form)) isLast ? given.add(item) : given.delete(item);
  let isAwaited = true;
  const goOn = () => {
    const next = isLast && isAwaited && step === steps && onward();
    if (!next) return;
    isAwaited = false;
    show(next);
  };
  const sent = post(form.action, fields);
  const late = setTimeout(() => say(STILL), PATIENCE);
  goOn();
  ahead.get(nextIn(document))?.coming.then(goOn, () => undefined);
  try {
    const [found, page] = await sent;
    const isStill = isAwaited && step === steps;
    isAwaited = false;
    if (found.redirected) arrive(page, found.url, isStill);
    else if (isOurs(page)) comeBack(cardOf(page, card.address), form, isStill);
    else notTaken(card, form, { 401: LOGGED_OUT, 404: GONE }[found.status] ?? FAILED);
  } catch {
    isAwaited = false;
    notTaken(card, form, LOST);
  } finally {
    clearTimeout(late);
    unsay(STILL);
  }
}

/** All that a card's form answers. */
const itemsIn = (form) => [itemIn(form.action), ...[...form.querySelectorAll(".part > h2")].map((title) => title.id.slice("part-".length))];

/** Whether what follows the answer is the next card: nothing of this one is left open. */
function goesOn(form, fields) {
  if (form.id === "later") return fields.has("until");
  if (!form.matches("[data-answer]")) return false;
  const parts = [...form.querySelectorAll(".part")];
  const isOver = ["accept", "edit", "ignore", "done"].includes(fields.get("answer")); // else it is to be written anew
  return isOver && (parts.length === 1 || parts.every((part) => part.dataset.does));
}

/** Put in what the server says to an answer: its page, or of that what belongs to the page that is shown by now. */
function arrive(page, address, isAwaited) {
  if (!isOurs(page)) return isAwaited && location.assign(address);
  tellLearned(page);
  if (isAwaited) return show(cardOf(page, address));
  if (main().dataset.live === page.querySelector("main").dataset.live) {
    history.replaceState(null, "", address);
    document.querySelector(".trailhead")?.replaceWith(document.adoptNode(page.querySelector(".trailhead")));
    update(page);
    fetchAhead(nextIn(document));
  }
  const results = page.getElementById("results");
  if (!results) return;
  document.getElementById("results")?.remove();
  document.querySelector(".trailhead, .toolbar")?.after(document.adoptNode(results));
  countDown(results);
  forgetTaken();
}

/** Say so where the answer was given; an undo was given to another card than the one that is shown. */
function notTaken(card, form, why) {
  if (form.matches(".undo")) {
    const told = notice(why === LOGGED_OUT ? `${UNDO_LOST} ${why}` : UNDO_LOST, "undo-lost");
    const item = itemIn(form.action);
    if (item) told.append(" ", Object.assign(document.createElement("a"), { href: `/items/${item}`, textContent: "See how it stands" }));
    document.getElementById("undo-lost")?.remove();
    main().querySelector("h1").after(told);
  } else {
    if (why === GONE) document.querySelector(`.pane #row-${itemIn(form.action)}`)?.remove();
    comeBack(card, form, false, why);
  }
}

/** Show a card once more whose answer was not taken; where something is typed, once that is done with. */
function comeBack(card, form, isAwaited, why) {
  for (const item of itemsIn(form)) given.delete(item);
  card.main.querySelector("#not-arrived")?.remove();
  if (why) card.main.querySelector("h1").after(notice(why));
  if (isAwaited) return show(card, { isBack: true });
  if (card.main === main()) return;
  if (isTyped()) {
    say(NOT_TAKEN);
    returns.push(card);
  } else {
    changedByItself();
    show(card);
  }
}

function notice(text, id = "not-arrived") {
  const made = Object.assign(document.createElement("p"), { id, className: "notice bad", textContent: text });
  made.setAttribute("role", "alert");
  return made;
}

// What the person does

function follow(event) {
  const link = event.target.closest(LINKS);
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || event.defaultPrevented || wouldBeLost()) return;
  event.preventDefault();
  go(link.href);
}

/** Whether a button approves what nobody has begun to change: who changes it has seen it. */
const isUnseen = (button) => APPROVES.includes(button?.value) && !isTyped(button.form);

function send(event) {
  const form = event.target;
  if (event.defaultPrevented || !form.matches(FORMS)) return;
  event.preventDefault();
  const isUndo = form.matches(".undo");
  if ((!isUndo && isSlip(isUnseen(event.submitter))) || sending.has(form)) return;
  if (isUndo) keepTyped();
  sending.add(form);
  answer(form, new URLSearchParams(new FormData(form, event.submitter))).finally(() => sending.delete(form));
}

/** Have what is typed here come back, as one goes elsewhere. */
function keepTyped() {
  if (isTyped()) returns.push(cardOf(document));
}

export function watchWays() {
  if (!isOurs(document)) return;
  document.addEventListener("click", follow);
  // Before others hear of it, so that they know whether the browser sends it.
  document.addEventListener("submit", send, { capture: true });
  document.addEventListener("changed", forget);
  window.addEventListener("beforeunload", (event) => {
    if (returns.length) event.preventDefault();
  });
  window.addEventListener("popstate", () => {
    keepTyped();
    go(location.href, { isBack: true });
  });
  fetchAhead(nextIn(document));
}
