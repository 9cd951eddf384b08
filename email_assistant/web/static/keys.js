// Every action by one key, except while something is typed.

import { settled } from "./answers.js";
import { say, send } from "./edit.js";
import { SLIP, pressByKey } from "./guard.js";
import { openPalette } from "./palette.js";
import { goTo } from "./places.js";
import { readOn } from "./reading.js";
import { undoEarlier } from "./undo.js";

const links = () => [...document.querySelectorAll(".rows:not(.pane *) a.row")].filter((link) => link.checkVisibility());
const current = () => document.activeElement?.closest(".rows:not(.pane *) > li");
const ticked = () => document.querySelector('#list input[name="item"]:checked');

function click(selector) {
  const found = [...document.querySelectorAll(selector)].find((each) => !each.disabled && !each.closest("[hidden]"));
  if (found) pressByKey(found);
  return Boolean(found);
}

function move(step) {
  const all = links();
  if (!all.length) return step > 0 ? click("#next") : click("#previous");
  const at = all.indexOf(current()?.querySelector("a.row"));
  const to = at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1);
  all[to].focus();
  return true;
}

/** The row that is marked, else the first of the list. */
function open(hash = "") {
  const link = current()?.querySelector("a.row") ?? document.querySelector("#list .inbox a.row");
  if (!link) return false;
  if (hash) location.assign(link.href + hash);
  else link.click();
  return true;
}

function tick() {
  const box = current()?.querySelector('input[name="item"]');
  box?.click();
  return Boolean(box);
}

/**
 * Accept the item that is open, or go to where what is ticked is shown whole. Nothing is accepted from a row: it shows
 * one sentence only. Nor does a key accept what is shown together: more stands there than a screen holds.
 */
function accept() {
  if (click(".bar > .main") || readOn()) return true;
  return ticked() ? click('.bulk [value="accept"]') : open();
}

/** Give one answer to what is open, or to what is ticked, or to the row. */
function answer(value, inBulk = value) {
  if (document.querySelector(".bar")) return click(`.bar ${value}`);
  const box = current()?.querySelector('input[name="item"]');
  if (!ticked() && box) box.click();
  return ticked() ? click(`.bulk ${inBulk}`) : false;
}

/** What is open is put away, be it a notice, which is done with, or a proposal; nothing is learned from that. */
function dismiss() {
  return answer(document.querySelector('.bar [value="done"]') ? '[value="done"]' : '[value="accept"]', '[value="done"]');
}

function search() {
  const field = document.getElementById("search");
  if (!field) return click('nav a[href="/"]');
  field.focus();
  field.select();
  return true;
}

/** Up to the list; from a part of the list to the whole of it. */
function back() {
  return click("#back") || (location.pathname + location.search !== "/" && click('nav a[href="/"]'));
}

/** Take back what was answered last, be it still under way. */
function undo() {
  settled().then(() => click("[data-undo-all]") || click("[data-undo]") || undoEarlier());
  return true;
}

function help() {
  document.getElementById("help")?.showModal();
  return true;
}

/** Leave a part of the proposal out, or take it in again. */
function strike(number) {
  const box = document.querySelectorAll("[data-strike]")[number - 1];
  box?.click();
  return Boolean(box);
}

const ACTIONS = {
  1: () => strike(1),
  2: () => strike(2),
  3: () => strike(3),
  j: () => move(1),
  k: () => move(-1),
  o: () => open(),
  x: tick,
  a: accept,
  r: () => click("#to-change") || open("#now-change"),
  t: say,
  h: () => answer("#put-off", '[value="snooze"]'),
  e: dismiss,
  i: () => answer('[value="ignore"]'),
  z: undo,
  u: back,
  "/": search,
  "?": help,
};

/** Keys that decide, or lead to where the same key decides. */
const DECIDING = ["a", "e", "h", "i", "send"];
/** What was pressed last; it is remembered over pages, since a decision leads to the next item's. */
const PRESSED = "pressed";

/** Whether a key that decided something was pressed twice; meanwhile another key, or the mouse, makes it a new one. */
function isSlip(event, key = event.key) {
  const at = performance.timeOrigin + event.timeStamp;
  const last = JSON.parse(sessionStorage.getItem(PRESSED) ?? "null");
  if (DECIDING.includes(key) && last?.key === key && at - last.at < SLIP) return true;
  sessionStorage.setItem(PRESSED, JSON.stringify({ key, at }));
  return false;
}

/** Milliseconds after `g` in which a letter says where to. */
const GOES = 1500;
let going = -GOES;

function isTyping(target) {
  return target.matches?.('textarea, select, [contenteditable], input:not([type="checkbox"])') ?? false;
}

/** Whether a key that sends is meant for the open card: it was pressed once, and not in a field of something else. */
function isOfCard(event) {
  const isElsewhere = isTyping(event.target) && !event.target.closest("form[data-answer]");
  return document.querySelector(".bar") && !document.querySelector("dialog[open]") && !event.repeat && !event.isComposing && !isElsewhere;
}

/** An item that was opened to be changed or answered, from the list. */
function openAsked() {
  // No element has this id: going to one takes the focus away once the page is loaded.
  if (location.hash === "#now-change") click("#to-change");
}

export function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "k" && (event.ctrlKey || event.metaKey) && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      return openPalette();
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && isOfCard(event)) {
      event.preventDefault();
      return void (isSlip(event, "send") || send(event.target) || readOn());
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.repeat && !"jk".includes(event.key)) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const goes = event.timeStamp - going < GOES && goTo(event.key);
    going = event.key === "g" && !goes ? event.timeStamp : -GOES;
    if (goes || isSlip(event) || (Object.hasOwn(ACTIONS, event.key) ? ACTIONS[event.key]() : click(`[data-key="${CSS.escape(event.key)}"]`))) event.preventDefault();
  });
  document.addEventListener("pointerdown", () => sessionStorage.removeItem(PRESSED));
  const button = document.getElementById("show-help");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", help);
  }
  openAsked();
}
