// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A read transaction that rests between reads, keeping its reader slot.
package final class PooledReader {
  package let index: Int
  let isTaken = Atomic<Bool>(false)
  // Owned by whoever set `isTaken`.
  private var transaction: ReadTransaction?
  private var isBegun = false

  init(index: Int) { self.index = index }

  /// Takes the newest snapshot.
  ///
  /// - Returns: Its transaction id.
  package func renew(in environment: Environment) throws(LMDBError) -> UInt64 {
    if isBegun { return try transaction!.renew() }
    let begun = try ReadTransaction(in: environment)
    let id = begun.id
    transaction = consume begun
    isBegun = true
    return id
  }

  package func reset() { transaction?.reset() }

  /// Ends the transaction and gives its reader slot back.
  package func drop() {
    isBegun = false
    transaction = nil
  }

  /// Lends the snapshot taken last.
  @inline(__always)
  package func withTransaction<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) rethrows -> R {
    try body(transaction!)
  }
}

// The transaction is touched only by the thread that won `isTaken`, with acquire and release.
extension PooledReader: @unchecked Sendable {}

/// The read transactions of this process in one environment.
///
/// Taking one and giving it back is two atomic operations. Twice as many as cores are in use
/// usually; a thread that finds all taken waits the microseconds a read takes. Those who hold one may
/// want another, though, for a read inside a read: after a while a thread takes one of the reserve.
package final class ReaderPool: Sendable {
  private let readers: [PooledReader]
  /// So many are in use usually; the rest are the reserve.
  private let usual: Int
  private let isClosed = Atomic<Bool>(false)

  /// Rounds without a free one until the reserve is taken.
  private static let patience = 256

  package init(usual: Int, capacity: Int) {
    readers = (0..<max(capacity, 2)).map { PooledReader(index: $0) }
    self.usual = min(max(usual, 2), readers.count)
  }

  /// A reader for this thread alone, or `nil` when the pool was closed.
  package func take() -> PooledReader? {
    // Threads start at different readers, so that the usual case is one exchange.
    let token = OSThread.token
    var index = Int(truncatingIfNeeded: ((token >> 12) ^ (token >> 20)) & 0xFFFF) % usual
    var (tries, rounds, count) = (0, 0, usual)
    while true {
      if isClosed.load(ordering: .relaxed) { return nil }
      let reader = readers[index]
      if !reader.isTaken.load(ordering: .relaxed),
        reader.isTaken.compareExchange(
          expected: false, desired: true, ordering: .acquiring
        ).exchanged
      {
        if isClosed.load(ordering: .acquiring) {
          reader.isTaken.store(false, ordering: .releasing)
          return nil
        }
        return reader
      }
      index += 1
      if index >= count { index = 0 }
      tries += 1
      if tries >= count {
        OSThread.yield()
        (tries, rounds) = (0, rounds + 1)
        if rounds == ReaderPool.patience { count = readers.count }
      }
    }
  }

  package func giveBack(_ reader: PooledReader) {
    reader.isTaken.store(false, ordering: .releasing)
  }

  /// Gives the slots of resting readers back to LMDB.
  package func releaseIdle() {
    for reader in readers
    where reader.isTaken.compareExchange(
      expected: false, desired: true, ordering: .acquiring
    ).exchanged {
      reader.drop()
      reader.isTaken.store(false, ordering: .releasing)
    }
  }

  /// Lets nobody in any more, waits for those who are, and ends every transaction.
  package func close() {
    isClosed.store(true, ordering: .sequentiallyConsistent)
    for reader in readers {
      while !reader.isTaken.compareExchange(
        expected: false, desired: true, ordering: .acquiring
      ).exchanged {
        OSThread.yield()
      }
      reader.drop()
    }
  }
}
