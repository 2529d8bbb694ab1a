// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#include "rival.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_LENGTH 10
#define MAXIMUM_VALUE 4096

struct rival {
  MDB_env *environment;
  MDB_dbi table;
  MDB_txn *reader;
  char (*keys)[KEY_LENGTH + 1];
  uint32_t count;
  const uint8_t *values;
  size_t size;
};

static void check(int status, const char *what) {
  if (status == MDB_SUCCESS) return;
  fprintf(stderr, "rival: %s: %s\n", what, mdb_strerror(status));
  exit(70);
}

uint64_t bench_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

const char *rival_version(void) { return mdb_version(NULL, NULL, NULL); }

static void put(rival *rival, MDB_txn *transaction, uint32_t key, uint32_t value) {
  MDB_val name = {KEY_LENGTH, rival->keys[key]};
  MDB_val data = {rival->size, (void *)(rival->values + (size_t)value * rival->size)};
  check(mdb_put(transaction, rival->table, &name, &data, 0), "mdb_put");
}

rival *rival_open(const char *directory, size_t map_size, uint32_t keys, const uint8_t *values,
                  size_t size, const uint32_t *order, int through_map) {
  rival *rival = calloc(1, sizeof *rival);
  MDB_txn *transaction = NULL;
  if (rival == NULL || size > MAXIMUM_VALUE) abort();
  rival->count = keys;
  rival->values = values;
  rival->size = size;
  rival->keys = malloc((size_t)keys * sizeof *rival->keys);
  if (rival->keys == NULL) abort();
  for (uint32_t i = 0; i < keys; i++) {
    snprintf(rival->keys[i], sizeof rival->keys[i], "key-%06u", i % 1000000);
  }
  check(mdb_env_create(&rival->environment), "mdb_env_create");
  check(mdb_env_set_mapsize(rival->environment, map_size), "mdb_env_set_mapsize");
  check(mdb_env_set_maxdbs(rival->environment, 8), "mdb_env_set_maxdbs");
  check(mdb_env_open(rival->environment, directory,
                     MDB_NOSYNC | MDB_NOTLS | (through_map ? MDB_WRITEMAP : 0), 0600),
        "mdb_env_open");
  check(mdb_txn_begin(rival->environment, NULL, 0, &transaction), "mdb_txn_begin");
  check(mdb_dbi_open(transaction, "values", MDB_CREATE, &rival->table), "mdb_dbi_open");
  for (uint32_t i = 0; i < keys; i++) {
    put(rival, transaction, order[i], order[i]);
    if (i % 1000 == 999) {
      check(mdb_txn_commit(transaction), "mdb_txn_commit");
      check(mdb_txn_begin(rival->environment, NULL, 0, &transaction), "mdb_txn_begin");
    }
  }
  check(mdb_txn_commit(transaction), "mdb_txn_commit");
  check(mdb_txn_begin(rival->environment, NULL, MDB_RDONLY, &rival->reader), "mdb_txn_begin");
  mdb_txn_reset(rival->reader);
  return rival;
}

void rival_close(rival *rival) {
  mdb_txn_abort(rival->reader);
  mdb_env_close(rival->environment);
  free(rival->keys);
  free(rival);
}

uint64_t rival_get(rival *rival, const uint32_t *order, size_t count, uint64_t *sum) {
  uint64_t total = 0, start = bench_now();
  for (size_t i = 0; i < count; i++) {
    uint8_t copy[MAXIMUM_VALUE];
    uint64_t first;
    MDB_val key = {KEY_LENGTH, rival->keys[order[i]]}, value;
    check(mdb_txn_renew(rival->reader), "mdb_txn_renew");
    check(mdb_get(rival->reader, rival->table, &key, &value), "mdb_get");
    if (value.mv_size > MAXIMUM_VALUE) abort();
    memcpy(copy, value.mv_data, value.mv_size);
    // The compiler must believe that somebody looks at all of the copy.
    __asm__ volatile("" : : "r"(copy) : "memory");
    mdb_txn_reset(rival->reader);
    memcpy(&first, copy, sizeof first);
    total += first;
  }
  *sum = total;
  return bench_now() - start;
}

uint64_t rival_put_each(rival *rival, const uint32_t *order, size_t count, uint32_t shift) {
  uint64_t start = bench_now();
  for (size_t i = 0; i < count; i++) {
    MDB_txn *transaction = NULL;
    check(mdb_txn_begin(rival->environment, NULL, 0, &transaction), "mdb_txn_begin");
    put(rival, transaction, order[i], (order[i] + shift) % rival->count);
    check(mdb_txn_commit(transaction), "mdb_txn_commit");
  }
  return bench_now() - start;
}

uint64_t rival_put_batch(rival *rival, const uint32_t *order, size_t count, uint32_t shift) {
  MDB_txn *transaction = NULL;
  uint64_t start = bench_now();
  check(mdb_txn_begin(rival->environment, NULL, 0, &transaction), "mdb_txn_begin");
  for (size_t i = 0; i < count; i++) {
    put(rival, transaction, order[i], (order[i] + shift) % rival->count);
  }
  check(mdb_txn_commit(transaction), "mdb_txn_commit");
  return bench_now() - start;
}

size_t rival_value(rival *rival, uint32_t key, uint8_t *target) {
  MDB_val name = {KEY_LENGTH, rival->keys[key]}, value = {0, NULL};
  check(mdb_txn_renew(rival->reader), "mdb_txn_renew");
  int status = mdb_get(rival->reader, rival->table, &name, &value);
  if (status != MDB_NOTFOUND) check(status, "mdb_get");
  if (value.mv_size <= MAXIMUM_VALUE) memcpy(target, value.mv_data, value.mv_size);
  mdb_txn_reset(rival->reader);
  return value.mv_size;
}
