// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// CROSSING WRITES
//
// The closure of a transaction may write to another store. If the closures of two stores cross (A's writes
// to B while B's writes to A), each would wait for the other until its time limit. So a thread that waits
// for a store while it is inside a transaction of another registers here, and checks whether the thread
// inside a transaction of the awaited store waits, directly or through others, for a store whose
// transaction this thread is in. If so it does not wait but throws `crossingWrites`: its closure ends, and
// the other one continues.
//
// One check at the start of each wait is sufficient: a circle is closed by the last of its threads that
// begins to wait, and that finds the others registered. Only waits within this process are known; two
// processes that cross wait until the time limit of one of them.

/// The waits of threads that are inside of transactions.
final class CrossingWrites: Sendable {
  private static let waits = Mutex<[UInt64: StoreCore]>([:])
  /// The number of transactions of users that run in this process.
  static let running = Atomic<Int>(0)

  private let thread: UInt64

  /// Registers a wait of this thread for a store, if it is inside a transaction of another one.
  ///
  /// - Parameter giveUp: Withdraws what waits; returns whether that was possible.
  /// - Returns: `nil` if the thread is inside no transaction.
  /// - Throws: ``StoreError/Code/crossingWrites`` if the wait would not end.
  static func begin(
    waitingFor core: StoreCore, giveUp: () -> Bool = { true }
  ) throws(StoreError) -> CrossingWrites? {
    guard running.load(ordering: .acquiring) > 0 else { return nil }
    let held = StoreCore.coresInTransaction(on: OSThread.token)
    guard !held.isEmpty else { return nil }
    let hasClosedCircle = waits.withLock { waits in
      if isCircle(from: core, to: held, waits), giveUp() { return true }
      waits[OSThread.token] = core
      return false
    }
    if hasClosedCircle { throw .crossingWrites(path: core.directory.path) }
    return CrossingWrites(OSThread.token)
  }

  private init(_ thread: UInt64) { self.thread = thread }

  /// Ends the registration.
  func end() { Self.waits.withLock { _ = $0.removeValue(forKey: thread) } }

  private static func isCircle(
    from core: StoreCore, to held: [StoreCore], _ waits: [UInt64: StoreCore]
  ) -> Bool {
    var core = core
    // A chain visits each thread that waits once.
    for _ in 0...waits.count {
      guard let next = waits[core.bodyThread.load(ordering: .relaxed)] else { return false }
      if held.contains(where: { $0 === next }) { return true }
      core = next
    }
    return false
  }
}

extension StoreError {
  fileprivate static func crossingWrites(path: String) -> StoreError {
    StoreError(
      .crossingWrites, during: "write", path: path,
      "This thread is inside a transaction of another store and would wait for a transaction that waits "
        + "for that store. Nothing was stored. Write to the stores in one order everywhere, or after the "
        + "closure.")
  }
}
