// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// How many writes behind wait, in all and by stamp slot: read on every memory hit.
package final class PendingGauge: Sendable {
  /// One counter a stamp slot, and the sum in the last place.
  let counts = AtomicCounts(count: SharedTableLayout.stampCount + 1)
  static let totalIndex = SharedTableLayout.stampCount

  /// Whether a write that waits may be of a key of this slot.
  package func mayShadow(slot: Int) -> Bool { !isEmpty && !counts.isZero(slot) }

  package var isEmpty: Bool { counts.isZero(PendingGauge.totalIndex) }

  func add(slot: Int) {
    counts.increment(slot)
    counts.increment(PendingGauge.totalIndex)
  }

  func remove(slot: Int) {
    counts.decrement(slot)
    counts.decrement(PendingGauge.totalIndex)
  }
}

/// The writes of this process that wait for a transaction, and who may begin it.
final class WriteQueue: Sendable {
  /// A key in a namespace, by its bytes: it outlives a move to another generation.
  struct Shadow: Hashable {
    let space: String
    let key: EncodedKey
  }

  struct State {
    var records: [WriteRecord] = []
    /// Somebody has the writer's role.
    var roleTaken = false
    var behindCount = 0
    var behindBytes = 0
    /// The waiting writes behind, those in a transaction included.
    var behind: [ObjectIdentifier: WriteRecord] = [:]
    /// The newest waiting write of each key.
    var shadows: [Shadow: WriteRecord] = [:]
    var spaceWaiters: [Event] = []
  }

  static let behindLimitCount = 65_536
  static let behindLimitBytes = 8 << 20
  static let batchLimitCount = 4096
  static let batchLimitBytes = 16 << 20

  let state = Mutex(State())
  let pending = PendingGauge()

  /// Takes from the front what one transaction may hold: plain records up to the first exclusive.
  static func takeBatch(_ state: inout State) -> [WriteRecord] {
    var count = 0
    var bytes = 0
    for record in state.records {
      if case .exclusive = record.kind { break }
      if count > 0, bytes + record.weight > batchLimitBytes { break }
      bytes += record.weight
      count += 1
      if count == batchLimitCount { break }
    }
    if count == state.records.count {
      let all = state.records
      state.records = []
      return all
    }
    let batch = Array(state.records.prefix(count))
    state.records.removeFirst(count)
    return batch
  }

  /// Books a record behind out; wakes callers that wait for room.
  func release(_ record: WriteRecord) {
    guard record.shadowsKey else { return }
    let waiters = state.withLock { state in
      state.behindCount -= 1
      state.behindBytes -= record.weight
      pending.remove(slot: record.slot.load(ordering: .relaxed))
      state.behind.removeValue(forKey: ObjectIdentifier(record))
      if let space = record.space {
        let shadow = Shadow(space: space.name, key: record.key)
        if state.shadows[shadow] === record { state.shadows[shadow] = nil }
      }
      guard
        state.behindCount < WriteQueue.behindLimitCount / 2,
        state.behindBytes < WriteQueue.behindLimitBytes / 2
      else { return [Event]() }
      let waiters = state.spaceWaiters
      state.spaceWaiters = []
      return waiters
    }
    for waiter in waiters { waiter.set() }
  }

  /// The newest waiting write of a key, if any.
  func shadow(of key: EncodedKey, in space: Space) -> WriteRecord? {
    guard !pending.isEmpty else { return nil }
    return state.withLock { $0.shadows[Shadow(space: space.name, key: key)] }
  }
}
