// Keeps a slip of the hand from deciding: what is pressed again at once was meant for what stood there before, and what
// came by itself has not been read yet.

/** Milliseconds in which a press is a slip. */
export const SLIP = 600;

let isKey = false;
let pointed = -SLIP;
let changed = -SLIP;
let shown = -SLIP;

/** Press a button for a key, whose own slips are known where keys are heard. */
export function pressByKey(button) {
  isKey = true;
  button.click();
  isKey = false;
}

/** What is on the screen has changed, and nobody asked for that. */
export function changedByItself() {
  changed = performance.now();
}

/** Another card stands where one was answered, or left. */
export function cardShown() {
  shown = performance.now();
}

/** Whether the press that sends an answer is a slip; else it is remembered. Nothing is approved before it can be seen. */
export function isSlip(approves) {
  const now = performance.now();
  if (now - changed < SLIP || (approves && now - shown < SLIP) || (!isKey && now - pointed < SLIP)) return true;
  if (!isKey) pointed = now;
  return false;
}
