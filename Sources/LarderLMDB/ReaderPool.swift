// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A read transaction that is reset between reads and keeps its reader slot.
@usableFromInline
package final class PooledReader {
  package let index: Int
  /// The token of the thread that holds the reader, or zero if it is free.
  fileprivate let holder = Atomic<UInt64>(0)
  // Only the holder, a single thread, accesses these, so exclusivity holds without the runtime
  // check, which would add three list entries to each read.
  @exclusivity(unchecked) private var transaction: ReadTransaction?
  @exclusivity(unchecked) private var isBegun = false
  /// A second transaction; see ``publishes(_:in:)``. It is reset between its uses.
  @exclusivity(unchecked) private var probe: ReadTransaction?
  @exclusivity(unchecked) private var isProbeBegun = false

  init(index: Int) { self.index = index }

  /// Acquires the newest snapshot.
  ///
  /// - Returns: Its transaction id.
  package func renew(in environment: EnvironmentHandle) throws(LMDBError) -> UInt64 {
    if unsafe isBegun { return try unsafe transaction!.renew() }
    let begun = try ReadTransaction(in: environment)
    let id = begun.id
    unsafe transaction = consume begun
    unsafe isBegun = true
    return id
  }

  @usableFromInline
  package func reset() { unsafe transaction?.reset() }

  /// Returns whether `id` is still the newest transaction that LMDB has published.
  ///
  /// LMDB has no function that returns the published id, but a transaction that begins gets it.
  fileprivate func publishes(
    _ id: UInt64, in environment: EnvironmentHandle
  ) throws(LMDBError) -> Bool {
    let published: UInt64
    if unsafe isProbeBegun {
      published = try unsafe probe!.renew()
    } else {
      let begun = try ReadTransaction(in: environment)
      published = begun.id
      unsafe probe = consume begun
      unsafe isProbeBegun = true
    }
    unsafe probe?.reset()
    return published == id
  }

  /// Acquires the reader for a thread, if it is free.
  fileprivate func take(for thread: UInt64) -> Bool {
    holder.load(ordering: .relaxed) == 0
      && holder.compareExchange(expected: 0, desired: thread, ordering: .acquiring).exchanged
  }

  fileprivate func giveBack() { holder.store(0, ordering: .releasing) }

  /// Ends the transaction and releases its reader slot.
  package func drop() {
    unsafe isBegun = false
    unsafe transaction = nil
    dropProbe()
  }

  /// Ends the second transaction and releases its reader slot.
  fileprivate func dropProbe() {
    unsafe isProbeBegun = false
    unsafe probe = nil
  }

  /// Calls a closure with the snapshot acquired last.
  @inline(__always)
  package func withTransaction<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) rethrows -> R {
    try unsafe body(transaction!)
  }
}

// Only the thread that became the holder, with acquire and release, accesses the transaction.
extension PooledReader: @unchecked Sendable {}

