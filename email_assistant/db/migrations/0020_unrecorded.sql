-- What an account sent between a backup and its restore, which the ledger that was restored does not know.

alter table accounts add column unrecorded_since timestamptz, add column unrecorded_until timestamptz;
