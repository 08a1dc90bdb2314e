"""``make bench``: how fast kgtool is, beside what it replaces and beside the limit.

Every figure is a ratio of two commands that ran in turn on one machine in one go, and every run
compares what they printed. No time ever fails a test. The folder ``profiles``
says where the time of the slower ones goes.
"""
