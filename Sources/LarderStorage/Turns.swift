// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// Writers of one key take turns, and pull-ups are conditional.
//
// A storage of layers holds a value in several places. Without order, two writers could leave one's
// value in front and the other's in the back for ever; and a reader that missed in front, was slow in
// the back and then filled the front could bury a value written meanwhile. So:
//
// * Keys are spread over 64 stripes by their hash. A writer holds its key's stripe while it writes all
//   layers.
// * Each stripe has a stamp, which every write advances before its first and after its last layer. A
//   reader that misses takes the stamp *before* it asks the back, and fills the front only if the stamp
//   is still the same, holding the stripe meanwhile. If the stripe is not free, a write is on its way:
//   the reader does not wait but leaves the front alone.
//
// Removing goes from the back to the front, setting from the front to the back; with the second stamp,
// a pull-up that read the back before either was done is refused in both cases.
//
// No deadlocks. A stripe is held by a thread that runs, or by a task on threads of its own
// (BackgroundExecutor): it never waits for a free thread of Swift's pool, so threads of the pool may wait
// for it. A write by the closure of a write of the same storage would wait for itself, or two such for
// each other; it is an error, told by a task-local mark.

/// Lets writers of one key take turns, and tells pull-ups whether anything was written meanwhile.
@usableFromInline
final class Turns: Sendable {
  private enum Waiter {
    case thread(Event)
    case task(CheckedContinuation<Void, Never>)

    func resume() {
      switch self {
      case .thread(let event): event.set()
      case .task(let continuation): continuation.resume()
      }
    }
  }

  private struct Stripe {
    var isTaken = false
    var waiters: [Waiter] = []
    var stamp: UInt64 = 0
  }

  /// The mark of a turn in progress, seen by whatever runs inside it.
  private final class Mark: Sendable {
    let turns: ObjectIdentifier
    let isOver = Atomic<Bool>(false)
    init(_ turns: Turns) { self.turns = ObjectIdentifier(turns) }
  }

  @TaskLocal private static var marks: [Mark] = []

  static let count = 64
  private let stripes = Mutex([Stripe](repeating: Stripe(), count: Turns.count))

  init() {}

  /// A number for a key: 0 for all keys of types that are not hashable.
  static func hash<Key>(_ key: Key) -> Int { (key as? any Hashable)?.hashValue ?? 0 }

  private static func stripe(_ hash: Int) -> Int {
    Int(UInt(bitPattern: hash) % UInt(count))
  }

  // MARK: Stamps

  func stamp(_ hash: Int) -> UInt64 { stripes.withLock { $0[Self.stripe(hash)].stamp } }

  func advance(_ hash: Int) { stripes.withLock { $0[Self.stripe(hash)].stamp &+= 1 } }

  func advanceAll() {
    stripes.withLock { for index in 0..<Self.count { $0[index].stamp &+= 1 } }
  }

  // MARK: Turns

  /// Whether the caller runs inside a turn.
  var isInside: Bool {
    let me = ObjectIdentifier(self)
    return Self.marks.contains { $0.turns == me && !$0.isOver.load(ordering: .acquiring) }
  }

  private func mark() throws -> (Mark, [Mark]) {
    if isInside { throw StorageError.recursiveUpdate }
    let mark = Mark(self)
    return (mark, Self.marks.filter { !$0.isOver.load(ordering: .relaxed) } + [mark])
  }

  /// Runs `body` when it is the key's turn; the thread waits for it.
  func take<Result>(_ hash: Int, _ body: () throws -> Result) throws -> Result {
    let (mark, marks) = try mark()
    let stripe = Self.stripe(hash)
    let event: Event? = stripes.withLock { stripes in
      if !stripes[stripe].isTaken {
        stripes[stripe].isTaken = true
        return nil
      }
      let event = Event()
      stripes[stripe].waiters.append(.thread(event))
      return event
    }
    event?.wait()
    defer {
      mark.isOver.store(true, ordering: .releasing)
      give(stripe)
    }
    return try Self.$marks.withValue(marks) { try body() }
  }

  /// Runs `body` when it is the key's turn, on threads that are none of Swift's pool.
  func take<Result: Sendable>(
    _ hash: Int, _ body: @Sendable () async throws -> Result
  ) async throws -> Result {
    let (mark, marks) = try mark()
    let stripe = Self.stripe(hash)
    await withCheckedContinuation { continuation in
      let isFree = stripes.withLock { stripes in
        let isFree = !stripes[stripe].isTaken
        stripes[stripe].isTaken = true
        if !isFree { stripes[stripe].waiters.append(.task(continuation)) }
        return isFree
      }
      if isFree { continuation.resume() }
    }
    defer {
      mark.isOver.store(true, ordering: .releasing)
      give(stripe)
    }
    return try await withTaskExecutorPreference(BackgroundExecutor.shared) {
      try await Self.$marks.withValue(marks) { try await body() }
    }
  }

  private func give(_ stripe: Int) {
    let next: Waiter? = stripes.withLock { stripes in
      if stripes[stripe].waiters.isEmpty {
        stripes[stripe].isTaken = false
        return nil
      }
      return stripes[stripe].waiters.removeFirst()
    }
    next?.resume()
  }

  // MARK: Pull-ups

  private func begin(_ hash: Int, ifStill stamp: UInt64) -> Bool {
    if isInside { return false }
    return stripes.withLock { stripes in
      let stripe = Self.stripe(hash)
      guard !stripes[stripe].isTaken, stripes[stripe].stamp == stamp else { return false }
      stripes[stripe].isTaken = true
      return true
    }
  }

  /// Runs `body` if nothing was written under the key's stripe since the stamp, and nothing is.
  func fill(
    _ hash: Int, ifStill stamp: UInt64, _ body: () throws -> Bool
  ) rethrows -> Bool {
    guard begin(hash, ifStill: stamp) else { return false }
    defer { give(Self.stripe(hash)) }
    return try body()
  }

  /// Runs `body` if nothing was written under the key's stripe since the stamp, and nothing is.
  func fill(
    _ hash: Int, ifStill stamp: UInt64, _ body: @Sendable () async throws -> Bool
  ) async throws -> Bool {
    guard begin(hash, ifStill: stamp) else { return false }
    defer { give(Self.stripe(hash)) }
    return try await withTaskExecutorPreference(BackgroundExecutor.shared) { try await body() }
  }
}
