// Shows what the assistant sends, also while no page is open.

const ICON = "/static/icon-192.png";

self.addEventListener("push", (event) => event.waitUntil(tell(event.data.json())));
self.addEventListener("message", (event) => event.waitUntil(takeAway()));

self.addEventListener("notificationclick", (event) => {
  const { notification, action } = event;
  notification.close();
  const { url, send, undo } = notification.data ?? {};
  if (action === "send" && send) event.waitUntil(accept(notification, send));
  else if (action === "undo" && undo) event.waitUntil(takeBack(notification, undo));
  else event.waitUntil(open(url ?? "/"));
});

async function tell({ waiting, notices }) {
  await takeAway();
  await self.navigator.setAppBadge?.(waiting);
  await Promise.all(notices.map(({ title, ...more }) => show(title, { ...more, renotify: true })));
}

function show(title, { body, tag, url, send, undo, renotify = false }) {
  const actions = [];
  if (send) actions.push({ action: "send", title: "Send" });
  if (undo) actions.push({ action: "undo", title: "Undo" });
  actions.push({ action: "open", title: "Open" });
  return self.registration.showNotification(title, {
    ...{ body, tag, renotify, actions, icon: ICON },
    data: { url, send, undo },
  });
}

/** Take away the notices of what waits no more: it was answered elsewhere, or something else took its place. */
async function takeAway() {
  const shown = await self.registration.getNotifications();
  await Promise.all(
    shown.map(async (notification) => {
      const { url, undo } = notification.data ?? {};
      if (!url?.startsWith("/items/") || undo) return;
      const item = await asked(`/api/inbox/${url.slice("/items/".length)}`).catch(() => undefined);
      if (item?.status === 404 || (item?.status === 200 && item.body.status !== "pending")) notification.close();
    }),
  );
}

/** Accept a letter that the notice shows whole: the server takes it only if it is still word for word what was shown. */
async function accept({ title, tag, data: { url } }, { id, hash }) {
  const answers = [{ id, hash, type: "accept" }];
  const given = await asked("/api/inbox/decisions", { answers }).catch(() => undefined);
  const result = given?.body?.items?.[0];
  if (result?.status === 200) {
    const seconds = Math.round((new Date(result.item.undo_until) - Date.now()) / 1000);
    const when = seconds > 0 ? `It goes out in ${seconds} s.` : "It goes out now.";
    return show(`Sending. ${title}`, { body: result.item.notice ?? when, tag, url, undo: seconds > 0 ? id : undefined });
  }
  const why = result?.detail ?? given?.body?.detail ?? "The assistant can't be reached.";
  return show(`Not sent. ${title}`, { body: `${why} Open it to look again.`, tag, url });
}

async function takeBack({ title, tag, data: { url } }, id) {
  const given = await asked(`/api/inbox/${id}/undo`, {}).catch(() => undefined);
  const body = given?.status === 200 ? "Taken back; it waits for you again." : given?.body?.detail ?? "It could not be taken back.";
  return show(title.replace(/^Sending\. /, ""), { body, tag, url });
}

async function asked(path, body) {
  const more = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, { credentials: "same-origin", ...more });
  return { status: answer.status, body: await answer.json().catch(() => undefined) };
}

/** Where the page is open already, there; nothing that is typed elsewhere is left for it. */
async function open(url) {
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = pages.find((page) => new URL(page.url).pathname === url);
  await (there ? there.focus() : self.clients.openWindow(url));
}
