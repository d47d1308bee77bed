-- The ring: who works, where, on what, and what came of it. Times are microseconds UTC; they never order.
-- What belongs to a project says so in its first column, and its keys begin with it: so that a project's rows can live
-- on a database of their own one day.

create table project (
  id text primary key,
  identity text not null unique,            -- what its checkouts have in common: looked at when one is first opened
  name text not null
);

create table checkout (                     -- where hosts have a project
  project text not null references project(id),
  host text not null,                       -- as its home knows it, so that it lasts over restarts; '' in SQLite
  node text not null default '',            -- the name of its machine
  root text not null,                       -- the directory: all others are stored relative to it
  primary key (project, host)
);
create unique index checkout_root on checkout(host, root);

create table host (                         -- the daemons that share this database; SQLite's has one, which is not listed
  id text primary key,
  node text not null,                       -- the name of its machine
  home text not null,                       -- of which process there is one at a time: by machine, boot and directory
  place text not null,                      -- the same home as `checkout` knows it, over restarts
  pid bigint not null,
  labels text not null,                     -- JSON list: what it has that an agent may require
  version text not null,
  began_at bigint not null,                 -- this and the lease by the database's own clock
  lease_until bigint not null               -- later than this it is dead, unless it says otherwise before somebody looks
);

create table closed_gate (                  -- keys whose provider asked a host to come back later; on PostgreSQL
  key text primary key,                     -- SHA-256 of whose it is and of the key itself
  host text not null,                       -- that was refused
  until_at bigint not null,                 -- by the database's own clock
  refusals bigint not null                  -- in a row
);

create table watch (                        -- where somebody follows what is written; on PostgreSQL
  project text not null,                    -- '' is all of them
  host text not null,
  primary key (project, host)
);

create table waiting_agent (                -- who has work and waits, and for what; on PostgreSQL
  project text not null,
  agent text not null,
  host text not null,                       -- that would run it
  workspace text,                           -- of the work that waits; null is personal context
  name text not null,
  what text not null,
  reason text not null,
  since_at bigint not null,
  until_at bigint,                          -- null when nobody knows
  primary key (project, agent, host)
);

create table agent (
  project text not null references project(id),
  id text not null,
  name text not null,
  home text not null default '',            -- the workspace an inline agent lives in; '' for all others
  kind text not null,                       -- project | inline | ephemeral
  owner text,                               -- the host that runs its loop now
  host text not null default '',            -- of a quick agent: the host that knows it; '' where there is only one
  epoch bigint not null default 0,          -- grows with each claim; (owner, epoch) fences every write of a loop
  state text not null default 'idle',       -- idle | running | stopped | error
  reason text not null default '',          -- why it is stopped or in error
  paused text not null default '',          -- why it takes no work; '' when it does
  ordered bigint not null default 0,        -- instructions ever queued: numbers them
  active_at bigint,
  primary key (project, id),
  unique (project, home, name)
);

create table workspace (
  project text not null references project(id),
  id text not null,
  workflow text not null,
  tag text not null,
  provider text not null,                   -- file | sqlite | memory
  documents text not null,                  -- file | sqlite | copied: in the database, with copies in files
  directory text not null default '',       -- where its files are in the project; '' when it has none
  bound integer not null default 0,
  file text not null default '',            -- the workflow's file, beneath the project: who takes part is read from it after a restart
  given text not null default '{}',         -- JSON: the values it was started with
  ends text not null default 'stop',        -- stop: when told to · quiet: when nobody has anything left to do
  state text not null,                      -- running | left (its host died) | stopped | archived
  owner text,                               -- the host that has it open; null where there is only one
  paused text not null default '',
  document_owner text not null default '',  -- the one member who writes documents; '' when everybody does
  owner_named integer not null default 0,   -- 1: by the workflow's file, so that no vote of agents changes it
  smart_send integer not null default 4096, -- bytes; a longer message becomes a resource
  coordinator text not null default '',     -- elected; '' when nobody is
  desk text not null default '',            -- named by the workflow's file: answers a person who calls on nobody
  granted text not null default '{}',       -- JSON: limits that a proposal has set
  seq bigint not null default 0,            -- the last message's
  cleared bigint not null default 0,        -- up to here a person has put the talk aside
  started_at bigint not null,
  ended_at bigint,
  primary key (project, id)
);
create unique index workspace_name on workspace(project, workflow, tag) where state <> 'archived';

