// What acts stays in sight; it is live once the whole of what would be done has been on screen.

let unseen = new Set();

function look() {
  const under = document.querySelector(".bar")?.getBoundingClientRect().top ?? innerHeight;
  const bottom = Math.min(innerHeight, under > 0 ? under : innerHeight);
  for (const end of unseen) {
    if (!end.isConnected || end.getBoundingClientRect().top <= bottom) unseen.delete(end);
  }
  if (unseen.size) return;
  document.removeEventListener("scroll", look, { capture: true });
  const form = document.querySelector("form[data-unread]");
  if (!form) return;
  delete form.dataset.unread;
  form.dispatchEvent(new Event("read"));
}

addEventListener("resize", look);

/** Show more of what has not been on screen; whether there was any. */
export function readOn() {
  if (!document.querySelector("form[data-unread]")) return false;
  scrollBy({ top: innerHeight * 0.6, behavior: "instant" });
  return true;
}

export function watchReading(root = document) {
  const form = root.querySelector("form[data-answer]:not([data-chat])");
  if (!form) return; // what was put in is another part of the page
  unseen = new Set(form.querySelectorAll("[data-end]"));
  if (!unseen.size) return;
  form.dataset.unread = "";
  document.addEventListener("scroll", look, { capture: true, passive: true });
  look();
}
