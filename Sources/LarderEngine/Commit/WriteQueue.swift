// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The number of pending writes, in total and by stamp slot; every memory hit reads them.
package final class PendingWriteCounters: Sendable {
  /// One counter for each stamp slot, and the sum in the last position.
  let counts = AtomicCounterArray(count: StampSlot.count + 1)
  static let totalIndex = StampSlot.count

  /// Returns whether this process may have a pending write to a key of this slot.
  package func mayHavePendingWrite(slot: StampSlot) -> Bool {
    !isEmpty && !counts.isZero(slot.index)
  }

  /// Whether this process has no pending writes.
  package var isEmpty: Bool { counts.isZero(PendingWriteCounters.totalIndex) }

  func add(slot: StampSlot) {
    counts.increment(slot.index)
    counts.increment(PendingWriteCounters.totalIndex)
  }

  func remove(slot: StampSlot) {
    counts.decrement(slot.index)
    counts.decrement(PendingWriteCounters.totalIndex)
  }
}

/// The writes of this process that wait for a transaction, and the leadership state.
final class WriteQueue: Sendable {
  /// A key in a namespace, by its bytes, so that it stays valid across a generation switch.
  struct PendingKey: Hashable {
    let space: String
    let key: EncodedKey

    // Hashes the bytes in one call: an array would feed the hasher byte by byte.
    func hash(into hasher: inout Hasher) {
      hasher.combine(XXH64.hash(key.bytes, seed: UInt64(key.tag)))
    }
  }

  struct State {
    var records: [WriteRequest] = []
    /// The request of a caller that became the leader while the queue was empty; it precedes all
    /// others. This is the usual case, and it needs no array.
    var alone: WriteRequest?
    /// Whether there is a commit leader.
    var hasLeader = false
    var behindCount = 0
    var behindBytes = 0
    /// The write-behind requests that a transaction has taken and that are not released yet.
    var inFlight: [WriteRequest] = []
    /// The newest pending write of each key.
    var shadows: [PendingKey: WriteRequest] = [:]
    var spaceWaiters: [Event] = []

    var count: Int { records.count + (alone == nil ? 0 : 1) }
    var head: WriteRequest? { alone ?? records.first }

    /// Removes the first request. Returns `false` if another one is the first.
    mutating func removeHead(_ record: WriteRequest) -> Bool {
      guard head === record else { return false }
      if alone == nil { records.removeFirst() } else { alone = nil }
      return true
    }

    /// Removes and returns the first request, if its caller waits, it is the only one, and it satisfies a
    /// condition.
    mutating func takeSole(where isWanted: (WriteRequest) -> Bool) -> WriteRequest? {
      guard count == 1, let head, !head.isWriteBehind, isWanted(head) else { return nil }
      _ = removeHead(head)
      return head
    }

    /// Queues a request again, before all others.
    mutating func putBack(_ record: WriteRequest) { records.insert(record, at: 0) }

    /// Whether the first request is a closure of an asynchronous caller.
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

  /// Removes the requests for one transaction from the front: plain requests up to the first
  /// exclusive one, within the limits.
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

  /// Whether a request is queued or in a transaction.
  var isBusy: Bool { state.withLock { $0.hasLeader || $0.count > 0 } || !pending.isEmpty }

  /// Withdraws a request that no transaction has taken and that has not been chosen to lead.
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

  /// Removes completed requests from the pending writes, and wakes callers that wait for space.
  func release(_ done: [WriteRequest]) {
    // Only write-behind requests are counted.
    let behind = done.count { $0.shadowsKey }
    if behind == 0 { return }
    let waiters = state.withLock { state in
      for record in done where record.shadowsKey {
        guard let slot = record.takeSlot() else { continue }
        state.behindCount -= 1
        state.behindBytes -= record.weight
        let pendingWrite = PendingKey(space: record.space!.name, key: record.key)
        if state.shadows[pendingWrite] === record { state.shadows[pendingWrite] = nil }
        // The counter changes last: a reader that finds zero must find the key's write committed.
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

  /// Moves the pending writes to the slots of a new generation's hashes, after a generation switch.
  func rehash(in generation: Generation) {
    state.withLock { state in
      for record in state.records + state.inFlight where record.shadowsKey {
        guard let old = record.slot else { continue }
        let new = StampSlot(hash: record.space!.hash(of: record.key, in: generation))
        pending.add(slot: new)
        pending.remove(slot: old)
        record.countPending(in: new)
      }
    }
  }

  /// Returns the newest pending write of a key, if any.
  func pendingWrite(of key: EncodedKey, in space: NamespaceHandle) -> WriteRequest? {
    // A forked child has no pending writes: its next step throws the error.
    guard !pending.isEmpty, !ForkGuard.isForkedChild else { return nil }
    return state.withLock { $0.shadows[PendingKey(space: space.name, key: key)] }
  }
}
