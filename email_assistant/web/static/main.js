// What the pages gain from scripts. Everything here is also there without them, as forms and links.

import { watchBadge } from "./badge.js";
import { watchDay } from "./day.js";
import { beginEdit, watchEdit } from "./edit.js";
import { watchKeys } from "./keys.js";
import { watchList } from "./list.js";
import { keepAsServed, watchServer } from "./live.js";
import { watchReading } from "./reading.js";
import { onArrival, watchWays } from "./swap.js";
import { watchSwipes } from "./swipe.js";
import { restoreTyped, watchTyped } from "./typed.js";
import { countDown } from "./undo.js";

watchServer(); // first: it remembers the page as it was served
watchList();
watchReading();
watchEdit();
watchTyped();
watchDay();
countDown(document);
watchKeys();
watchSwipes();
if ("setAppBadge" in navigator || "serviceWorker" in navigator) watchBadge();
watchWays();
for (const step of [keepAsServed, watchList, watchReading, beginEdit, restoreTyped, watchDay, countDown]) onArrival(step);
if (document.querySelector("[data-chat]")) import("./chat.js");
if (document.querySelector("[data-push]")) import("/notices.js"); // a feature's, where it is installed
