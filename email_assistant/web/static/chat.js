// Talks to the assistant without leaving the page: what it is at appears as it comes, and what was typed is never lost.

import { refresh } from "./live.js";
import { dropAlone } from "./typed.js";

const STEPS = {
  policy_router: "Thinking…",
  use_tools: "Thinking…",
  plan: "",
};
const WAITS = "It waits for you.";

const by = (id) => document.getElementById(id);

function refuse(text) {
  const place = by("refused");
  place.hidden = !text;
  place.textContent = text;
}

let before; // the newest turn of the chat, as something is sent

function begin(words) {
  refuse("");
  before = by("after").value;
  by("now").hidden = false;
  by("now-asked").textContent = words;
  by("now-asked").hidden = !words;
  by("now-words").textContent = "";
  by("now-calls").replaceChildren();
  by("now-step").textContent = "Working out what it needs…";
  by("now").scrollIntoView({ block: "nearest" });
}

/** Whatever the page may be fetched for, a request stands in it once. */
function leaveToTalk() {
  if (by("after").value !== before) by("now-asked").hidden = true;
}

function show(name, data) {
  if (name === "token") {
    by("now-words").textContent += data.text;
    by("now-step").textContent = "";
  }
  if (name === "step" && data.node in STEPS) by("now-step").textContent = STEPS[data.node];
  if (name === "call") {
    const line = document.createElement("li");
    line.textContent = data.tool_name;
    by("now-calls").append(line);
    by("now-words").textContent = ""; // what was said before a call is no answer
    by("now-step").textContent = "At it…";
  }
  if (name === "progress") by("now-step").textContent = `${data.tool_name}: ${data.text}`;
  by("now").scrollIntoView({ block: "nearest" });
}

/** The events of an answer, one after the other. */
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const found = block.match(/^event: (.*)\ndata: (.*)$/);
      if (found) yield [found[1], JSON.parse(found[2])];
    }
  }
}

function reason(answer) {
  if (answer.status === 401) return "You are logged out; log in again in another tab, then send it here.";
  if (answer.status === 413) return "That is too long to be sent.";
  return `The assistant answers ${answer.status}. What you typed is kept.`;
}

/** Where the chat stands in the end; throws what is to be said instead. */
async function send(form, body) {
  let answer;
  try {
    answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/event-stream" } });
  } catch {
    throw new Error("The connection is lost. What you typed is kept.");
  }
  if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) throw new Error(reason(answer));
  try {
    for await (const [name, data] of events(answer)) {
      if (name === "result") return data;
      show(name, data);
    }
  } catch {
    // The connection broke; what was begun goes on at the other end.
  }
  throw new Error("The connection was lost on the way. What was asked goes on; this page shows what becomes of it.");
}

function say(result) {
  const told = [result.response, result.message].filter(Boolean).join("\n");
  const words = result.code === 200 ? told : result.code === 202 ? WAITS : "";
  by("spoken").textContent = words ?? "";
}

/** Whether it was taken, whatever came of it. */
function isOver(result) {
  return result.code < 300 || result.code === 502;
}

/** Go where the person goes on: to what waits for them, else to the next request. */
function goOn() {
  (document.querySelector("#waits h2") ?? by("request")).focus();
}

async function submit(form, button) {
  const isRequest = form.id === "ask";
  const field = by("request");
  const body = new URLSearchParams(new FormData(form, button));
  const buttons = [...document.querySelectorAll("form[data-chat] button")].filter((each) => !each.disabled);
  for (const each of buttons) each.disabled = true;
  field.readOnly = true;
  begin(isRequest ? field.value.trim() : "");
  try {
    const result = await send(form, body);
    if (isOver(result)) dropAlone(form);
    if (isRequest && result.code < 300) field.value = field.defaultValue = "";
    if (isRequest && location.pathname === "/chat" && isOver(result)) {
      field.value = field.defaultValue;
      return location.assign(form.action);
    }
    if (!isRequest && isOver(result)) form.closest("section").remove();
    await refresh();
    say(result);
    if (result.code >= 400) refuse(`Not done: ${result.message}.`);
    else if (!isRequest) goOn();
  } catch (error) {
    refuse(error.message);
    await refresh();
  } finally {
    for (const each of buttons) each.disabled = false;
    field.readOnly = false;
    by("now").hidden = true;
  }
}

function press(event) {
  const field = event.target;
  if (event.key !== "Enter" || event.isComposing || !field.matches?.("form[data-chat] textarea")) return;
  const isForced = event.ctrlKey || event.metaKey;
  const isRequest = field.id === "request";
  if (!isForced && (!isRequest || event.shiftKey || matchMedia("(pointer: coarse)").matches)) return;
  const button = isRequest ? "button" : field.name === "response" ? '[value="response"]' : '[value="edit"]';
  event.preventDefault();
  const found = field.form.querySelector(button);
  if (!found.disabled) field.form.requestSubmit(found);
}

if (by("ask")) {
  by("sends").hidden = matchMedia("(pointer: coarse)").matches;
  document.addEventListener("keydown", press);
  document.addEventListener("refreshed", leaveToTalk);
  document.addEventListener(
    "submit",
    (event) => {
      if (!event.target.matches("form[data-chat]")) return;
      event.preventDefault();
      submit(event.target, event.submitter);
    },
    { capture: true },
  );
}
