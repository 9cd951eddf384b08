// What an edit changes, shown while it is typed, and kept from being lost.

import { compare } from "./diff.js";

/** Whether something typed on this page, within `root`, would be lost with it. */
export function isTyped(root = document) {
  const changed = [...root.querySelectorAll("[data-proposed]")].some((field) => field.value !== field.dataset.proposed);
  return changed || [...root.querySelectorAll("textarea:not([data-proposed])")].some((field) => field.value !== field.defaultValue);
}

// Marks that reorder the text around them; the server leaves them out too, wherever it shows text.
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g;

function show(field) {
  const place = document.querySelector(`[data-diff="${CSS.escape(field.id)}"]`);
  const before = field.dataset.proposed;
  place.hidden = before === field.value;
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
  form.querySelector("[data-dirty]").hidden = !changed;
  const accept = form.querySelector('[value="accept"]');
  if (accept) accept.disabled = changed || "unread" in form.dataset;
}

/** Watch the forms of what was put in. */
export function beginEdit(root) {
  const forms = [...root.querySelectorAll("form[data-answer]")];
  for (const form of forms) {
    form.addEventListener("read", () => showWhetherChanged(form));
    showWhetherChanged(form);
  }
}

/** The button says what it does without the parts that are left out. */
function sayWhatIsDone(form) {
  const parts = [...form.querySelectorAll("[data-does]")].filter((part) => !part.querySelector("[data-strike]:checked"));
  const said = [...new Set(parts.map((part) => part.dataset.does))].join(" and ") || "Leave all out";
  const accept = form.querySelector('.bar [value="accept"]');
  if (accept) accept.textContent = said[0] + said.slice(1).toLowerCase();
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
    if (!sending && isTyped()) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("#to-change")) openByLink(event);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-strike]")) sayWhatIsDone(event.target.form);
  });
  document.addEventListener("input", (event) => {
    if (!event.target.matches("[data-proposed]")) return;
    show(event.target);
    showWhetherChanged(event.target.form);
  });
  beginEdit(document);
}
