// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// A FILE THAT GROWS BECAUSE OF READERS
//
// LMDB uses a freed page again once no reader has an older snapshot. A read takes microseconds, but the system can
// suspend its thread in the middle, for milliseconds if more threads run than there are processors. Each commit of the
// others then takes new pages from the end of the file, which never gets shorter: thousands of commits, so a small
// cache's file had more than ten times its budget. So a writer of a cache whose file has reached a bound and grows
// waits, before it begins its transaction, for readers that are several commits behind. It has the writer ticket, so
// the others wait as well, and the processor is free for the reader.
//
// A reader that lasts longer (a scan, `verify()`, a stopped process) is waited for once by each process that writes.
// Then the file grows for as long as it lasts, and `checkGrowth` decides whether a copy of the store is smaller.
//
// A store that survives system crashes does not wait: its own checkpoints hold snapshots.

/// The waits of one process for readers, before its transactions make the file of a generation grow.
package final class GrowthWait: Sendable {
  /// The last page of the file at the last look, zero before the first one: without growth there is no look.
  fileprivate let lastPage = Atomic<Int>(0)
  /// The newest snapshot whose reader has outlasted a wait.
  fileprivate let outlasted = Atomic<UInt64>(0)
  /// The longest wait, in nanoseconds.
  fileprivate let patience = Atomic<UInt64>(100_000_000)
  fileprivate let waits = Atomic<Int>(0)

  fileprivate let pause = Event()

  /// The commits by which a reader has to be behind.
  fileprivate static let lag = 4
  fileprivate static let napNanoseconds: UInt64 = 200_000

  /// The bytes of the file from which on writers wait: what the entries of a full store need without any reader, if
  /// they are not small.
  fileprivate static func bound(ofBudget budget: UInt64) -> UInt64 {
    budget + budget / 2 + (1 << 20)
  }

  // MARK: Tests

  /// The number of waits so far.
  package var count: Int { waits.load(ordering: .relaxed) }

  package func setPatience(nanoseconds: UInt64) { patience.store(nanoseconds, ordering: .relaxed) }
}

extension Generation {
  /// Waits for old readers, if the file grows beyond its bound. The caller has the writer ticket, and no transaction.
  @inline(__always)
  ///
  /// - Parameter timeout: The longest wait of a write for its turn, of which this wait takes an eighth at most.
  func awaitReaders(timeout: Duration) {
    guard keeper == nil else { return }
    let last = environment.lastPage
    let before = growth.wait.lastPage.load(ordering: .relaxed)
    if last <= before { return }
    growth.wait.lastPage.store(last, ordering: .relaxed)
    // What the file has grown by before the first write is no growth by this process.
    if before > 0 { awaitReaders(lastPage: last, timeout) }
  }

  @inline(never)
  private func awaitReaders(lastPage last: Int, _ timeout: Duration) {
    let wait = growth.wait
    let budget = table.budget
    let size = UInt64(last + 1) * UInt64(environment.information.pageSize)
    guard budget > 0, size > GrowthWait.bound(ofBudget: budget), !isReadingOnCurrentThread else {
      return
    }
    var end: UInt64?
    while let (reader, snapshot) = environment.oldestSnapshot,
      reader.transactionsBehind >= GrowthWait.lag,
      snapshot > wait.outlasted.load(ordering: .relaxed)
    {
      let now = Clocks.monotonicNanoseconds()
      guard let limit = end else {
        let most = max(timeout.nanoseconds / 8, 1_000_000)
        end = now &+ min(wait.patience.load(ordering: .relaxed), most)
        wait.waits.wrappingAdd(1, ordering: .relaxed)
        // That of a killed process ends now.
        _ = try? environment.clearDeadReaders()
        continue
      }
      if now >= limit { return wait.outlasted.store(snapshot, ordering: .relaxed) }
      wait.pause.wait(nanoseconds: GrowthWait.napNanoseconds)
    }
  }
}
