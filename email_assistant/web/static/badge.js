// The number on the icon of an installed inbox; and notices of what waits no more are taken away while a page is open.

async function count() {
  const answer = await fetch("/api/inbox/counts");
  if (!answer.ok) return;
  const { by_status } = await answer.json();
  await (by_status.pending ? navigator.setAppBadge?.(by_status.pending) : navigator.clearAppBadge?.());
}

async function tellWorker() {
  const worker = await navigator.serviceWorker?.getRegistration();
  worker?.active?.postMessage("changed");
}

export function watchBadge() {
  const look = () => Promise.all([count(), tellWorker()]).catch(() => undefined); // the page itself says what is wrong
  document.addEventListener("refreshed", look);
  look();
}
