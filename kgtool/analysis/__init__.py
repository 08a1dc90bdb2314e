"""The Spark job over ``__consumer_offsets``: what is live, what was removed and why.

``pyspark`` is imported only in this package. From the bytes up: ``crc32c``, ``segments``,
``batches``, ``lockstep`` (numpy; split, check and step through record batches), ``offsets``,
``group_records``, ``decode`` (keys and values, many at a time), ``sources`` (what to read),
``history`` (an offset's life), ``timeline`` (a group's life), ``expire`` (the retention rules as
columns), ``live``, ``removals``, ``report``, and ``pipeline``, which puts them together.
"""