create table member (
  project text not null,
  workspace text not null,
  agent text not null,
  name text not null,
  status text not null default '',
  seen bigint not null default 0,           -- the last seq it was shown
  fruitless integer not null default 0,     -- runs in a row that produced nothing new
  away text not null default '',            -- paused | stopped: a person lets its work here wait
  primary key (project, workspace, agent),
  foreign key (project, workspace) references workspace(project, id),
  foreign key (project, agent) references agent(project, id)
);

create table message (
  project text not null,
  workspace text not null,
  seq bigint not null,
  id text not null,                         -- ours, so unique without an index
  sender text not null,
  kind text not null,                       -- message | system | proposal | decision
  text text not null,
  mentions text not null,                   -- JSON list of names
  resource text,
  reply_to bigint,
  proposal integer,                         -- the number of the one it announces, or whose end it tells
  root text not null,
  hop integer not null,
  run text,
  held integer not null default 0,          -- 1: taken back by a person, so that no agent reads it any more
  at bigint not null,
  primary key (project, workspace, seq)
);

create table delivery (
  project text not null,
  message text not null,
  agent text not null,
  workspace text not null,
  seq bigint not null,
  state text not null,                      -- queued | given | acked | failed | bounced | dead
  run text,
  primary key (project, message, agent)
);
create index delivery_open on delivery(project, agent, workspace, seq) where state in ('queued', 'given');
create index delivery_given on delivery(project, run) where state = 'given';

create table instruction (
  project text not null,
  id text not null,
  work text not null,                       -- the first of a chain of continuations; steps hang on it
  agent text not null,
  workspace text,
  source text not null,                     -- dm | workspace | channel | schedule
  sender text not null,
  lane integer not null,                    -- 0 immediate, 1 normal, 2 background
  ord bigint not null,                      -- place among all instructions of this agent
  text text not null,
  message text,                             -- the message that caused it
  root text not null,
  hop integer not null,
  state text not null,                      -- queued | running | waiting | done | failed | incomplete | cancelled | dead
  run text,                                 -- the run it is part of now, ended in, or goes on in when its model lets it
  attempts integer not null default 0,
  failures integer not null default 0,
  preempted integer not null default 0,
  heard integer not null default 0,         -- 1 once its text is in the thread of its agent
  reason text not null default '',
  queued_at bigint not null,
  not_before bigint not null default 0,
  waits_since bigint,                       -- when it began to wait for its model; null when it does not
  ended_at bigint,
  primary key (project, id),
  foreign key (project, agent) references agent(project, id)
);
create index instruction_queue on instruction(project, agent, lane, ord) where state = 'queued';
create index instruction_age on instruction(project, agent, queued_at) where state = 'queued' and lane > 0;
create index instruction_open on instruction(project, workspace) where state in ('queued', 'running', 'waiting');
create index instruction_waiting on instruction(project, work) where state = 'waiting';
create index instruction_run on instruction(project, run) where run is not null;
create index instruction_chain on instruction(project, work) where work <> id;
create index instruction_past on instruction(project, agent, ord) where ended_at is not null;
create index instruction_ended on instruction(project, workspace, ended_at) where ended_at is not null;

create table run (
  project text not null,
  id text not null,
  instruction text not null,
  agent text not null,
  workspace text,
  root text not null,
  backend text not null default '',
  model text not null default '',
  state text not null,                      -- running | waiting (for its model) | done | failed | incomplete | cancelled | yielded | lost
  tries integer not null default 1,         -- how many times it has begun: once more after each wait for its model
  reason text not null default '',
  blamed integer not null default 1,        -- 0: lost with its host, beside others: nobody knows whose doing it was
  remedy text not null default '',          -- what mends its failure, as data: approve | start | key NAME | install PROGRAM | edit FILE:LINE
  posted integer not null default 0,        -- messages it sent while running
  produced integer not null default 0,      -- stored effects it had
  text text not null default '',
  manifest text not null default '',        -- JSON: the sections of its prompt
  sent text not null default '',            -- JSON: ids of the texts of these and of its tools, and its mark
  held integer not null default 0,          -- 1: what it was told, said and learned was taken back by a person
  outside text not null default '',         -- a tool by which it read what others wrote, or by whom it was passed on; '' for none
  started_at bigint not null,
  ended_at bigint,
  primary key (project, id)
);
create index run_open on run(project, agent) where state = 'running';
create index run_of on run(project, instruction);
create index run_at on run(project, workspace, started_at);

create table step (
  project text not null,
  work text not null,
  n integer not null,
  run text not null,
  reply text not null,                      -- what the model said, as its backend wrote it down
  tokens integer not null default 0,
  micros bigint not null default 0,         -- millionths of a US dollar
  at bigint not null,
  primary key (project, work, n)
);

