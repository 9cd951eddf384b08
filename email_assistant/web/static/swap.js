// Goes from one mail to the next without loading the page's frame again. Addresses and the way back stay true, and
// whatever can't be done so is left to the browser.

import { wouldBeLost } from "./edit.js";

const LINKS = ".inbox a.row, #next, #previous, #back, #results a";
const FORMS = 'form[data-answer]:not([data-chat]), #later, form.undo[action^="/items/"]';
const FRESH = 10_000; // milliseconds for which what was fetched ahead is shown

const ahead = new Map();
const arrivals = [];
let isUnderWay = false;

/** Have something done with each page that is put in. */
export function onArrival(step) {
  arrivals.push(step);
}

function isOurs(page) {
  return page.querySelector("main[data-swap]");
}

function fetchAhead(url) {
  if (!url) return;
  const answer = fetch(url).then(async (found) => [found, await found.text()]);
  answer.catch(() => ahead.delete(url));
  ahead.clear();
  ahead.set(url, [answer, performance.now()]);
}

async function fetched(url, options) {
  const [answer, at] = (!options && ahead.get(url)) || [];
  ahead.clear();
  if (answer && performance.now() - at < FRESH) return answer;
  const found = await fetch(url, options);
  return [found, await found.text()];
}

/** Fetch a page and put it in; the address is that which the server has led to. */
async function go(url, options, { isBack = false } = {}) {
  if (isUnderWay) return;
  isUnderWay = true;
  try {
    const [answer, text] = await fetched(url, options);
    const page = new DOMParser().parseFromString(text, "text/html");
    if (!isOurs(page)) return location.assign(options && !answer.redirected ? location.href : answer.url);
    put(page);
    const isElsewhere = !options || answer.redirected;
    if (!isBack && isElsewhere) history.pushState(null, "", answer.url);
    arrive();
  } catch {
    document.getElementById("lost").textContent = "The connection is lost; what you answered may not have arrived.";
  } finally {
    isUnderWay = false;
  }
}

function put(page) {
  const pane = document.querySelector(".pane")?.scrollTop ?? 0;
  document.title = page.title;
  for (const lesson of page.querySelectorAll("#learned > *")) {
    if (!document.getElementById(lesson.id)) document.getElementById("learned").append(document.adoptNode(lesson));
  }
  document.querySelector("main").replaceWith(document.adoptNode(page.querySelector("main")));
  const list = document.querySelector(".pane");
  if (list) list.scrollTop = pane;
  window.scrollTo({ top: 0, behavior: "instant" });
}

function arrive() {
  const main = document.querySelector("main");
  main.focus({ preventScroll: true });
  document.querySelector(".pane .on")?.scrollIntoView({ block: "nearest" });
  for (const step of arrivals) step(main);
  fetchAhead(document.getElementById("next")?.href);
}

function follow(event) {
  const link = event.target.closest(LINKS);
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || event.defaultPrevented || wouldBeLost()) return;
  event.preventDefault();
  go(link.href);
}

function send(event) {
  const form = event.target;
  if (event.defaultPrevented || !form.matches(FORMS)) return;
  event.preventDefault();
  go(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
}

export function watchWays() {
  if (!isOurs(document)) return;
  document.addEventListener("click", follow);
  document.addEventListener("submit", send);
  window.addEventListener("popstate", () => go(location.href, undefined, { isBack: true }));
  fetchAhead(document.getElementById("next")?.href);
}
