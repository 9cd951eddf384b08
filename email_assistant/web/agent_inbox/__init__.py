"""What the public Agent Inbox web app (github.com/langchain-ai/agent-inbox) asks of a server, over our own items.

A thread of this API is a run, and shows the oldest item in it that waits. The thread's id is all that an answer says of
what it answers, and the app's client posts an answer again when the connection drops, so that one click could approve
what nobody has seen. These rules keep it from that:

1. An answer goes to the item that was *last served* for its thread to the client that sends it: never to whatever
   waits by then. That is kept in the database, so it holds for any number of API processes. A client is told by its
   address and its `User-Agent`, for the app sends nothing better; one that is not known (its address changed) counts as
   the one that was served last. Where nothing was served, nothing can be answered. So a repeat finds its own item
   answered, even if the next one has appeared meanwhile: it does nothing, and is told the same as the first.
2. The next item may have been served by the time of the repeat, to another tab or by a reload of the list. So an answer
   that approves (accept, edit) is remembered word for word, before it is taken, with the item that it is for. The same
   words go to the same item for good, and once they were taken they are never taken again, not even where the person
   has taken the answer back, or where what waits now looks the same.
3. An accept from the app holds the action that its person saw. If that is not the item's, it is refused: a tab that was
   left open approves nothing newer.

What remains: an *ignore* or a *response* says too little to tell a repeat by, once the next item was served, and then
counts for that one, since a person may well say the same twice. It approves nothing.
"""
