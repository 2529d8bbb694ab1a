// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// What the same work costs in C on the same liblmdb. Each timed function returns nanoseconds.
// Every failure ends the program with a sentence: a rival that fails silently would be fast.

#ifndef LARDER_BENCH_RIVAL_H
#define LARDER_BENCH_RIVAL_H

#include <stddef.h>
#include <stdint.h>

typedef struct rival rival;

// A monotonic clock.
uint64_t bench_now(void);

const char *rival_version(void);

// An environment with MDB_NOSYNC | MDB_NOTLS, and MDB_WRITEMAP if wanted, and one named table (what
// a program with more than one kind of data has), keys "key-000000" up to `keys`. `values` holds keys * size bytes; key i is
// stored with value i, in the order given, 1,000 a transaction.
rival *rival_open(const char *directory, size_t map_size, uint32_t keys, const uint8_t *values,
                  size_t size, const uint32_t *order, int through_map);
void rival_close(rival *rival);

// For each key: mdb_txn_renew, mdb_get, all bytes of the value copied out, mdb_txn_reset. `sum` gets
// the sum of the first eight bytes of all values.
uint64_t rival_get(rival *rival, const uint32_t *order, size_t count, uint64_t *sum);

// For each key: mdb_txn_begin, mdb_put of value (key + shift) % keys, mdb_txn_commit.
uint64_t rival_put_each(rival *rival, const uint32_t *order, size_t count, uint32_t shift);

// The same puts, all in one transaction.
uint64_t rival_put_batch(rival *rival, const uint32_t *order, size_t count, uint32_t shift);

// Copies a key's value to `target`; returns its size, 0 when there is none.
size_t rival_value(rival *rival, uint32_t key, uint8_t *target);

#endif
