"""What `strongroom --help` says. `make docs` writes this file."""

TEXT = """\
Usage: strongroom [OPTIONS] COMMAND [ARGS]...

  Everything an AI agent knows, in one crash-safe store.

Options:
  --url TEXT    Where the data is (default: agent.db).
  --space TEXT  Whose data, the tenant (default: default).
  --key TEXT    Who you are, if the data is on a server.
  --json        Answer in JSON.
  --version     Show the version and exit.
  -h, --help    Show this message and exit.

Commands:
  anchor    Seal the heads of ledgers, by adding them to a file.
  backup    Write a copy of the store to a new file, while others go on.
  check     Verify every page, row, checksum, index, hash chain and run.
  compact   Give free space back to the disk.
  copy      Copy everything from one store to an empty one, and compare.
  decrypt   Take the key off a store.
  demo      Watch an agent work, be killed, and carry on.
  doctor    Tell what is here, what it promises, and what could be better.
  encrypt   Put a store under a key, all of it at once.
  erase     Leave nothing of a person: memories, sessions and runs.
  explain   Say why an error happens and what to do about it.
  files     Notes of agents: a path to text, every version kept.
  import    Bring in what other systems keep in files and databases.
  keys      Who may use the server.
  learn     Propose memories from what is new in sessions.
  mcp       Serve an assistant over standard input and output (MCP).
  memories  What is known for longer than a run.
  rekey     Put a store under another key.
  review    Step through memories that wait for a decision.
  runs      What agents do and did: state, ledger, history.
  serve     Serve the store over HTTP.
  sessions  Conversations, of any length.
  threads   Messages between agents, append-only.
  version   Print versions of Strongroom and what it stands on.
  worker    Run a program's functions on the store.
"""
