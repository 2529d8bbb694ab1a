// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// How many writes behind wait, in all and by stamp slot: read on every memory hit.
package final class PendingWriteCounters: Sendable {
  /// One counter a stamp slot, and the sum in the last place.
  let counts = AtomicCounterArray(count: SharedTableLayout.stampCount + 1)
  static let totalIndex = SharedTableLayout.stampCount

  /// Whether a write that waits may be of a key of this slot.
  package func mayHavePendingWrite(slot: Int) -> Bool { !isEmpty && !counts.isZero(slot) }

  package var isEmpty: Bool { counts.isZero(PendingWriteCounters.totalIndex) }

  func add(slot: Int) {
    counts.increment(slot)
    counts.increment(PendingWriteCounters.totalIndex)
  }

  func remove(slot: Int) {
    counts.decrement(slot)
    counts.decrement(PendingWriteCounters.totalIndex)
  }
}

/// The writes of this process that wait for a transaction, and who may begin it.
final class WriteQueue: Sendable {
  /// A key in a namespace, by its bytes: it outlives a move to another generation.
  struct PendingKey: Hashable {
    let space: String
    let key: EncodedKey

    // The bytes in one go: an array of bytes would feed the hasher one by one.
    func hash(into hasher: inout Hasher) {
      hasher.combine(XXH64.hash(key.bytes, seed: UInt64(key.tag)))
    }
  }

  struct State {
    var records: [WriteRequest] = []
    /// Before all of them: what is written by who took the role when nothing was queued. It is the
    /// usual case, and no list is made for it.
    var alone: WriteRequest?
    /// Somebody has the writer's role.
    var hasLeader = false
    var behindCount = 0
    var behindBytes = 0
    /// Writes behind, taken from `records` for a transaction, and not booked out yet.
    var inFlight: [WriteRequest] = []
    /// The newest waiting write of each key.
    var shadows: [PendingKey: WriteRequest] = [:]
    var spaceWaiters: [Event] = []

    var count: Int { records.count + (alone == nil ? 0 : 1) }
    var head: WriteRequest? { alone ?? records.first }

    /// Takes the first record out; `false`: another one is the first.
    mutating func removeHead(_ record: WriteRequest) -> Bool {
      guard head === record else { return false }
      if alone == nil { records.removeFirst() } else { alone = nil }
      return true
    }

    /// Whether the first record is a closure of an asynchronous caller.
    var isHeadForWorker: Bool {
      guard let head, case .exclusive = head.kind else { return false }
      return !head.hasWaiter
    }
  }

  static let behindLimitCount = 65_536
  static let behindLimitBytes = 8 << 20
  static let batchLimitCount = 4096
  static let batchLimitBytes = 16 << 20

  let state = Mutex(State())
  let pending = PendingWriteCounters()

  /// Takes from the front what one transaction may hold: plain records up to the first exclusive.
  static func takeBatch(_ state: inout State) -> [WriteRequest] {
    if let alone = state.alone {
      state.alone = nil
      if state.records.isEmpty { return [alone] }
      state.records.insert(alone, at: 0)
    }
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
      state.inFlight += all.lazy.filter(\.shadowsKey)
      return all
    }
    let batch = Array(state.records.prefix(count))
    state.records.removeFirst(count)
    state.inFlight += batch.lazy.filter(\.shadowsKey)
    return batch
  }

  /// Whether a record waits, or is in a transaction.
  var isBusy: Bool { state.withLock { $0.hasLeader || $0.count > 0 } || !pending.isEmpty }

  /// Takes a record back that no transaction has taken, and that is not to lead.
  func withdraw(_ record: WriteRequest) -> Bool {
    state.withLock { state in
      if record.waiter.withLock({ $0.isPromoted }) { return false }
      if state.alone === record {
        state.alone = nil
        return true
      }
      guard let index = state.records.firstIndex(where: { $0 === record }) else { return false }
      state.records.remove(at: index)
      return true
    }
  }

  /// Books records out that are done; wakes callers that wait for room.
  func release(_ done: [WriteRequest]) {
    // Nothing else is booked.
    let behind = done.count { $0.shadowsKey }
    if behind == 0 { return }
    let waiters = state.withLock { state in
      for record in done where record.shadowsKey {
        let slot = record.slot.exchange(WriteRequest.noSlot, ordering: .relaxed)
        guard slot != WriteRequest.noSlot else { continue }
        state.behindCount -= 1
        state.behindBytes -= record.weight
        let pendingWrite = PendingKey(space: record.space!.name, key: record.key)
        if state.shadows[pendingWrite] === record { state.shadows[pendingWrite] = nil }
        // Last: whoever finds the count at zero must find the key's write committed.
        pending.remove(slot: slot)
      }
      if state.inFlight.count == behind {
        state.inFlight = []
      } else {
        state.inFlight.removeAll { record in done.contains { $0 === record } }
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

  /// After a move: waiting writes shadow their keys under the new generation's hashes.
  func rehash(in generation: Generation) {
    state.withLock { state in
      for record in state.records + state.inFlight where record.shadowsKey {
        let old = record.slot.load(ordering: .relaxed)
        guard old != WriteRequest.noSlot else { continue }
        let hash = record.space!.hash(of: record.key, in: generation)
        let new = Int(hash & UInt64(SharedTableLayout.stampCount - 1))
        pending.add(slot: new)
        pending.remove(slot: old)
        record.slot.store(new, ordering: .relaxed)
      }
    }
  }

  /// The newest waiting write of a key, if any.
  func pendingWrite(of key: EncodedKey, in space: NamespaceHandle) -> WriteRequest? {
    // In a forked child nothing is pending: its next step is the error.
    guard !pending.isEmpty, !ForkGuard.isForkedChild else { return nil }
    return state.withLock { $0.shadows[PendingKey(space: space.name, key: key)] }
  }
}
