// Has an open page of agents fetched anew when one of them asks, or hears an answer.

new EventSource("/events").addEventListener("message", () => document.dispatchEvent(new Event("forgotten")));
