"""The Model Context Protocol door: any assistant can remember, look up and record, and a person can review.

Theory of operation
-------------------
One server object serves stdio and HTTP, and both families of the protocol: 2026-07-28, where every request stands for
itself, and 2025-11-25, where a client first shakes hands. It is made of tables: `tools` (what can be called),
`resources` (what can be read), `prompts` (what a person can pick). A row says what goes in, what comes out, for whom it
is and how large an answer may get; the code in this folder turns rows into messages and back.

Rules
-----
1. Who calls is a `Principal`, made from the key (HTTP) or the flags of the command (stdio), never from arguments.
2. A principal has one profile. None can both propose and decide: there is no profile with both, and the memories
   refuse a reviewer who is the proposer.
3. Whatever was written by others leaves as `Data`, with a trust label; see `data`.
4. Arguments are checked against a type before anything is read, and no answer is larger than its row's bound.
"""
