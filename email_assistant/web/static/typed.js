// What was typed into a card, and which parts are left out, kept in this browser until the answer is taken. What one
// window writes, others show too. A request in a chat and other fields that stand alone are kept likewise, each by itself.

const KEPT = "typed:"; // then the item's id, and which asking of it was on the screen
const DAY = 24 * 60 * 60 * 1000;
const MOST_DAYS = 30;
const MOST_CARDS = 50;
const MOST_CHARACTERS = 50_000;
const TOO_LONG = "Too long to be kept here: send it, or copy it, before you leave this page.";
const LETTER = /(^|:)(arg\.response_text|response)$/; // goes to the assistant with what is said to it

const CARD = "form[data-answer]:not([data-chat])";
const parts = (root) => [...root.querySelectorAll(`${CARD} section[data-item]`)];
const placesOf = (part) => [...part.closest("form").querySelectorAll(`[data-item="${part.dataset.item}"]`)];
const keyOf = (part) => `${KEPT}${part.dataset.item}:${part.dataset.shown}`;
const FIELDS = 'textarea, [data-strike], input:not([type="hidden"], [type="checkbox"], [type="password"])';
const fieldsOf = (part) => placesOf(part).flatMap((place) => [...place.querySelectorAll(FIELDS)]);
const nameOf = (field) => field.name.slice(field.name.lastIndexOf(":") + 1);
const asServed = (field) => field.dataset.proposed ?? "";
const isStrike = (field) => field.type === "checkbox";
const valueOf = (field) => (isStrike(field) && !field.checked ? "" : field.value);
const ALONE = "[data-keep]";
const aloneKey = (field) => `${KEPT}${location.pathname}:${field.dataset.keep}`;
const keys = () => Object.keys(localStorage).filter((key) => key.startsWith(KEPT));
const read = (key) => JSON.parse(localStorage.getItem(key) ?? "null");

/** What differs from what was proposed, by field. */
function typedIn(part) {
  return Object.fromEntries(fieldsOf(part).filter((field) => valueOf(field) !== asServed(field)).map((field) => [nameOf(field), valueOf(field)]));
}

/** Whether it could be kept; undefined: it is too long. */
function write(key, fields, more = {}) {
  const text = JSON.stringify({ at: Date.now(), fields, ...more });
  if (!Object.keys(fields).length) localStorage.removeItem(key);
  else if (text.length > MOST_CHARACTERS) return void localStorage.removeItem(key); // no older version comes back for it
  else localStorage.setItem(key, text);
  return true;
}

/** Keep what stands in a part of a card. Where that can't be done, whoever leaves the page is asked. */
export function keep(field) {
  if (field.matches(ALONE)) return keepAlone(field);
  const part = parts(document).find((each) => placesOf(each).some((place) => place.contains(field)));
  if (!part) return;
  let isKept = false;
  try {
    isKept = write(keyOf(part), typedIn(part));
  } catch {
    // no room, or none for this page
  }
  for (const place of placesOf(part)) place.toggleAttribute("data-kept", Boolean(isKept));
  const said = document.getElementById("too-long");
  if (isKept !== undefined) said?.remove();
  else if (!said) field.after(Object.assign(document.createElement("p"), { id: "too-long", className: "notice bad", role: "alert", textContent: TOO_LONG }));
}

function keepAlone(field) {
  let isKept = false;
  try {
    isKept = write(aloneKey(field), field.value === field.defaultValue ? {} : { [field.name]: field.value });
  } catch {
    // no room, or none for this page
  }
  field.toggleAttribute("data-kept", Boolean(isKept));
}

/** Keep no more of the fields that stand alone in a form, which was taken. */
export function dropAlone(form) {
  try {
    for (const field of form.querySelectorAll(ALONE)) localStorage.removeItem(aloneKey(field));
  } catch {
    // This browser keeps nothing for this page.
  }
}

/** What the server gave back stands before what is kept here. */
function restoreAlone(field) {
  const kept = read(aloneKey(field));
  if (!kept || field.value !== field.defaultValue) return;
  field.value = kept.fields[field.name];
  field.toggleAttribute("data-kept", true);
  field.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: "kept" }));
}

/** Put kept texts into the fields of a part; those that are not named stand as proposed. It is not kept anew: another
    window would be told of that, and two windows would answer each other without an end. */
function fill(part, fields) {
  for (const field of fieldsOf(part)) {
    const value = fields[nameOf(field)] ?? asServed(field);
    if (isStrike(field)) field.checked = value;
    else field.value = value;
    field.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: "kept" }));
  }
  for (const place of placesOf(part)) place.toggleAttribute("data-kept", true);
}