create table call (
  project text not null,
  work text not null,
  step integer not null,
  id text not null,
  run text not null,
  tool text not null,
  arguments text not null,
  state text not null,                      -- started | done
  ok integer not null default 1,
  result text not null default '',
  images text not null default '',          -- of the result: JSON, each with its kind and its bytes as base64
  at bigint not null,
  done_at bigint,
  primary key (project, work, step, id)
);

create table program_call (                 -- what a coding program did with its own tools: it told, we had no part in it
  project text not null,
  work text not null,
  run text not null,
  n integer not null,                       -- counts the calls of the run
  step integer not null,                    -- at which the run was
  tool text not null,
  arguments text not null,                  -- their beginning
  ok integer not null default 1,
  result text not null default '',          -- its beginning
  at bigint not null,
  done_at bigint,                           -- null: the program never told how it ended
  primary key (project, work, run, n)
);

create table sent_text (                    -- what models were sent: sections of prompts, definitions of tools
  project text not null,
  id text not null,                         -- SHA-256 of the text as it stands here, its first half
  size bigint not null,                     -- characters
  text text not null,
  primary key (project, id)
);

create table sent_use (                     -- whom a text was sent to: it goes with the last of them
  project text not null,
  workspace text not null,                  -- '' is personal
  agent text not null,
  text text not null,                       -- a sent_text
  at bigint not null,                       -- when it was last sent, to the day
  primary key (project, workspace, agent, text)
);
create index sent_use_text on sent_use(project, text);
create index sent_use_at on sent_use(project, at);

create table tally (
  project text not null,
  scope text not null,                      -- root | agent | project | learning (what an agent learned with)
  key text not null,                        -- of the root or the agent; '' for the project
  day text not null,                        -- '' for a root: its money has no day
  runs integer not null default 0,
  tokens bigint not null default 0,
  micros bigint not null default 0,
  estimated bigint not null default 0,      -- of these, how many rest on a guess
  forgiven_runs integer not null default 0, -- what a person granted again
  forgiven_micros bigint not null default 0,
  forgiven_hops integer not null default 0,
  primary key (project, scope, key, day)
);

create table ledger (
  project text not null,
  run text not null,
  id text not null,
  step integer not null,
  agent text not null,
  root text not null,
  model text not null,
  input bigint not null,
  cached bigint not null,
  output bigint not null,
  micros bigint not null,
  estimated integer not null,
  at bigint not null,
  primary key (project, run, id)
);

create table thread (
  project text not null,
  agent text not null,
  context text not null,                    -- a workspace id; '' is personal
  seq bigint not null default 0,
  cleared bigint not null default 0,        -- up to here a person has put it aside: no prompt shows it
  primary key (project, agent, context)
);

create table talk (
  project text not null,
  agent text not null,
  context text not null,
  seq bigint not null,
  who text not null,
  kind text not null,                       -- message | failure
  text text not null,
  run text,
  held integer not null default 0,          -- 1: taken back by a person, so that no prompt shows it any more
  at bigint not null,
  primary key (project, agent, context, seq)
);

create table resource (
  project text not null,
  workspace text not null,
  id text not null,                         -- SHA-256 of the text
  size bigint not null,
  held integer not null default 0,          -- 1: taken back by a person
  text text not null,
  primary key (project, workspace, id)
);

create table document (
  project text not null,
  workspace text not null,
  name text not null,
  n integer not null,                       -- counts its revisions
  revision text not null,                   -- SHA-256 of the text
  base text not null,                       -- the revision it replaced; '' for the first
  author text not null,
  key text not null default '',             -- the tool call that wrote it: made again, it is found again
  filed integer not null,                   -- 0 until its file holds it; 2: kept beside what a person wrote there
  at bigint not null,
  part bigint,                              -- not null: its text is so many characters of the next whole revision
  text text not null,                       -- last, so that a list need not read past it
  primary key (project, workspace, name, n)
);
create index document_unfiled on document(project, workspace) where filed = 0;
create index document_key on document(project, workspace, key) where key <> '';

create table personal_file (                -- files of agents that several hosts share; their copies are on each host
  project text not null,
  agent text not null,
  path text not null,                       -- beneath the agent's folder
  hash text not null,                       -- SHA-256 of the text; '' when the file was removed
  earlier text not null,                    -- how the hashes of earlier texts begin, the oldest first, with spaces
  at bigint not null,
  text text not null,                       -- last, so that a list need not read past it
  primary key (project, agent, path)
);

