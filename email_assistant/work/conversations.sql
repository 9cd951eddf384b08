-- Where a conversation stands, for `conversations.py`.

-- name: foremost
select m.gmail_id from mails m
where m.thread_id = t.id and not m.own and m.state in ('triaging', 'waiting')
  and m.classification in ('notify', 'respond')
  and not exists (select from runs r where r.thread_id = m.thread_id and r.state = 'waiting' and {beside})
order by m.classification = 'respond' desc, m.received_at desc, m.gmail_id desc limit 1

-- name: load
-- One statement, so that the mails are those up to the account's cursor (`sync.mailbox.Mailboxes.sync_thread`).
select t.gmail_id, t.drafted, t.complete, ({foremost}) as foremost,
       array(select distinct e.state from effects e where e.thread_id = t.id) as effects,
       exists (select from left_drafts d where d.account_id = t.account_id and d.thread_id = t.id
               and d.state <> 'gone') as has_left_drafts,
       exists (select from runs r where r.thread_id = t.id
               and r.state in ('running', 'waiting', 'acting')) as has_open_runs,
       (select r.id from runs r join mails m on m.account_id = r.account_id and m.gmail_id = r.closed_with
        where r.thread_id = t.id and m.put_away is null
        order by m.classification = 'respond' desc, r.created_at desc limit 1) as back,
       coalesce((select jsonb_agg(jsonb_build_object(
               'gmail_id', m.gmail_id, 'own', m.own, 'state', m.state, 'classification', m.classification,
               'run_id', m.run_id, 'received_at', m.received_at, 'put_away', m.put_away,
               'by_program', m.own and (m.content->'auto_submitted' = 'true') is true,
               'runs', (select count(*) from runs r where r.thread_id = m.thread_id and r.mail_id = m.gmail_id)
           ) order by m.received_at, m.gmail_id) from mails m where m.thread_id = t.id), '[]') as mails,
       case when exists (select from mails m where m.thread_id = t.id and m.state = 'new') then (
           select json_agg(json_build_object('gmail_id', m.gmail_id, 'own', m.own, 'content', m.content)
                           order by m.received_at, m.gmail_id) from mails m where m.thread_id = t.id) end as letters,
       {account}
from threads t join accounts a on a.id = t.account_id
where t.id = %s and a.state = 'active' and a.provider = %s
