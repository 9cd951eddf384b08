// Where `g` and a letter lead, and how one gets anywhere.

const PLACES = { i: "/", m: "/mails", r: "/memory", a: "/activity", b: "/accounts", c: "/chat" };

export function go(address) {
  const link = document.querySelector(`nav a[href="${CSS.escape(address)}"]`);
  if (link) link.click();
  else location.assign(address);
}

/** Whether a letter after `g` leads somewhere. */
export function goTo(letter) {
  if (!Object.hasOwn(PLACES, letter)) return false;
  location.assign(PLACES[letter]);
  return true;
}
