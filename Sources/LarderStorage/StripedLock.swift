// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// Writers of one key take turns, and pull-ups are conditional.
//
// A tiered storage contains a value in several layers. Without order, two writers could leave one value
// in front and the other one in the back permanently; and a reader that missed in front and read the
// back slowly could overwrite a newer value in front. So:
//
// * Keys are spread over 64 stripes by their hash. A writer holds its key's stripe while it writes all
//   layers; removing everything holds all stripes.
// * Each stripe has a stamp, which every write advances before its first and after its last layer. A
//   reader that misses reads the stamp *before* it reads the back, and fills the front only if the stamp
//   is unchanged, while it holds the stripe. If the stripe is not free, a write is in progress: the
//   reader does not wait and does not fill the front. A pull-up never waits in lower layers either: only
//   writers wait.
//
// Removing goes from the back to the front, setting from the front to the back; with the second stamp,
// a pull-up that read the back before either was done is refused in both cases.
//
// The holder of a stripe is a running thread, or a task on separate threads (BackgroundExecutor): it
// never waits for a free thread of Swift's cooperative pool, so threads of the pool may wait for it.
// Holders that wait for each other are detected: WaitForGraph.swift.

/// A lock of key stripes that excludes concurrent writers of a key, with stamps by which pull-ups detect
/// writes.
package final class StripedLock: Sendable {
  /// A waiter for a stripe.
  enum Waiter {
    case thread(Event)
    case task(CheckedContinuation<Void, any Error>)

    func resume() {
      switch self {
      case .thread(let event): event.set()
      case .task(let continuation): continuation.resume()
      }
    }

    /// Ends the wait of a task that was withdrawn.
    func fail(_ error: any Error) {
      if case .task(let continuation) = self { continuation.resume(throwing: error) }
    }
  }

  private struct Stripe {
    var holder: LockHolder?
    var waiting: [(mark: LockHolder, waiter: Waiter)] = []
    var stamp: UInt64 = 0
  }

  /// The mark of a turn, seen by whatever runs inside it.
  final class LockHolder: Sendable {
    let turns: ObjectIdentifier
    let isFilling: Bool
    let isExpired = Atomic<Bool>(false)

    init(_ turns: StripedLock, isFilling: Bool = false) {
      self.turns = ObjectIdentifier(turns)
      self.isFilling = isFilling
    }
  }

  @TaskLocal private static var marks: [LockHolder] = []

  static let count = 64
  private let stripes = Mutex([Stripe](repeating: Stripe(), count: StripedLock.count))

  package init() {}

  /// A number for a key: 0 for all keys of types that are not hashable.
  package static func hash<Key>(_ key: Key) -> Int { (key as? any Hashable)?.hashValue ?? 0 }

  package static func stripe(_ hash: Int) -> Int {
    Int(UInt(bitPattern: hash) % UInt(count))
  }

  // MARK: Stamps

  func stamp(_ hash: Int) -> UInt64 { stripes.withLock { $0[Self.stripe(hash)].stamp } }

  func advance(_ hash: Int) { stripes.withLock { $0[Self.stripe(hash)].stamp &+= 1 } }

  func advanceAll() {
    stripes.withLock { for index in 0..<Self.count { $0[index].stamp &+= 1 } }
  }

  // MARK: Where the caller is

  /// The turns in which the caller runs.
  private static var current: [LockHolder] {
    marks.filter { !$0.isExpired.load(ordering: .acquiring) }
  }

  /// Whether the caller runs in a turn of any storage.
  package static var isInsideAny: Bool { !marks.isEmpty && !current.isEmpty }

  /// Whether the caller is in a pull-up, which must not wait.
  static var isFilling: Bool { current.contains { $0.isFilling } }

  /// The turns in which the caller runs, none of them of this storage.
  private func outside() throws -> [LockHolder] {
    if Self.marks.isEmpty { return [] }
    let current = Self.current
    if current.contains(where: { $0.turns == ObjectIdentifier(self) }) {
      throw StorageError.recursiveUpdate
    }
    return current
  }

  // MARK: Turns

  /// Runs `body` when it is the key's turn; the thread waits for it.
  ///
  /// - Parameter timeout: The longest wait, for storages whose writers wait for other processes; otherwise
  ///   it lasts as long as the storages that the holder writes.
  /// - Throws: ``StorageError/Code/lockTimeout``.
  package func take<Result>(
    _ hash: Int, timeout: Duration? = nil, _ body: () throws -> Result
  ) throws -> Result {
    let outer = try outside()
    let mark = LockHolder(self)
    let stripe = Self.stripe(hash)
    try enter(stripe, mark, outer, timeout)
    defer { leave([stripe], mark) }
    return try Self.$marks.withValue(outer + [mark]) { try body() }
  }

  /// Runs `body` when it is the key's turn, on threads outside Swift's cooperative pool.
  func take<Result: Sendable>(
    _ hash: Int, timeout: Duration? = nil, _ body: @Sendable () async throws -> Result
  ) async throws -> Result {
    let outer = try outside()
    let mark = LockHolder(self)
    let stripe = Self.stripe(hash)
    try await enterLater(stripe, mark, outer, timeout)
    defer { leave([stripe], mark) }
    return try await withTaskExecutorPreference(BackgroundExecutor.shared) {
      try await Self.$marks.withValue(outer + [mark]) { try await body() }
    }
  }

  /// Runs `body` when it is the turn of all keys; the thread waits for it.
  func withAllLocks<Result>(
    timeout: Duration? = nil, _ body: () throws -> Result
  ) throws -> Result {
    let outer = try outside()
    let mark = LockHolder(self)
    var held: [Int] = []
    defer { leave(held, mark) }
    for stripe in 0..<Self.count {
      try enter(stripe, mark, held.isEmpty ? outer : outer + [mark], timeout)
      held.append(stripe)
    }
    return try Self.$marks.withValue(outer + [mark]) { try body() }
  }

  /// Runs `body` when it is the turn of all keys, on threads outside Swift's cooperative pool.
  func withAllLocks<Result: Sendable>(
    _ body: @Sendable () async throws -> Result
  ) async throws -> Result {
    let outer = try outside()
    let mark = LockHolder(self)
    var held: [Int] = []
    defer { leave(held, mark) }
    for stripe in 0..<Self.count {
      try await enterLater(stripe, mark, held.isEmpty ? outer : outer + [mark], nil)
      held.append(stripe)
    }
    return try await withTaskExecutorPreference(BackgroundExecutor.shared) {
      try await Self.$marks.withValue(outer + [mark]) { try await body() }
    }
  }

  private func enter(
    _ stripe: Int, _ mark: LockHolder, _ holding: [LockHolder], _ timeout: Duration?
  ) throws {
    if enterIfFree(stripe, mark) { return }
    let event = Event()
    if try queue(.thread(event), stripe, mark, holding) { return }
    defer { WaitForGraph.remove(mark) }
    if event.wait(nanoseconds: timeout.map(Clocks.nanoseconds(of:))) { return }
    // The stripe may have been granted at the deadline.
    if let limit = timeout, withdraw(stripe, mark) != nil { throw StorageError.writerWaits(limit) }
  }

  private func enterLater(
    _ stripe: Int, _ mark: LockHolder, _ holding: [LockHolder], _ timeout: Duration?
  ) async throws {
    if enterIfFree(stripe, mark) { return }
    defer { WaitForGraph.remove(mark) }
    let timer = timeout.map { limit in
      DeadlineTimer.shared.schedule(after: Clocks.nanoseconds(of: limit)) { [self] in
        withdraw(stripe, mark)?.fail(StorageError.writerWaits(limit))
      }
    }
    defer { if let timer { DeadlineTimer.shared.cancel(timer) } }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        do {
          if try queue(.task(continuation), stripe, mark, holding) { return continuation.resume() }
        } catch {
          return continuation.resume(throwing: error)
        }
        // The handler may have run before there was a waiter.
        if Task.isCancelled, holding.isEmpty { withdraw(stripe, mark)?.fail(CancellationError()) }
      }
    } onCancel: {
      // Within another turn, a part of the storages may be written already.
      if holding.isEmpty { withdraw(stripe, mark)?.fail(CancellationError()) }
    }
  }

  /// Removes a waiter from the queue; `nil` if it is not in there, or any more.
  private func withdraw(_ stripe: Int, _ mark: LockHolder) -> Waiter? {
    stripes.withLock { stripes in
      guard let index = stripes[stripe].waiting.firstIndex(where: { $0.mark === mark }) else {
        return nil
      }
      return stripes[stripe].waiting.remove(at: index).waiter
    }
  }

  /// Takes a stripe that is free.
  private func enterIfFree(_ stripe: Int, _ mark: LockHolder) -> Bool {
    stripes.withLock { stripes in
      guard stripes[stripe].holder == nil else { return false }
      stripes[stripe].holder = mark
      return true
    }
  }

  /// Appends a waiter to the queue. Returns `true` if the stripe is free by now.
  private func queue(
    _ waiter: Waiter, _ stripe: Int, _ mark: LockHolder, _ holding: [LockHolder]
  ) throws -> Bool {
    func append() -> Bool {
      stripes.withLock { stripes in
        if stripes[stripe].holder == nil {
          stripes[stripe].holder = mark
          return true
        }
        stripes[stripe].waiting.append((mark, waiter))
        return false
      }
    }
    // No holder waits for a caller that holds no stripe.
    if holding.isEmpty { return append() }
    if holding.contains(where: { $0.isFilling }) { throw StorageError.fillingWaits }
    let request = WaitForGraph.Request(mark: mark, holding: holding, turns: self, stripe: stripe)
    return try WaitForGraph.wait(request) {
      append()
    } giveUp: {
      withdraw(stripe, mark) != nil
    }
  }

  func holder(of stripe: Int) -> LockHolder? { stripes.withLock { $0[stripe].holder } }

  private func leave(_ held: [Int], _ mark: LockHolder) {
    mark.isExpired.store(true, ordering: .releasing)
    for stripe in held { give(stripe) }
  }

  private func give(_ stripe: Int) {
    let next: Waiter? = stripes.withLock { stripes in
      if stripes[stripe].waiting.isEmpty {
        stripes[stripe].holder = nil
        return nil
      }
      let next = stripes[stripe].waiting.removeFirst()
      stripes[stripe].holder = next.mark
      return next.waiter
    }
    next?.resume()
  }

  // MARK: Pull-ups

  private func begin(_ hash: Int, ifStill stamp: UInt64) -> (mark: LockHolder, marks: [LockHolder])?
  {
    guard let outer = try? outside() else { return nil }
    let mark = LockHolder(self, isFilling: true)
    let stripe = Self.stripe(hash)
    let isFree = stripes.withLock { stripes in
      guard stripes[stripe].holder == nil, stripes[stripe].stamp == stamp else { return false }
      stripes[stripe].holder = mark
      return true
    }
    return isFree ? (mark, outer + [mark]) : nil
  }

  /// Runs `body` if nothing was written under the key's stripe since the stamp, and nothing is.
  func fill(
    _ hash: Int, ifStill stamp: UInt64, _ body: () throws -> Bool
  ) rethrows -> Bool {
    guard let (mark, marks) = begin(hash, ifStill: stamp) else { return false }
    defer { leave([Self.stripe(hash)], mark) }
    return try Self.$marks.withValue(marks) { try body() }
  }

  /// Runs `body` if nothing was written under the key's stripe since the stamp, and nothing is.
  func fill(
    _ hash: Int, ifStill stamp: UInt64, _ body: @Sendable () async throws -> Bool
  ) async throws -> Bool {
    guard let (mark, marks) = begin(hash, ifStill: stamp) else { return false }
    defer { leave([Self.stripe(hash)], mark) }
    return try await withTaskExecutorPreference(BackgroundExecutor.shared) {
      try await Self.$marks.withValue(marks) { try await body() }
    }
  }
}
