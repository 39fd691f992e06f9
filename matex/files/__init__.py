"""Files of a script on every rank: each rank sees its own, and the leader's reach the disk.

The leader works on the real files. What another rank writes goes into a tree of its own, in a
temporary directory, and what it deletes is only noted; it reads its own files there, and all
others where they really are, as they were before the leader changed them. So each rank finds what
it would find if it ran alone. A rank that comes to lead copies its tree to the real places.
"""