/// The read transactions of this process in one environment.
///
/// Acquiring and releasing a reader are two atomic operations. Normally the pool uses twice as many
/// readers as there are cores. A thread that finds all of them held waits the microseconds that a
/// read takes. Their holders may themselves wait for another reader, for a nested read: so after a
/// while a thread acquires a reader of the reserve. If the reserve is used up as well and every
/// holder waits for one more, one of them throws, and the others continue with the readers that it
/// releases. No thread waits longer than the time limit.
@safe @usableFromInline
package final class ReaderPool: Sendable {
  private let readers: [PooledReader]
  // Safe: the pointers of `readers`, which live as long; access through them counts no reference.
  private nonisolated(unsafe) let uncounted: UnsafeMutablePointer<Unmanaged<PooledReader>>
  /// The number of readers in normal use; the rest are the reserve.
  private let usual: Int
  private let isClosed = Atomic<Bool>(false)
  /// The number of readers that are held by threads waiting for another.
  private let stuck = Atomic<Int>(0)
  private let timeLimit: UInt64

  /// The number of rounds without a free reader before a thread uses the reserve.
  private static let patience = 256

  /// The error of a thread that gets no reader.
  package struct Exhausted: Error {
    package let capacity: Int
    /// Whether the thread itself holds readers.
    package let isNested: Bool
  }

  package init(usual: Int, capacity: Int, timeLimit: Duration = .seconds(60)) {
    readers = (0..<max(capacity, 2)).map { PooledReader(index: $0) }
    unsafe uncounted = .allocate(capacity: readers.count)
    for (index, reader) in readers.enumerated() {
      unsafe (uncounted + index).initialize(to: .passUnretained(reader))
    }
    self.usual = min(max(usual, 2), readers.count)
    self.timeLimit = UInt64(max(timeLimit.components.seconds, 0)) * 1_000_000_000
  }

  deinit { unsafe uncounted.deallocate() }

  /// Whether this thread holds a reader: it is inside a read.
  package var isHeldByCurrentThread: Bool { heldHere > 0 }

  private var heldHere: Int {
    let token = OSThread.token
    return readers.count { $0.holder.load(ordering: .relaxed) == token }
  }

  /// Acquires a reader for this thread alone, or returns `nil` if the pool is closed.
  @inline(__always)
  package func take() throws(Exhausted) -> PooledReader? {
    let token = OSThread.token
    let start = start(token)
    let reader = readers[start]
    if reader.take(for: token) { return admitted(reader) }
    return try search(token, from: start)
  }

  /// Prevents the pool from closing, if the pool is open and this thread's first reader is free.
  ///
  /// - Returns: The argument for ``leave(_:)``, or `nil` if the caller must acquire a reader.
  package func enter() -> Int? {
    let token = OSThread.token
    let index = start(token)
    guard unsafe uncounted[index]._withUnsafeGuaranteedRef({ $0.take(for: token) }) else {
      return nil
    }
    // The closing thread acquires all readers after it has set `isClosed`.
    if !isClosed.load(ordering: .acquiring) { return index }
    leave(index)
    return nil
  }

  package func leave(_ index: Int) {
    unsafe uncounted[index]._withUnsafeGuaranteedRef { $0.giveBack() }
  }

  /// Returns the reader at which this thread starts. Threads start at different readers, so the
  /// usual case is one exchange.
  @inline(__always)
  private func start(_ token: UInt64) -> Int {
    Int(truncatingIfNeeded: ((token >> 12) ^ (token >> 20)) & 0xFFFF) % usual
  }

  /// Returns `nil` if the pool is closed. The closing thread acquires all readers after it has set
  /// `isClosed`.
  @inline(__always)
  private func admitted(_ reader: PooledReader) -> PooledReader? {
    if isClosed.load(ordering: .acquiring) {
      reader.giveBack()
      return nil
    }
    return reader
  }

  private func search(_ token: UInt64, from start: Int) throws(Exhausted) -> PooledReader? {
    for _ in 0..<Self.patience {
      for offset in 0..<usual {
        if isClosed.load(ordering: .relaxed) { return nil }
        let reader = readers[(start + offset) % usual]
        if reader.take(for: token) { return admitted(reader) }
      }
      OSThread.yield()
    }
    if let reader = anyFree(token) { return admitted(reader) }
    // All readers are held, and time is left: check whether any holder can continue.
    let held = heldHere
    stuck.add(held, ordering: .sequentiallyConsistent)
    let deadline = Clocks.monotonicNanoseconds() &+ timeLimit
    var rounds = 0
    while !isClosed.load(ordering: .relaxed) {
      if let reader = anyFree(token) {
        stuck.subtract(held, ordering: .sequentiallyConsistent)
        return admitted(reader)
      }
      // Only one of the waiting threads throws: the first one.
      let isUnprobeable =
        held > 0
        && stuck.compareExchange(
          expected: readers.count, desired: readers.count - held,
          ordering: .sequentiallyConsistent
        ).exchanged
      if isUnprobeable { throw Exhausted(capacity: readers.count, isNested: true) }
      if Clocks.monotonicNanoseconds() > deadline {
        stuck.subtract(held, ordering: .sequentiallyConsistent)
        throw Exhausted(capacity: readers.count, isNested: held > 0)
      }
      rounds += 1
      if rounds < Self.patience { OSThread.yield() } else { Event().wait(nanoseconds: 1_000_000) }
    }
    stuck.subtract(held, ordering: .sequentiallyConsistent)
    return nil
  }

  private func anyFree(_ token: UInt64) -> PooledReader? { readers.first { $0.take(for: token) } }

  package func giveBack(_ reader: PooledReader) { reader.giveBack() }

  /// Releases LMDB's slots of the unused readers.
  package func releaseIdle() {
    let token = OSThread.token
    for reader in readers where reader.take(for: token) {
      reader.drop()
      reader.giveBack()
    }
  }

  /// Rejects further reads, waits for the reads in progress, and ends every transaction.
  ///
  /// - Parameter deadline: A time of the monotonic clock, in nanoseconds.
  /// - Returns: `false` if a read did not end by then; the pool is open as before.
  @discardableResult
  package func close(until deadline: UInt64 = .max) -> Bool {
    isClosed.store(true, ordering: .sequentiallyConsistent)
    let token = OSThread.token
    for (index, reader) in readers.enumerated() {
      var tries = 0
      while !reader.take(for: token) {
        if deadline < .max, Clocks.monotonicNanoseconds() >= deadline {
          for taken in readers[..<index] { taken.giveBack() }
          reopen()
          return false
        }
        tries += 1
        // A closure of the user may last.
        if tries < 1000 { OSThread.yield() } else { Event().wait(nanoseconds: 200_000) }
      }
      reader.drop()
    }
    // A thread that acquires a reader now releases it at once. This thread must not stay counted as
    // inside a read.
    for reader in readers { reader.giveBack() }
    return true
  }

  /// Allows reads again after ``close(until:)``.
  package func reopen() { isClosed.store(false, ordering: .sequentiallyConsistent) }
}

