// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// One write on its way into a store.
///
/// Records of all callers of a process are queued, and whoever has the writer's role commits what
/// is there in one transaction. Each record gets a result of its own.
@usableFromInline
package final class WriteRequest: Sendable {
  package enum Kind: Sendable {
    case put(EntryContent)
    case remove
    /// Stored only if nobody wrote or removed the key since the lease was taken.
    case fill(EntryContent, FillToken)
    /// Removes an entry that was found damaged, if it still is the same.
    case removeDamaged(label: UInt64)
    /// Everything queued before is done when this is.
    case barrier
    /// An empty stamped transaction: makes slots valid again that a killed writer left behind.
    case bump
    /// A transaction of its own.
    case exclusive(@Sendable (StoreCore) -> Void)
  }

  package enum Result: Sendable {
    /// Committed under this label; `changed` is false for a removal that found nothing and for a
    /// fill that was refused.
    case done(label: UInt64, changed: Bool)
    // Apart, so that the usual result is as small as it can be.
    indirect case failed(StoreError)
  }

  /// Of records that concern no key.
  package static var noKey: EncodedKey { EncodedKey(tag: 0, bytes: []) }

  package let kind: Kind
  package let space: NamespaceHandle?
  package let key: EncodedKey
  /// Memory the record takes while it waits.
  let weight: Int
  /// Whether the caller went on without waiting.
  let isWriteBehind: Bool
  /// When its asynchronous caller stops waiting for writers of other processes, in nanoseconds of the
  /// monotonic clock; zero: `writeTimeout` after that wait begins.
  let deadline: UInt64
  private let onDone: (@Sendable (Result) -> Void)?

  // phase in the low three bits, label above. With the last change of it the two below are final.
  private let status = Atomic<UInt64>(0)
  private let isChange = Atomic<Bool>(true)
  private let failure = Mutex<StoreError?>(nil)
  // Stored before the commit version in `status`, by the thread that stores that.
  private let incarnation = Atomic<UInt64>(0)

  struct Waiter {
    var event: Event?
    /// The waiting caller is to take the writer's role.
    var isPromoted = false

    /// Whether the role is the caller's now; it is told once.
    mutating func takePromotion() -> Bool {
      defer { isPromoted = false }
      return isPromoted
    }
  }

  /// The stamp slot a write behind is booked under. Changed under the queue's lock only.
  let slot = Atomic<Int>(WriteRequest.noSlot)
  static let noSlot = -1

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
    default: weight = 256 + key.bytes.count
    }
  }

  // MARK: What a reader of this process sees

  package enum Phase: Sendable, Hashable {
    case queued
    /// In a transaction with this label whose end is not known yet.
    case inFlight(UInt64)
    /// Committed with this label as the key's final state of its transaction.
    case committed(UInt64)
    /// Committed, and overwritten in the same transaction.
    case superseded
    case failed
  }

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

  /// Notes that a transaction applies the request.
  func begin(in generation: Generation, label: UInt64) {
    incarnation.store(generation.incarnation, ordering: .relaxed)
    if isWriteBehind { status.store(label << 3 | 1, ordering: .releasing) }
  }

  /// Whether the commit version of ``phase`` is one of this generation. If the generation was left since,
  /// its successor's stamps say nothing about it.
  package func isOf(_ generation: Generation) -> Bool {
    incarnation.load(ordering: .relaxed) == generation.incarnation
  }

  // MARK: Result

  var isDone: Bool { status.load(ordering: .acquiring) & 7 >= WriteRequest.committed }

  package var result: Result? {
    let status = status.load(ordering: .acquiring)
    switch status & 7 {
    case 0, 1: return nil
    case WriteRequest.failed: return failure.withLock { $0 }.map { .failed($0) }
    default: return .done(label: status >> 3, changed: isChange.load(ordering: .relaxed))
    }
  }

  /// Whether a caller waits for it in a blocked thread.
  var hasWaiter: Bool { waiter.withLock { $0.event != nil } }

  /// Whether the record holds the key's value in this process while it waits.
  var shadowsKey: Bool { isWriteBehind && space != nil }

  func finish(_ result: Result, isFinal: Bool = true) {
    switch result {
    case .done(let label, let changed):
      isChange.store(changed, ordering: .relaxed)
      let phase = isFinal ? WriteRequest.committed : WriteRequest.superseded
      status.store(label << 3 | phase, ordering: .releasing)
    case .failed(let error):
      failure.withLock { $0 = error }
      status.store(WriteRequest.failed, ordering: .releasing)
    }
  }

  /// Lets the caller know. After the record left the queue's books.
  func announce() {
    guard let onDone, let result else { return }
    onDone(result)
  }
}
