# Larder — an embedded, multi-process cache and object store.
# Copyright 2026 the Larder authors. Licensed under Apache-2.0.
# SPDX-License-Identifier: Apache-2.0
"""diskcache, driven by lines and timed in its own process.

diskcache_rival.py DIRECTORY POLICY VALUES SIZE COUNT [LIMIT]

VALUES is a file of COUNT values of SIZE bytes; LIMIT is the most bytes the cache may hold. Commands on standard input, one a line:
  load                 store value i under key i, for all
  value KEY            answers with the value in hexadecimal
  get KEY...           answers with the nanoseconds of each call, then the sum of the first 8 bytes
  set SHIFT KEY...     answers with the nanoseconds of each call
  life SECONDS         what is set from now on expires after so long
  go get|set SECONDS SEED   does so for a while, random keys; answers with calls and nanoseconds
"""

import random
import sys
from time import perf_counter_ns

import diskcache


def main():
    directory, policy, values_path, size, count = sys.argv[1:6]
    limit = int(sys.argv[6]) if len(sys.argv) > 6 else 1 << 32
    size, count = int(size), int(count)
    with open(values_path, "rb") as file:
        values = file.read()
    cache = diskcache.Cache(directory, eviction_policy=policy, size_limit=limit)
    print("diskcache", diskcache.__version__, "on Python", sys.version.split()[0], flush=True)

    def value(number):
        return values[number * size : (number + 1) * size]

    def name(number):
        return "key-%06d" % (number % 1000000)

    life = None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "go":
            choose = random.Random(int(words[2])).randrange
            end = float(words[1]) * 1e9
            calls, start = 0, perf_counter_ns()
            while perf_counter_ns() - start < end:
                key = choose(count)
                if words[0] == "get":
                    cache.get(name(key))
                else:
                    cache.set(name(key), value(key), retry=True)
                calls += 1
            print(calls, perf_counter_ns() - start, flush=True)
            continue
        if command == "life":
            life = float(words[0])
            continue
        numbers = [int(word) for word in words]
        if command == "load":
            for start in range(0, count, 1000):
                with cache.transact():
                    for number in range(start, min(start + 1000, count)):
                        cache.set(name(number), value(number))
            print("loaded", flush=True)
        elif command == "value":
            print((cache.get(name(numbers[0])) or b"").hex(), flush=True)
        elif command == "get":
            keys = [name(number) for number in numbers]
            times = [0] * len(keys)
            total = 0
            get = cache.get
            for index, key in enumerate(keys):
                start = perf_counter_ns()
                found = get(key)
                times[index] = perf_counter_ns() - start
                total += int.from_bytes(found[:8], "little")
            print(*times, total & 0xFFFFFFFFFFFFFFFF, flush=True)
        elif command == "set":
            shift, *numbers = numbers
            pairs = [(name(number), value((number + shift) % count)) for number in numbers]
            times = [0] * len(pairs)
            put = cache.set
            for index, (key, new) in enumerate(pairs):
                start = perf_counter_ns()
                # Waits, and tries again, for as long as other processes write.
                put(key, new, expire=life, retry=True)
                times[index] = perf_counter_ns() - start
            print(*times, flush=True)
        else:
            sys.exit("no such command: " + command)
    cache.close()


main()
