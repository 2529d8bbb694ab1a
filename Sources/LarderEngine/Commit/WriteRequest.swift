// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// One queued write of this process.
///
/// The requests of all callers of a process are queued, and the commit leader commits them in one
/// transaction. Each request has a separate result.
@usableFromInline
package final class WriteRequest: Sendable {
  /// The operation of a request.
  package enum Kind: Sendable {
    case put(EntryContent)
    case remove
    /// Stores the content only if no process wrote or removed the key since the lease was acquired.
    case fill(EntryContent, FillToken)
    /// Removes an entry that was found damaged, if it is still the same entry.
    case removeDamaged(commitVersion: UInt64)
    /// Reads and writes the key in the transaction of the batch. The closure runs none of the user's
    /// code, may run again from the beginning, and returns whether it has changed anything. `bytes` is
    /// the size of the value that it stores, as far as it is known.
    case alter(bytes: Int, @Sendable (inout StoreTransaction) throws -> Bool)
    /// Adds a number to the integer of the key, and sets the outcome or an error of the decision. Another
    /// process may execute it (`StoreCore+Offers.swift`).
    case increment(CounterIncrement, CounterIncrement.Box)
    /// Completes after every request that was queued earlier.
    case barrier
    /// Commits an empty stamped transaction, so that slots with a killed writer's stamps validate
    /// again.
    case commitNoOp
    /// Runs a closure that begins separate transactions.
    case exclusive(@Sendable (StoreCore) -> Void)
  }

  /// The result of a request.
  package enum Result: Sendable {
    /// Committed with this commit version. `changed` is `false` for a removal that found no entry,
    /// for a rejected fill, and for an alteration that kept the entry.
    case done(commitVersion: UInt64, changed: Bool)
    // Indirect, so that the usual result is as small as possible.
    indirect case failed(StoreError)
  }

  /// The key of requests that concern no key.
  package static var noKey: EncodedKey { EncodedKey(tag: 0, bytes: []) }

  package let kind: Kind
  package let space: NamespaceHandle?
  package let key: EncodedKey
  /// The memory that the request occupies while it is queued, in bytes.
  let weight: Int
  /// Whether the caller continued without waiting.
  let isWriteBehind: Bool
  /// The time at which its asynchronous caller stops waiting for writers of other processes, in
  /// nanoseconds of the monotonic clock. Zero means `writeTimeout` after that wait begins.
  let deadline: UInt64
  private let onDone: (@Sendable (Result) -> Void)?

  // The phase in the low three bits, the commit version above. After the last change of it, the two
  // properties below are final.
  private let status = Atomic<UInt64>(0)
  private let isChange = Atomic<Bool>(true)
  private let details = Mutex<Details>(Details())

  /// The properties that few requests have.
  private struct Details {
    var failure: StoreError?
    /// The contexts of the task that queued the request, if the store has monitors.
    var origin: WriteOrigin?
    /// The wait for the disk that its caller is left with.
    var wait: DurableWait?
  }
  // Stored before the commit version in `status`, by the thread that stores that.
  private let incarnation = Atomic<UInt64>(0)

  struct Waiter {
    var event: Event?
    /// Whether the waiting caller is to become the commit leader.
    var isPromoted = false

    /// Returns once whether the caller has become the commit leader.
    mutating func takePromotion() -> Bool {
      defer { isPromoted = false }
      return isPromoted
    }
  }

  // The index of `slot`, or `noSlot`. Changed only under the queue's lock.
  private let slotIndex = Atomic<Int>(WriteRequest.noSlot)
  private static let noSlot = -1

  let waiter = Mutex<Waiter>(Waiter())

  package init(
    _ kind: Kind, space: NamespaceHandle? = nil, key: EncodedKey = WriteRequest.noKey,
    isWriteBehind: Bool = false, deadline: UInt64 = 0, onDone: (@Sendable (Result) -> Void)? = nil
  ) {
    self.kind = kind
    self.space = space
    self.key = key
    self.isWriteBehind = isWriteBehind
    self.deadline = deadline
    self.onDone = onDone
    switch kind {
    case .put(let content), .fill(let content, _):
      weight = 256 + key.bytes.count + content.payload.count
    case .alter(let bytes, _): weight = 256 + key.bytes.count + bytes
    default: weight = 256 + key.bytes.count
    }
  }

  var isIncrement: Bool { if case .increment = kind { true } else { false } }
  var isPut: Bool { if case .put = kind { true } else { false } }

  /// Sets the outcome of an increment that another process has executed.
  func setOutcome(_ outcome: (CounterIncrement.IntegerType) -> CounterIncrement.Outcome) {
    guard case .increment(let increment, let box) = kind else { return }
    box.set(.success(outcome(increment.type)))
  }

  // MARK: State for readers of this process

  /// The progress of a request.
  package enum Phase: Sendable, Hashable {
    case queued
    /// In a transaction with this commit version whose outcome is not known yet.
    case inFlight(UInt64)
    /// Committed with this commit version as the key's final state in its transaction.
    case committed(UInt64)
    /// Committed, and overwritten or evicted in the same transaction.
    case superseded
    case failed
  }

  /// The current progress of the request.
  package var phase: Phase {
    let status = status.load(ordering: .acquiring)
    switch status & 7 {
    case 0: return .queued
    case 1: return .inFlight(status >> 3)
    case WriteRequest.committed: return .committed(status >> 3)
    case WriteRequest.superseded: return .superseded
    default: return .failed
    }
  }

  private static var committed: UInt64 { 2 }
  private static var superseded: UInt64 { 3 }
  private static var failed: UInt64 { 4 }

  /// Records that a transaction applies the request.
  func begin(in generation: Generation, commitVersion: UInt64) {
    incarnation.store(generation.incarnation, ordering: .relaxed)
    if isWriteBehind { status.store(commitVersion << 3 | 1, ordering: .releasing) }
  }

  /// Returns whether the commit version of ``phase`` belongs to this generation. After a generation
  /// switch, the stamps of the new generation do not apply to it.
  package func matches(_ generation: Generation) -> Bool {
    incarnation.load(ordering: .relaxed) == generation.incarnation
  }

  // MARK: Origin

  var origin: WriteOrigin? { details.withLock { $0.origin } }

  /// Records the contexts of the task that queues the request, before it is queued.
  func setOrigin(_ origin: WriteOrigin?) { details.withLock { $0.origin = origin } }

  // MARK: Result

  /// Whether its caller waits in no thread.
  var hasCompletion: Bool { onDone != nil }

  func setWait(_ wait: DurableWait) { details.withLock { $0.wait = wait } }

  /// Waits until the transaction of the request is on the disk, in the thread of its caller.
  func endWait(_ core: StoreCore) {
    guard let wait = details.withLock({ $0.wait.take() }) else { return }
    do throws(StoreError) { try wait.end(core) } catch { finish(.failed(error)) }
  }

  var isDone: Bool { status.load(ordering: .acquiring) & 7 >= WriteRequest.committed }

  /// The result, or `nil` until the request is done.
  package var result: Result? {
    let status = status.load(ordering: .acquiring)
    switch status & 7 {
    case 0, 1: return nil
    case WriteRequest.failed: return details.withLock { $0.failure }.map { .failed($0) }
    default: return .done(commitVersion: status >> 3, changed: isChange.load(ordering: .relaxed))
    }
  }

  /// Whether a caller waits for the request in a blocked thread.
  var hasWaiter: Bool { waiter.withLock { $0.event != nil } }

  /// The stamp slot under which a pending write is counted, if it is counted.
  var slot: StampSlot? { WriteRequest.slot(slotIndex.load(ordering: .relaxed)) }

  /// Records the slot under which the request is counted. The caller holds the queue's lock.
  func countPending(in slot: StampSlot) { slotIndex.store(slot.index, ordering: .relaxed) }

  /// Removes and returns the slot under which the request is counted. The caller holds the queue's
  /// lock.
  func takeSlot() -> StampSlot? {
    WriteRequest.slot(slotIndex.exchange(WriteRequest.noSlot, ordering: .relaxed))
  }

  private static func slot(_ index: Int) -> StampSlot? {
    index == noSlot ? nil : StampSlot(hash: UInt64(index))
  }

  /// Whether the request overrides the key's value in this process while it is pending.
  var shadowsKey: Bool { isWriteBehind && space != nil }

  func finish(_ result: Result, isFinal: Bool = true) {
    switch result {
    case .done(let commitVersion, let changed):
      isChange.store(changed, ordering: .relaxed)
      let phase = isFinal ? WriteRequest.committed : WriteRequest.superseded
      status.store(commitVersion << 3 | phase, ordering: .releasing)
    case .failed(let error):
      details.withLock { $0.failure = error }
      status.store(WriteRequest.failed, ordering: .releasing)
    }
  }

  /// Notifies the caller, after the request was removed from the queue.
  func announce() {
    guard let onDone, let result else { return }
    onDone(result)
  }
}
