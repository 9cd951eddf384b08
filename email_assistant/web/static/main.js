// What the pages gain from scripts. Everything here is also there without them, as forms and links.

import { watchBadge } from "./badge.js";
import { watchDay } from "./day.js";
import { watchEdit } from "./edit.js";
import { watchKeys } from "./keys.js";
import { watchList } from "./list.js";
import { watchServer } from "./live.js";
import { watchSwipes } from "./swipe.js";
import { countDown } from "./undo.js";

watchServer(); // first: it remembers the page as it was served
watchList();
watchEdit();
watchDay();
countDown(document);
watchKeys();
watchSwipes();
if ("setAppBadge" in navigator || "serviceWorker" in navigator) watchBadge();
if (document.querySelector("[data-chat]")) import("./chat.js");
if (document.querySelector("[data-push]")) import("./push.js");