// RENEWING A SNAPSHOT
//
// LMDB reads the published transaction id N first and copies the roots from N's meta page after it.
// Transaction N + 2 overwrites that page. So a snapshot N is valid if N + 2 had not begun when the
// roots were copied; else the reader is reset and renewed again. Neither rule waits for a writer:
//
//   R2       in the engine, writers announce their transaction in shared memory before it has any
//            effect: the snapshot is valid if the newest announced transaction is at most N + 1.
//   publish  in an environment without shared memory, N + 2 begins after N + 1 is published, by its
//            writer or, after a kill, by the next one: the snapshot is valid if the newest published
//            transaction is still N.
//
// The newest *meta page* is not a criterion: a durable commit makes it visible long before the id
// is published, and a writer that is killed in between leaves it so until another one begins.

extension ReaderPool {
  /// The maximum number of renewals of one snapshot: each further one means that a commit
  /// intervened.
  @usableFromInline static let renewalLimit = 1_000_000

  /// Renews the snapshot of a reader until `isValid` accepts it. All renewals use this function.
  ///
  /// - Parameter isValid: Called with the snapshot's transaction id; applies one of the rules
  ///   above. If it throws, the reader is reset.
  /// - Returns: The id of the snapshot's transaction.
  /// - Throws: `LMDBError` with `problem` if no snapshot is accepted; the errors of LMDB and
  ///   `isValid`.
  @inlinable @inline(__always)
  package func renew(
    _ reader: PooledReader, in environment: EnvironmentHandle,
    until isValid: (UInt64) throws -> Bool
  ) throws -> UInt64 {
    for _ in 0..<ReaderPool.renewalLimit {
      let id = try snapshot(reader, in: environment)
      do {
        if try isValid(id) { return id }
      } catch {
        reader.reset()
        throw error
      }
      reader.reset()
    }
    throw ReaderPool.noValidSnapshot()
  }

  @usableFromInline
  static func noValidSnapshot() -> LMDBError { LMDBError(.problem, during: "mdb_txn_renew") }

  /// Renews a snapshot; releases slots of dead processes and resting readers if all are in use.
  @usableFromInline
  func snapshot(
    _ reader: PooledReader, in environment: EnvironmentHandle
  ) throws(LMDBError) -> UInt64 {
    do {
      return try reader.renew(in: environment)
    } catch {
      guard error.code == .readersFull else { throw error }
    }
    try environment.clearDeadReaders()
    releaseIdle()
    return try reader.renew(in: environment)
  }

  /// Returns whether snapshot `id` of `reader`, just renewed, is valid by the rule "publish".
  package func isValid(
    _ id: UInt64, of reader: PooledReader, in environment: EnvironmentHandle
  ) throws(LMDBError) -> Bool {
    // The reader's slot is visible to every writer that begins from here on.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    // N + 1 has not written its meta page, so it is not published either.
    if environment.lastTransaction == id { return true }
    do {
      return try reader.publishes(id, in: environment)
    } catch {
      reader.dropProbe()
      guard error.code == .readersFull else { throw error }
    }
    try environment.clearDeadReaders()
    releaseIdle()
    return try reader.publishes(id, in: environment)
  }
}
