-- Where an effect was to be done when it was begun, or when the person was asked about it last.

alter table effects add column place text;  -- null: an older version did not keep it