create table suggestion (                   -- what a member would write in a document that another owns
  project text not null,
  workspace text not null,
  seq bigint not null,                      -- of the message that tells it
  document text not null,
  state text not null,                      -- open | applied | refused
  primary key (project, workspace, seq)
);

create table proposal (
  project text not null,
  id text not null,
  workspace text not null,
  n integer not null,                       -- its number in the workspace: what everybody calls it
  kind text not null,                       -- election | decision | approval | assignment
  question text not null,
  options text not null,                    -- JSON list
  electorate text not null,                 -- JSON: name → agent id, fixed when it was made; user is the person
  resolution text not null,                 -- plurality | majority | unanimous
  quorum integer not null,
  tie_break text not null,                  -- first | random | creator
  fallback text not null,                   -- the option that takes effect when none is chosen; '' for none
  binding integer not null,
  veto integer not null,                    -- 1: its outcome waits for the person, who may stop it
  consented integer not null default 0,     -- 1: the person will not
  effect text not null,                     -- JSON: what a binding outcome changes
  creator text not null,
  message text not null default '',         -- its announcement
  root text not null,
  hop integer not null,
  state text not null,                      -- open | resolved | expired | cancelled | vetoed
  outcome text not null default '',         -- the option that takes effect; '' for none
  reason text not null default '',
  recorded integer not null default 0,      -- 0 until decisions.md has it
  created_at bigint not null,
  expires_at bigint not null,
  ended_at bigint,
  primary key (project, id),
  unique (project, workspace, n)
);
create index proposal_open on proposal(project, workspace) where state = 'open';
create index proposal_due on proposal(expires_at) where state = 'open';
create index proposal_unrecorded on proposal(project, workspace) where recorded = 0 and state <> 'open';

create table vote (
  project text not null,
  proposal text not null,
  workspace text not null,
  voter text not null,
  choice text not null,
  reason text not null,
  at bigint not null,
  primary key (project, proposal, voter)
);

create table inbox_item (
  project text not null,
  id text not null,
  workspace text,
  agent text,
  kind text not null,                       -- mention | question | approval | vote | veto | failure | dead | limit |
                                            -- conflict | space | control | feedback | soul | drift | dispute |
                                            -- sharing | check | held | judge | test
  ref text not null,                        -- what it is about: a message, instruction or document
  text text not null,
  n bigint not null,                        -- what people call it: counts in its project
  details text not null,                    -- JSON: options of a question, tool and arguments of an approval
  digest text not null,                     -- of exactly the call that an approval is about; '' for all others
  state text not null default 'open',       -- open | answered | dismissed
  answer text not null default '',
  at bigint not null,
  primary key (project, id)
);
create unique index inbox_item_number on inbox_item(project, n);
create index inbox_item_open on inbox_item(project) where state = 'open';
create index inbox_item_about on inbox_item(project, ref);

create table audit (
  project text not null,
  n bigint not null,                        -- counts without a gap
  agent text not null,                      -- whose memory it concerns
  who text not null,                        -- who did it: a name, or user
  deed text not null,
  about text not null,
  before text not null,                     -- JSON: what stood there
  salt text not null,                       -- '' once the words went with their agent
  words text not null,                      -- SHA-256 of salt, about and before
  run text not null,
  at bigint not null,
  seal text not null,                       -- SHA-256 over the seal before and this entry, words as their hash
  primary key (project, n)
);
create index audit_of on audit(project, agent, n);
create index audit_run on audit(project, run, deed);

create table examination (                  -- how models that decide small questions answered those we know the answer of
  project text not null,
  judge text not null,                      -- SHA-256 of the model, its address and the papers
  task text not null,                       -- the kind of question
  paper integer not null,
  right_ones integer not null,
  harmful integer not null,                 -- wrong, so that something would have been lost
  at bigint not null,
  primary key (project, judge, task, paper)
);

create table outside_words (                -- sentences that may come from outside our workspaces, wherever they stand
  project text not null,
  mark text not null,                       -- of how a sentence begins: a hash
  words integer not null,                   -- of so many words
  run text not null,                        -- the first that said or wrote it
  primary key (project, mark)
);

create table sealed (                       -- where the audit of a project ends
  project text primary key,
  n bigint not null,
  seal text not null
);

create table event (
  id integer primary key,                   -- grows with each commit: where a stream goes on after a break
  project text not null,
  workspace text,
  seq bigint,                               -- of the message it tells of: its text is there, not here
  record text not null,                     -- JSON
  at bigint not null
);

