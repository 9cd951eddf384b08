// Finds any action, page, mail or person by what is typed.

import { go } from "./places.js";

const MOST = 8; // of each kind
const QUIET = 120; // milliseconds after the last letter, before the server is asked
const ACTIONS = ".bar button, .bar a.button, #done-all, #tick-all, [data-undo], .trailhead a, header.top button, header.top form button";
const PAGES = 'nav[aria-label="Pages"] a, nav.bottom .sheet a';

let dialog;
let timer;

/** What can be pressed on this page, each name once; no more than a press is meant by it. */
function pressable(selector, kind) {
  const all = [...document.querySelectorAll(selector)].filter((each) => !each.disabled && !each.closest("[hidden]"));
  const named = new Map(all.map((each) => [each.textContent.replace(/\s+/g, " ").trim(), each]));
  return [...named].map(([name, each]) => [name, kind, () => each.click()]);
}

/** Mails that hold the words, and the people among those who wrote them. */
async function inMail(words) {
  const answer = await fetch(`/?status=all&q=${encodeURIComponent(words)}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = [...page.querySelectorAll(".inbox a.row")];
  const rows = [...new Map(found.map((row) => [row.dataset.mail ?? row.href, row])).values()]; // of a mail, the latest
  const mails = rows.map((row) => [row.querySelector(".who").textContent.trim(), "mail", () => go(row.getAttribute("href"))]);
  const writers = rows.map((row) => row.querySelector(".who b")).map((name) => [name.textContent, name.title || name.textContent]);
  const people = [...new Map(writers.map(([name, address]) => [address, name]))]
    .map(([address, name]) => [name === address ? name : `${name} ${address}`, "person", () => go(`/?status=all&q=${encodeURIComponent(address)}`)])
    .filter(([name]) => holds(name, words));
  return [...people.slice(0, MOST), ...mails.slice(0, MOST)];
}

const holds = (name, words) => words.toLowerCase().split(/\s+/).every((word) => name.toLowerCase().includes(word));

function show(found) {
  dialog.querySelector("ul").replaceChildren(
    ...found.map(([name, kind, act]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "plain" });
      button.append(Object.assign(document.createElement("span"), { textContent: name }), Object.assign(document.createElement("small"), { textContent: kind }));
      button.addEventListener("click", () => {
        dialog.close();
        act();
      });
      const line = document.createElement("li");
      line.append(button);
      return line;
    }),
  );
}

async function find(words) {
  const near = [...pressable(ACTIONS, "action"), ...pressable(PAGES, "page")].filter(([name]) => holds(name, words));
  show(near);
  clearTimeout(timer);
  if (words.length < 2) return;
  timer = setTimeout(async () => {
    const found = await inMail(words).catch(() => []);
    if (dialog.querySelector("input").value.trim() === words) show([...near, ...found]);
  }, QUIET);
}

function move(event) {
  const all = [dialog.querySelector("input"), ...dialog.querySelectorAll("li button")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" && event.target.localName === "input") all[1]?.click();
  else if (step) all[Math.min(Math.max(all.indexOf(document.activeElement) + step, 0), all.length - 1)].focus();
  else return;
  event.preventDefault();
}

function made() {
  const made = Object.assign(document.createElement("dialog"), { id: "palette" });
  made.setAttribute("aria-label", "Find an action, a page, a mail or a person");
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "Action, page, mail or person", autocomplete: "off" });
  field.setAttribute("aria-label", "Find");
  field.addEventListener("input", () => find(field.value.trim()));
  made.append(field, Object.assign(document.createElement("ul"), { className: "plainlist" }));
  made.addEventListener("keydown", move);
  document.body.append(made);
  return made;
}

export function openPalette() {
  dialog ??= made();
  dialog.querySelector("input").value = "";
  dialog.showModal();
  find("");
}
