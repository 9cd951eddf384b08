// The button that turns notices in this browser on and off.
//
//   <p data-push hidden><button type="button" aria-pressed="false">Tell me in this browser</button>
//   <span role="status"></span></p>
//
// It stays hidden where a browser has no web push, as it does over http on any machine but this one.

import { soon } from "/static/live.js";

const place = document.querySelector("[data-push]");

if (place && "serviceWorker" in navigator && "PushManager" in window) start(place);

async function start(place) {
  const button = place.querySelector("button");
  const said = place.querySelector("[role=status]");
  const worker = await navigator.serviceWorker.register("/service-worker.js");
  const known = await worker.pushManager.getSubscription();
  show(button, known && (await isTold(known)));
  place.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    said.textContent = "";
    try {
      const current = await worker.pushManager.getSubscription();
      show(button, current && (await isTold(current)) ? await turnOff(current) : await turnOn(worker));
      soon();
    } catch (error) {
      said.textContent = Notification.permission === "denied" ? "This browser does not allow notices from here." : error.message;
    }
    button.disabled = false;
  });
}

function show(button, subscription) {
  button.setAttribute("aria-pressed", String(Boolean(subscription)));
}

/** Whether the server still tells this browser: it stops when the browser is logged out, which the browser never hears. */
async function isTold({ endpoint }) {
  return (await (await send("GET", `/api/push?${new URLSearchParams({ endpoint })}`)).json()).is_told;
}

async function turnOn(worker) {
  await navigator.serviceWorker.ready;
  const { public_key: applicationServerKey } = await (await send("GET", "/api/push")).json();
  const subscription = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  try {
    await send("POST", "/api/push/subscribe", subscription);
  } catch (error) {
    await subscription.unsubscribe();
    throw error;
  }
  return subscription;
}

async function turnOff(subscription) {
  await send("POST", "/api/push/unsubscribe", { endpoint: subscription.endpoint });
  await subscription.unsubscribe();
  return null;
}

async function send(method, path, body) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`The assistant answers ${answer.status}.`);
  return answer;
}
