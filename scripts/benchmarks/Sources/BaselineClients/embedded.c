// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// SQLite, LMDB and plain files.

#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- SQLite

struct sqlite {
  peer peer;
  sqlite3 *database;
  sqlite3_stmt *get, *set;
};

static void must(struct sqlite *self, int status, const char *what) {
  if (status != SQLITE_OK && status != SQLITE_ROW && status != SQLITE_DONE) {
    peer_fail(what, sqlite3_errmsg(self->database));
  }
}

static void execute(struct sqlite *self, const char *text) {
  must(self, sqlite3_exec(self->database, text, NULL, NULL, NULL), text);
}

static size_t sqlite_get(peer *peer, const char *key, uint8_t *target, size_t capacity) {
  struct sqlite *self = (struct sqlite *)peer;
  size_t size = 0;
  int status;
  must(self, sqlite3_bind_text(self->get, 1, key, PEER_KEY_LENGTH, SQLITE_STATIC), "bind");
  status = sqlite3_step(self->get);
  must(self, status, "select");
  if (status == SQLITE_ROW) {
    const void *bytes = sqlite3_column_blob(self->get, 0);
    size = (size_t)sqlite3_column_bytes(self->get, 0);
    if (size > capacity) peer_fail("select", "too large");
    memcpy(target, bytes, size);
  }
  sqlite3_reset(self->get);
  return size;
}

static void sqlite_set(peer *peer, const char *key, const uint8_t *value, size_t size) {
  struct sqlite *self = (struct sqlite *)peer;
  must(self, sqlite3_bind_text(self->set, 1, key, PEER_KEY_LENGTH, SQLITE_STATIC), "bind");
  must(self, sqlite3_bind_blob(self->set, 2, value, (int)size, SQLITE_STATIC), "bind");
  must(self, sqlite3_step(self->set), "replace");
  sqlite3_reset(self->set);
}

static void sqlite_begin(peer *peer) { execute((struct sqlite *)peer, "BEGIN IMMEDIATE"); }
static void sqlite_commit(peer *peer) { execute((struct sqlite *)peer, "COMMIT"); }

static void sqlite_version(peer *peer, char *target, size_t capacity) {
  (void)peer;
  snprintf(target, capacity, "%s", sqlite3_libversion());
}

static void sqlite_close(peer *peer) {
  struct sqlite *self = (struct sqlite *)peer;
  sqlite3_finalize(self->get);
  sqlite3_finalize(self->set);
  must(self, sqlite3_close(self->database), "close");
  free(self);
}

peer *peer_sqlite(const char *path, int synchronous) {
  struct sqlite *self = calloc(1, sizeof *self);
  char level[64];
  if (self == NULL) abort();
  must(self, sqlite3_open(path, &self->database), "open");
  // Other processes write as well: it waits for them.
  must(self, sqlite3_busy_timeout(self->database, 60000), "busy timeout");
  snprintf(level, sizeof level, "PRAGMA synchronous = %d", synchronous);
  execute(self, "PRAGMA journal_mode = WAL");
  execute(self, level);
  // Everything measured stays in SQLite's cache, or in its map.
  execute(self, "PRAGMA cache_size = -65536");
  execute(self, "PRAGMA mmap_size = 1073741824");
  execute(self, "CREATE TABLE IF NOT EXISTS entry (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID");
  must(self,
       sqlite3_prepare_v2(self->database, "SELECT value FROM entry WHERE key = ?", -1, &self->get,
                          NULL),
       "prepare");
  must(self,
       sqlite3_prepare_v2(self->database, "REPLACE INTO entry VALUES (?, ?)", -1, &self->set, NULL),
       "prepare");
  self->peer = (peer){sqlite_get,    sqlite_set,     sqlite_begin,
                      sqlite_commit, sqlite_version, sqlite_close};
  return &self->peer;
}

// --- LMDB

struct lmdb {
  peer peer;
  MDB_env *environment;
  MDB_dbi table;
  MDB_txn *reader;
  MDB_txn *writer;
};

static void check(int status, const char *what) {
  if (status != MDB_SUCCESS) peer_fail(what, mdb_strerror(status));
}

static size_t lmdb_get(peer *peer, const char *key, uint8_t *target, size_t capacity) {
  struct lmdb *self = (struct lmdb *)peer;
  MDB_val name = {PEER_KEY_LENGTH, (void *)key}, value = {0, NULL};
  check(mdb_txn_renew(self->reader), "mdb_txn_renew");
  int status = mdb_get(self->reader, self->table, &name, &value);
  if (status != MDB_NOTFOUND) check(status, "mdb_get");
  if (value.mv_size > capacity) peer_fail("mdb_get", "too large");
  if (value.mv_size > 0) memcpy(target, value.mv_data, value.mv_size);
  mdb_txn_reset(self->reader);
  return value.mv_size;
}

