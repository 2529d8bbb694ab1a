// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The work that remains after the transaction is published.
struct PostCommitWork {
  let learn: [() -> Void]
  let books: CachedTotals
  let slots: TouchedSlots
  let commitVersion: UInt64
  let evicted: UInt64
  let expired: UInt64
  let bytes: UInt64
  let changesData: Bool

  init(_ context: borrowing StoreTransaction, commitVersion: UInt64) {
    learn = context.postCommitUpdates()
    books = context.knownBooks
    slots = Mutant.stampsAfterCommit.isActive ? context.touchedSlots : TouchedSlots()
    self.commitVersion = commitVersion
    evicted = context.evicted
    expired = context.expired
    bytes = context.bytesWritten
    changesData = !context.touchedSlots.isEmpty
  }

  func publish(in generation: Generation) {
    slots.forEach { generation.table.stamp(slot: $0, commitVersion: commitVersion) }
    for body in learn { body() }
    generation.books.withLock { $0 = books }
    generation.count(.commits)
    if evicted > 0 { generation.count(.evictions, by: evicted) }
    if expired > 0 { generation.count(.expirations, by: expired) }
    if bytes > 0 { generation.count(.bytesWritten, by: bytes) }
  }
}
