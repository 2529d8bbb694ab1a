// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Rivals that are reached from C, each with the thinnest client there can be: nothing of ours stands
// between the clock and the rival. Every failure ends the program with a sentence: a rival that
// fails silently would be fast.

#ifndef LARDER_BENCH_PEERS_H
#define LARDER_BENCH_PEERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct peer peer;

// What the keys and values of a measurement are: key i is "key-000000" plus i, its first value the
// i-th `size` bytes of `values`.
typedef struct {
  const uint8_t *values;
  size_t size;
  uint32_t count;
} peer_data;

// A blocking client over a Unix socket: one write and, as a rule, one read a call.
peer *peer_redis(const char *socket);
peer *peer_memcached(const char *socket);

// Redis: what is set from now on lives so long, 0 for ever; a command of one line that answers OK.
void peer_redis_life(peer *peer, int milliseconds);
void peer_redis_command(peer *peer, const char *command);

// Redis: sets a number and publishes it, sent together; the next that somebody published, waited for.
void peer_redis_publish(peer *peer, long number);
void peer_redis_subscribe(peer *peer);
// Redis: adds one to a counter.
void peer_redis_increment(peer *peer);
// Pushes, moves and removes so many elements of one list, each command of all of them in one batch.
void peer_redis_queue(peer *peer, int count);
long peer_redis_next(peer *peer);

// SQLite's own API: WAL, statements prepared once. `synchronous` is 0 (off), 1 (normal), 2 (full).
peer *peer_sqlite(const char *path, int synchronous);

// A file for each key, written beside and renamed. With `synced` it and its directory are synced.
peer *peer_files(const char *directory, int synced);

// liblmdb: NOSYNC (with `synchronous` 0) or a sync a commit, NOTLS, WRITEMAP if wanted.
peer *peer_lmdb(const char *directory, int synchronous, int through_map);

void peer_close(peer *peer);

// Bytes that this process's allocator has given out; 0 where it does not tell.
size_t peer_heap(void);

// The rival's version, in a buffer of the caller's.
void peer_version(peer *peer, char *target, size_t capacity);

// Stores the first value of every key, a thousand at a time: in a transaction, or sent together.
void peer_load(peer *peer, peer_data data);

// Copies a key's value to `target`; returns its size, 0 when there is none.
size_t peer_value(peer *peer, uint32_t key, uint8_t *target, size_t capacity);

// Gets each key; `times` gets the nanoseconds of each call, `sum` the sum of the first eight bytes of
// all values, which are copied out whole.
void peer_get(peer *peer, peer_data data, const uint32_t *order, size_t count, uint32_t *times,
              uint64_t *sum);

// Sets each key to the first value of key (key + shift) % count.
void peer_set(peer *peer, peer_data data, const uint32_t *order, size_t count, uint32_t shift,
              uint32_t *times);

#endif
