CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS codes (
    code TEXT PRIMARY KEY,
    expires REAL NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,        -- PKCE, method S256
    scope TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grants (refresh_token TEXT PRIMARY KEY, scope TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bearers (
    token TEXT PRIMARY KEY,
    expires REAL NOT NULL,
    refresh_token TEXT NOT NULL REFERENCES grants ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS messages (
    id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL,
    identity TEXT NOT NULL,         -- Message-ID without its brackets, or sha256:<hex> of the bytes
    internal_date INTEGER NOT NULL, -- milliseconds since 1970
    history_id INTEGER NOT NULL,
    snippet TEXT NOT NULL,
    has_attachment INTEGER NOT NULL,
    raw BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_newest ON messages (internal_date DESC, id DESC);
CREATE INDEX IF NOT EXISTS messages_thread ON messages (thread_id, internal_date);
CREATE INDEX IF NOT EXISTS messages_identity ON messages (identity);

CREATE TABLE IF NOT EXISTS search_texts (
    message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    cc TEXT NOT NULL,
    bcc TEXT NOT NULL,
    subject TEXT NOT NULL,
    anywhere TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS labels (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    search_name TEXT NOT NULL,      -- as people write it after label:
    type TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message_labels (
    message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    label_id TEXT NOT NULL REFERENCES labels (id),
    PRIMARY KEY (message_id, label_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS message_labels_label ON message_labels (label_id, message_id);

CREATE TABLE IF NOT EXISTS aliases (
    address TEXT PRIMARY KEY,       -- in lower case
    name TEXT NOT NULL,
    signature TEXT NOT NULL,        -- HTML
    verified INTEGER NOT NULL,
    chosen INTEGER NOT NULL         -- what new mail goes from; the mailbox's own address if none is
);

CREATE TABLE IF NOT EXISTS drafts (
    id TEXT PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE REFERENCES messages (id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS history (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,             -- messagesAdded | messagesDeleted | labelsAdded | labelsRemoved
    message_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    message_labels TEXT NOT NULL,   -- JSON list: the message's labels after the change
    changed_labels TEXT NOT NULL,   -- JSON list: the labels that were added or removed
    happened REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS history_happened ON history (happened);

CREATE TABLE IF NOT EXISTS calendars (
    id TEXT PRIMARY KEY,            -- those beside the primary one
    summary TEXT NOT NULL,
    zone TEXT NOT NULL,
    selected INTEGER NOT NULL,
    hidden INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    calendar TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    starts REAL NOT NULL,           -- seconds since 1970
    ends REAL NOT NULL,
    updated TEXT NOT NULL,
    body TEXT NOT NULL,             -- the resource, as JSON
    PRIMARY KEY (calendar, id)
);
CREATE INDEX IF NOT EXISTS events_time ON events (calendar, starts, ends);

CREATE TABLE IF NOT EXISTS deliveries (
    name TEXT PRIMARY KEY,          -- what arrives; once ever
    due REAL NOT NULL,              -- seconds since 1970
    delivered INTEGER NOT NULL DEFAULT 0,
    in_reply_to TEXT                -- id of the message that it answers
) WITHOUT ROWID;