function button(name, press) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: name });
  made.addEventListener("click", press);
  return made;
}

/** Show what was typed at another time, to be used or forgotten; it is never put in by itself. What was left out of
    another proposal says nothing about this one. */
function offer(place, key, use) {
  const texts = Object.entries(read(key).fields).filter(([name]) => name !== "strike");
  if (!texts.length) return localStorage.removeItem(key);
  const box = Object.assign(document.createElement("div"), { className: "notice written-before" });
  box.append(Object.assign(document.createElement("p"), { textContent: "You had written:" }));
  for (const [name, text] of texts) {
    const said = LETTER.test(name) ? text : `${name.replace("arg.", "").replaceAll("_", " ")}: ${text}`;
    const quote = Object.assign(document.createElement("blockquote"), { textContent: said });
    quote.dir = "auto";
    box.append(quote);
  }
  const over = () => {
    localStorage.removeItem(key);
    box.remove();
  };
  const row = Object.assign(document.createElement("p"), { className: "buttons" });
  if (use) {
    row.append(button("Use it", () => {
      use(Object.fromEntries(texts));
      over();
    }));
  }
  row.append(button("Forget it", over));
  box.append(row);
  place.prepend(box);
}

function of(item) {
  return keys().filter((key) => key.startsWith(`${KEPT}${item}:`));
}

function restore(part) {
  const own = keyOf(part);
  for (const box of part.querySelectorAll(".written-before")) box.remove();
  const kept = read(own);
  if (kept) fill(part, kept.fields);
  for (const item of [part.dataset.item, part.dataset.before].filter(Boolean)) {
    for (const key of of(item)) {
      if (key !== own) offer(part, key, (fields) => write(own, fields) && fill(part, fields));
    }
  }
}

/** What stands here goes with the answer, which whatever is typed after it does not, nor anything with a dismissal. */
function markSent(form, answer) {
  for (const part of parts(form)) write(keyOf(part), typedIn(part), { sent: !["ignore", "done"].includes(answer) });
}

/** The answer was taken. What can't go to the assistant with it waits for its next proposal; what did not go stays. */
function taken(item) {
  for (const key of of(item).filter((each) => read(each).sent)) {
    const rest = Object.entries(read(key).fields).filter(([name]) => !LETTER.test(name));
    write(key, document.querySelector(".anew") ? Object.fromEntries(rest) : {});
  }
}

function sweep() {
  const kept = keys().map((key) => [key, read(key)?.at ?? 0]).sort((a, b) => b[1] - a[1]);
  for (const [index, [key, at]] of kept.entries()) {
    if (index >= MOST_CARDS || Date.now() - at > MOST_DAYS * DAY) localStorage.removeItem(key);
  }
}

export function forgetAll() {
  for (const key of keys()) localStorage.removeItem(key);
}

/** Keep no more of what has been answered. */
export function forgetTaken() {
  try {
    for (const each of document.querySelectorAll("#results [data-taken]")) taken(each.dataset.taken);
  } catch {
    // This browser keeps nothing for this page.
  }
}

/** Put in again what was typed into what was put on the page. */
export function restoreTyped(root = document) {
  forgetTaken();
  try {
    for (const part of parts(root)) restore(part);
    for (const field of root.querySelectorAll(ALONE)) restoreAlone(field);
    for (const place of root.querySelectorAll("[data-written]")) {
      for (const key of of(place.dataset.written)) offer(place, key);
    }
  } catch {
    // This browser keeps nothing for this page.
  }
}

export function watchTyped() {
  try {
    sweep();
  } catch {
    return;
  }
  window.addEventListener("storage", (event) => {
    const part = parts(document).find((each) => keyOf(each) === event.key);
    if (!part) return;
    const written = JSON.parse(event.newValue);
    if (written) return "sent" in written || fill(part, written.fields);
    // It was answered there, taken back, or forgotten at log-out: what stands here stays, and is kept no more.
    for (const place of placesOf(part)) place.toggleAttribute("data-kept", false);
    document.dispatchEvent(new Event("forgotten"));
  });
  document.addEventListener("submit", ({ target, submitter }) => {
    if (target.getAttribute("action") === "/logout") forgetAll();
    if (target.matches(CARD)) markSent(target, submitter?.value);
    if (!target.matches("[data-chat]")) dropAlone(target);
  }, { capture: true }); // before what leads on from the card
  document.addEventListener("click", (event) => {
    if (!event.target.matches("[data-take-back]")) return;
    for (const part of parts(document)) localStorage.removeItem(keyOf(part));
  });
  restoreTyped();
}
