"""Files of a script on every rank: each rank sees its own, and the leader's reach the disk.

The leader works on the real files. Another rank's writes go to a tree of its own, in a temporary
directory, and its deletions are only noted; it reads its own files there, and all others at their
real places, as they were before the leader changed them. So each rank finds the files that it would
find if it ran alone. A rank that becomes the leader copies its tree to the real places.
"""
