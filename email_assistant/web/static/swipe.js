// A finger drawn to the right over an open card presses its first answer, which can be taken back like any; over a row
// it opens the card, since a row doesn't show what would be done.

import { isTyped } from "./edit.js";

const EDGE = 24; // pixels at the screen's side, where a finger means the browser's own way back
const FAR = 0.5; // of the card's width
const STEEP = 0.4; // of the way to the side, up or down: then it scrolls

/** The button that a swipe over the card would press, if it may: what is marked, or typed at, is looked at and pressed. */
function buttonOf(card) {
  if (isTyped(card) || card.querySelector(".notice.bad, mark, details.panel[open]")) return null;
  return card.querySelector('.bar [value="accept"]:not(:disabled)');
}

function start(touch, target) {
  if (touch.clientX < EDGE || target.closest("input, textarea:focus, select, summary, pre, .scroll")) return null;
  const row = target.closest(".rows > li");
  if (row) return { place: row, press: row.querySelector("a.row"), x: touch.clientX, y: touch.clientY };
  const card = target.closest(".proposal");
  const press = card && buttonOf(card);
  return press ? { place: card, press, x: touch.clientX, y: touch.clientY } : null;
}

/** How far the finger has come, as a part of what is needed; 0 where it goes elsewhere. */
function far({ place, x, y }, touch) {
  const [right, down] = [touch.clientX - x, Math.abs(touch.clientY - y)];
  return right > 0 && down < STEEP * right ? right / (FAR * place.clientWidth) : 0;
}

function show(swipe, part) {
  swipe.place.style.translate = part ? `${Math.min(part, 1) * 4}rem` : "";
  swipe.place.toggleAttribute("data-swiped", part >= 1);
}

export function watchSwipes() {
  let swipe = null;
  const end = () => {
    if (swipe) show(swipe, 0);
    swipe = null;
  };
  document.addEventListener("touchstart", (event) => {
    end();
    if (event.touches.length === 1) swipe = start(event.touches[0], event.target);
  }, { passive: true });
  document.addEventListener("touchmove", (event) => {
    if (swipe) show(swipe, event.touches.length === 1 ? far(swipe, event.touches[0]) : 0);
  }, { passive: true });
  document.addEventListener("touchcancel", end);
  document.addEventListener("touchend", (event) => {
    const done = swipe && far(swipe, event.changedTouches[0]) >= 1 && swipe.press.isConnected;
    const { press } = swipe ?? {};
    end();
    if (done) press.click();
  });
}
