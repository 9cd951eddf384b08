// Answers on their way to the server: one after another, in the order in which they were given.

const underWay = new Map();
let last = Promise.resolve();

/** The items that were answered here and have not come back: what is open of them elsewhere is out of date. */
export const given = new Set();

export const itemIn = (address) => /\/items\/([0-9a-f-]{36})/.exec(address)?.[1];

async function send(address, fields) {
  const found = await fetch(address, { method: "POST", body: fields });
  return [found, new DOMParser().parseFromString(await found.text(), "text/html")];
}

/** Send a form after those before it. Returns the answer and the page that it leads to; rejects if there was none. */
export function post(address, fields) {
  const outcome = last.then(() => send(address, fields));
  underWay.set(outcome, [address, fields]);
  document.body.dataset.sending = "";
  const end = () => {
    underWay.delete(outcome);
    if (!underWay.size) delete document.body.dataset.sending;
  };
  last = outcome.then(end, end);
  return outcome;
}

/** Until the server has said what became of all that was sent by now. */
export const settled = () => last;

// What is under way ends with its page. It is sent once more: the repeat of an answer that was taken changes nothing,
// but after it was taken back it would give it anew; so beside an undo only that is sent.
addEventListener("pagehide", () => {
  const sent = [...underWay.values()];
  const undone = sent.filter(([address]) => address.split("?")[0].endsWith("/undo"));
  for (const [address, fields] of undone.length ? undone : sent) navigator.sendBeacon(address, fields);
});