static void lmdb_begin(peer *peer) {
  struct lmdb *self = (struct lmdb *)peer;
  check(mdb_txn_begin(self->environment, NULL, 0, &self->writer), "mdb_txn_begin");
}

static void lmdb_commit(peer *peer) {
  struct lmdb *self = (struct lmdb *)peer;
  check(mdb_txn_commit(self->writer), "mdb_txn_commit");
  self->writer = NULL;
}

static void lmdb_set(peer *peer, const char *key, const uint8_t *bytes, size_t size) {
  struct lmdb *self = (struct lmdb *)peer;
  MDB_val name = {PEER_KEY_LENGTH, (void *)key}, value = {size, (void *)bytes};
  int isAlone = self->writer == NULL;
  if (isAlone) lmdb_begin(peer);
  check(mdb_put(self->writer, self->table, &name, &value, 0), "mdb_put");
  if (isAlone) lmdb_commit(peer);
}

static void lmdb_version(peer *peer, char *target, size_t capacity) {
  (void)peer;
  snprintf(target, capacity, "%s", mdb_version(NULL, NULL, NULL));
}

static void lmdb_close(peer *peer) {
  struct lmdb *self = (struct lmdb *)peer;
  mdb_txn_abort(self->reader);
  mdb_env_close(self->environment);
  free(self);
}

peer *peer_lmdb(const char *directory, int synchronous, int through_map) {
  struct lmdb *self = calloc(1, sizeof *self);
  unsigned flags = MDB_NOTLS | (synchronous ? 0u : MDB_NOSYNC) | (through_map ? MDB_WRITEMAP : 0u);
  if (self == NULL) abort();
  self->peer = (peer){lmdb_get, lmdb_set, lmdb_begin, lmdb_commit, lmdb_version, lmdb_close};
  check(mdb_env_create(&self->environment), "mdb_env_create");
  check(mdb_env_set_mapsize(self->environment, (size_t)8 << 30), "mdb_env_set_mapsize");
  check(mdb_env_set_maxdbs(self->environment, 8), "mdb_env_set_maxdbs");
  check(mdb_env_open(self->environment, directory, flags, 0600), "mdb_env_open");
  lmdb_begin(&self->peer);
  check(mdb_dbi_open(self->writer, "entries", MDB_CREATE, &self->table), "mdb_dbi_open");
  lmdb_commit(&self->peer);
  check(mdb_txn_begin(self->environment, NULL, MDB_RDONLY, &self->reader), "mdb_txn_begin");
  mdb_txn_reset(self->reader);
  return &self->peer;
}

// --- Files

struct files {
  peer peer;
  int directory;
  int synced;
  int loading;
};

static size_t files_get(peer *peer, const char *key, uint8_t *target, size_t capacity) {
  struct files *self = (struct files *)peer;
  size_t have = 0;
  int file = openat(self->directory, key, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return 0;
    peer_fail(key, strerror(errno));
  }
  for (;;) {
    ssize_t more = read(file, target + have, capacity - have);
    if (more < 0) peer_fail(key, strerror(errno));
    if (more == 0) break;
    have += (size_t)more;
  }
  close(file);
  return have;
}

static void files_set(peer *peer, const char *key, const uint8_t *value, size_t size) {
  struct files *self = (struct files *)peer;
  int file = openat(self->directory, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) peer_fail(key, strerror(errno));
  if (write(file, value, size) != (ssize_t)size) peer_fail(key, strerror(errno));
  if (self->synced && !self->loading && fdatasync(file) != 0) peer_fail(key, strerror(errno));
  close(file);
  if (renameat(self->directory, ".new", self->directory, key) != 0) peer_fail(key, strerror(errno));
  if (self->synced && !self->loading && fsync(self->directory) != 0) peer_fail(key, strerror(errno));
}

static void files_begin(peer *peer) { ((struct files *)peer)->loading = 1; }

static void files_commit(peer *peer) { ((struct files *)peer)->loading = 0; }

static void files_version(peer *peer, char *target, size_t capacity) {
  (void)peer;
  snprintf(target, capacity, "openat, renameat");
}

static void files_close(peer *peer) {
  close(((struct files *)peer)->directory);
  free(peer);
}

peer *peer_files(const char *directory, int synced) {
  struct files *self = calloc(1, sizeof *self);
  if (self == NULL) abort();
  self->peer = (peer){files_get,    files_set,     files_begin,
                      files_commit, files_version, files_close};
  self->synced = synced;
  self->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (self->directory < 0) peer_fail(directory, strerror(errno));
  return &self->peer;
}
