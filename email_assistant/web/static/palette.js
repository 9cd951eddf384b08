// Finds any action, page, mail or person by what is typed.

import { go } from "./places.js";

const MOST = 8;
const QUIET = 120; // milliseconds after the last letter, before the server is asked

let dialog;
let timer;

function actions() {
  const buttons = [...document.querySelectorAll(".bar button, .bar a, #done-all")].filter((each) => each.checkVisibility() && !each.disabled);
  const pages = [...document.querySelectorAll('nav[aria-label="Pages"] a')];
  return [...buttons, ...pages].map((each) => [each.textContent.trim(), each.matches("nav a") ? "page" : "action", () => each.click()]);
}

/** Mail that holds the words, and what its row says. */
async function mails(words) {
  const answer = await fetch(`/?status=all&q=${encodeURIComponent(words)}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...page.querySelectorAll(".inbox a.row")].slice(0, MOST).map((row) => [row.querySelector(".who").textContent.trim(), "mail", () => go(row.getAttribute("href"))]);
}

function show(found) {
  const list = dialog.querySelector("ul");
  list.replaceChildren(
    ...found.slice(0, 2 * MOST).map(([name, kind, act]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "plain" });
      button.append(name, Object.assign(document.createElement("small"), { textContent: kind }));
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
  const near = actions().filter(([name]) => name.toLowerCase().includes(words.toLowerCase()));
  show(near);
  clearTimeout(timer);
  if (words.length < 2) return;
  timer = setTimeout(async () => {
    const found = await mails(words).catch(() => []);
    if (dialog.querySelector("input").value === words) show([...near, ...found]);
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
