// Shows what the assistant sends, also while no page is open.

self.addEventListener("push", (event) => {
  const { title, body } = event.data.json();
  event.waitUntil(self.registration.showNotification(title, { body, tag: "waiting", renotify: true }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(openInbox());
});

async function openInbox() {
  const pages = await self.clients.matchAll({ type: "window" });
  const inbox = pages.find((page) => new URL(page.url).pathname === "/");
  await (inbox ? inbox.focus() : self.clients.openWindow("/"));
}
