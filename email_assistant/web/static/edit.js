// What an edit changes, shown while it is typed, and kept from being lost.

import { compare } from "./diff.js";
import { pressByKey } from "./guard.js";
import { keep } from "./typed.js";

const typedIn = (root) =>
  [...root.querySelectorAll("[data-proposed], textarea")].filter((field) => field.value !== (field.dataset.proposed ?? field.defaultValue));

/** Whether something was typed within `root`. */
export function isTyped(root = document) {
  return typedIn(root).length > 0;
}

/** Whether something typed on this page is kept nowhere else. */
export function wouldBeLost() {
  return typedIn(document).some((field) => !field.closest("[data-kept]"));
}

// Marks that reorder the text around them; the server leaves them out too, wherever it shows text.
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g;

function show(field) {
  const place = document.querySelector(`[data-diff="${CSS.escape(field.id)}"]`);
  const before = field.dataset.proposed;
  (place.closest(".changes") ?? place).hidden = before === field.value;
  place.replaceChildren(
    ...compare(before, field.value).map(([kind, text]) => {
      const piece = document.createElement(kind === "gone" ? "del" : kind === "new" ? "ins" : "span");
      piece.textContent = text.replace(REORDERING, "");
      return piece;
    }),
  );
}

function showWhetherChanged(form) {
  const changed = [...form.querySelectorAll("[data-proposed]")].some((field) => field.value !== field.dataset.proposed);
  const unread = "unread" in form.dataset;
  form.querySelector("[data-dirty]").hidden = !changed;
  const accept = form.querySelector('[value="accept"]');
  if (accept) accept.disabled = changed || unread;
  const edit = form.querySelector('.bar > [value="edit"]');
  if (!edit) return;
  edit.disabled = !changed || unread;
  edit.parentElement.dataset.changed = changed;
}

/** Watch the forms of what was put in. */
export function beginEdit(root) {
  const forms = [...root.querySelectorAll("form[data-answer]")];
  for (const form of forms) {
    form.addEventListener("read", () => showWhetherChanged(form));
    showWhetherChanged(form);
  }
  for (const field of root.querySelectorAll(GROWING)) grow(field);
}

const GROWING = ".written, .refine textarea";

/** All of a letter is in sight, where the style alone can't see to that. */
function grow(field) {
  if (CSS.supports("field-sizing", "content")) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}

/** The head of a letter says what stands in its fields. */
function showInHead(field) {
  const place = document.querySelector(`[data-shows="${CSS.escape(field.id)}"]`);
  if (!place) return;
  const isNew = new Set(place.dataset.new.split(" "));
  const pieces = field.value.split(/(,\s*)/).map((text) => {
    const address = text.match(/<([^>]*)>/)?.[1] ?? text.trim();
    return isNew.has(address.toLowerCase()) ? [`${text} `, Object.assign(document.createElement("mark"), { textContent: "new" })] : [text];
  });
  place.replaceChildren(...pieces.flat());
}

/** The button says what it does without the parts that are left out. */
function sayWhatIsDone(form) {
  const parts = [...form.querySelectorAll("[data-does]")].filter((part) => !part.querySelector("[data-strike]:checked"));
  const said = [...new Set(parts.map((part) => part.dataset.does))].join(" and ") || "Leave all out";
  const name = said[0] + said.slice(1).toLowerCase();
  for (const [value, text] of [["accept", name], ["edit", `${name}, as changed`]]) {
    const button = form.querySelector(`.bar [value="${value}"]`);
    if (button) button.textContent = text;
  }
}

/** Press what sends that which stands at `target`: the words for the assistant, else the card; whether there is any. */
export function send(target) {
  const says = target.closest("[data-says]")?.querySelector('[value$="response"]');
  const button = says ?? document.querySelector(".bar > .main:not(:disabled)");
  if (button) pressByKey(button);
  return Boolean(button);
}

/** Go to where one says what should be different. */
export function say() {
  const field = document.getElementById("response");
  if (field) openField(field);
  return Boolean(field);
}

/** Open the panel that a field stands in, and go there. */
export function openField(field) {
  const panel = field.closest("details");
  if (panel) panel.open = true;
  field.focus();
  if (field.setSelectionRange && field.type !== "number" && field.type !== "datetime-local") {
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

function openByLink(event) {
  const field = document.getElementById(decodeURIComponent(event.target.hash.slice(1)));
  if (!field) return;
  event.preventDefault();
  openField(field);
}

export function watchEdit() {
  let sending = false;
  document.addEventListener("submit", (event) => (sending = !event.defaultPrevented));
  window.addEventListener("beforeunload", (event) => {
    if (!sending && wouldBeLost()) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("#to-change")) openByLink(event);
  });
  document.addEventListener("input", (event) => {
    if (event.detail !== "kept") keep(event.target);
    if (event.target.matches("[data-strike]")) sayWhatIsDone(event.target.form);
    if (event.target.matches(GROWING)) grow(event.target);
    if (!event.target.matches("[data-proposed]")) return;
    show(event.target);
    showInHead(event.target);
    showWhetherChanged(event.target.form);
  });
  beginEdit(document);
}