create table event_count (
  numbered bigint not null                  -- the number of the last event, where several hosts write: on PostgreSQL
);
insert into event_count(numbered) values (0);

create table last_commit (                  -- by which a writer that lost its connection knows; on PostgreSQL
  writer text primary key,                  -- a process with this database open
  number bigint not null,                   -- of its last commit
  at bigint not null                        -- by the database's own clock
);

create table progress (
  id integer primary key,
  commits bigint not null                   -- counted beside the database too: so that a lost log is noticed
);
insert into progress(id, commits) values (1, 0);

create table accepted (
  project text not null,
  key text not null,                        -- chosen by the sender: the same key is accepted once
  ref text not null,
  at bigint not null,
  primary key (project, key)
);

create table schedule (
  project text not null,
  id text not null,
  agent text,                               -- null: it is a workflow's, or what a person has set for members
  workflow text not null default '',        -- workflow:tag; '' when it is not a workflow's
  workspace text not null default '',       -- address; '' is personal
  member text not null default '',          -- the name there, when it is a member's; with no agent, '' is all of them
  prompt text not null default '',
  spec text not null,                       -- JSON: as written
  instance text not null default '',        -- the workspace it ends with, when a workflow gave it to a member
  set_by text not null default 'file',      -- file | person: what a person set is not changed by a file
  due_at bigint,                            -- null when nothing is due any more
  fired_at bigint,
  slot bigint,                              -- when it was due, of what has not been started or checked yet
  host text not null default '',            -- that starts or checks it now, of several; '' when none does
  failures integer not null default 0,      -- of its check, in a row
  state text not null default 'active',
  primary key (project, id),
  foreign key (project, agent) references agent(project, id)
);
create index schedule_due on schedule(due_at) where state = 'active';

create table approval (                     -- what the person approved; with SQLite it is in a file of the home
  project text not null references project(id),
  field text not null,                      -- approved | texts | files | open | worked | limits | calls
  key text not null,                        -- the digest of exactly what is approved, or the name of a power or a limit
  value text not null,
  primary key (project, field, key)
);

create table door_token (                   -- lets a program of somebody else in by one door; only its digest is kept
  project text not null references project(id),
  id text not null,
  name text not null,                       -- what the person calls it
  door text not null,                       -- openai | metrics
  opens text not null,                      -- JSON list: the agents and @workflows it may reach; [] is all of them
  digest text not null,                     -- SHA-256 of the token
  made_at bigint not null,
  ends_at bigint,                           -- null: not by itself
  primary key (project, id)
);

create table outbox (                       -- what the person is still to be told of elsewhere: written with the inbox
  project text not null,
  item text not null,                       -- of the inbox
  sink text not null,                       -- where it goes, by the name in notify.yaml; '' until that is decided
  reason text not null default '',          -- why the last try failed
  tries integer not null default 0,
  due_at bigint not null,
  primary key (project, item, sink)
);
create index outbox_due on outbox(due_at);

create table answer_link (                  -- lets whoever has it answer one item of the inbox, once
  project text not null,
  digest text not null,                     -- SHA-256 of its secret
  item text not null,
  content text not null,                    -- SHA-256 of what the item asked when it was told
  ends_at bigint not null,
  used_at bigint,
  primary key (project, digest)
);
create index answer_link_digest on answer_link(digest);

create table hook_delivery (                -- a webhook that was accepted: once, and what becomes of it
  project text not null,
  id text not null,
  workflow text not null,
  name text not null,                       -- of the trigger
  delivery text not null,                   -- SHA-256 of its sender's id for it
  body text not null,                       -- SHA-256 of what makes it the same under another id
  tag text not null,                        -- of the instance it starts, or is said in
  params text not null,                     -- JSON; {} once it was started
  state text not null,                      -- queued | starting | started | said | superseded | failed
  reason text not null default '',
  at bigint not null,
  started_at bigint,                        -- when its start began
  host text not null default '',            -- that starts it, of several
  primary key (project, id)
);
create index hook_delivery_known on hook_delivery(project, workflow, name, delivery);
create index hook_delivery_same on hook_delivery(project, workflow, name, body);
create index hook_delivery_at on hook_delivery(project, workflow, name, at);
create index hook_delivery_open on hook_delivery(state) where state in ('queued', 'starting');

create table export_cursor (                -- how far what happened was handed to programs that watch, of all projects
  name text primary key,
  event bigint not null
);
