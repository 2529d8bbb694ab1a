// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem

/// The identity of a snapshot: its generation and its commit version.
package struct SnapshotView: Sendable {
  package let generation: Generation
  /// The commit version of the newest transaction that the snapshot contains.
  package let commitVersion: UInt64

  /// The commit version, inverted: the value that memory tiers compare with the stamps.
  package var readVersion: UInt64 { ~commitVersion }

  /// Returns whether the keys of a slot are unchanged since a commit version.
  package func isCurrent(_ slot: StampSlot, since commitVersion: UInt64) -> Bool {
    generation.table.minimumValidReadVersion(slot: slot) <= commitVersion
  }
}

/// A consistent view of a store: an LMDB transaction with its generation and its commit version.
///
/// `withSnapshot` passes it to a closure. Neither the snapshot nor a span or cursor of its
/// transaction can outlive the closure. Nothing may wait while it exists, because it pins pages.
package struct Snapshot: ~Copyable, ~Escapable {
  package let view: SnapshotView
  /// The read transaction, or a write transaction that shows its own changes.
  package let transaction: ReadTransaction
  /// Whether the transaction is a write transaction, which may be aborted.
  package let showsUncommitted: Bool

  /// Creates a snapshot of a transaction that belongs to the generation of `view`.
  @inline(__always) @_lifetime(borrow transaction)
  package init(
    _ view: SnapshotView, _ transaction: borrowing ReadTransaction, showsUncommitted: Bool = false
  ) {
    self.view = view
    self.showsUncommitted = showsUncommitted
    self.transaction = ReadTransaction(lending: transaction)
  }

  @inline(__always) package var generation: Generation { view.generation }
  /// The commit version of the newest transaction that the snapshot contains.
  @inline(__always) package var commitVersion: UInt64 { view.commitVersion }
  /// The commit version, inverted: the value that memory tiers compare with the stamps.
  @inline(__always) package var readVersion: UInt64 { view.readVersion }
}

/// An entry that cannot be read in a snapshot.
struct DamagedEntry: Error {
  let text: String
  /// The commit version in the entry's header, or zero if the header is unreadable.
  let commitVersion: UInt64

  static func wrongChecksum(_ header: EntryHeader) -> DamagedEntry {
    DamagedEntry(text: "the entry's checksum is wrong", commitVersion: header.commitVersion)
  }
}

extension StoreCore {
  /// The number of new snapshots in which damage is read again before it is reported. Pages written
  /// by another process may become visible late on some kernels.
  static let damageRetries = 3
  /// The pause before each of these reads, in nanoseconds.
  static let damagePause: UInt64 = 1_000_000
  /// The number of generations that one operation may fence. A successor is new, so damage in it as
  /// well is caused by the disk or by the program.
  private static let fencesPerRead = 2

  /// Runs `body` in one snapshot, and again under the policy of ``reading(_:canRepeat:_:)``.
  ///
  /// - Parameters:
  ///   - operation: The operation that errors name.
  ///   - canRepeat: Whether `body` may run again after damage. A body that passes parts of the
  ///     result on returns `false` as soon as it has passed on the first.
  ///   - body: A closure that reads. It may run several times, so it must not accumulate results.
  /// - Returns: The result of the last run of `body`.
  /// - Throws: The errors of ``reading(_:canRepeat:_:)``.
  package func withSnapshot<R>(
    _ operation: String, canRepeat: () -> Bool = { true }, _ body: (borrowing Snapshot) throws -> R
  ) throws -> R {
    try reading(operation, canRepeat: canRepeat) { try $0.withSnapshot(body) }
  }

  /// Runs an operation that only reads. This is the only policy for generation switches and for
  /// damage found by a read.
  ///
  /// After a generation switch, `body` runs again in the successor. Damage is read again in up to
  /// three new snapshots. After that, a cache fences the generation in which a page was damaged,
  /// and only that one, and reads in its successor; a store that survives system crashes throws. A
  /// damaged entry fences nothing. An entry whose header is unreadable is not read again. If
  /// `canRepeat` returns `false`, the first damaged page throws.
  ///
  /// - Throws: ``StoreError``, with ``StoreError/Code/damaged`` also if two consecutive generations
  ///   were damaged; ``DamagedEntry`` if `body` threw it in each of the snapshots; other errors of
  ///   `body`. No error of the lower layers reaches the caller.
  func reading<R>(
    _ operation: String, canRepeat: () -> Bool = { true }, _ body: (Generation) throws -> R
  ) throws -> R {
    var retries = 0
    var fences = 0
    var currentGeneration: Generation?
    while true {
      do {
        return try withGeneration { generation in
          if currentGeneration !== generation {
            currentGeneration = generation
            retries = 0
          }
          return try body(generation)
        }
      } catch let damage as DamagedEntry {
        guard damage.commitVersion != 0, retries < StoreCore.damageRetries else { throw damage }
        retries += 1
      } catch let error as LMDBError {
        guard error.isDamage, canRepeat(), let damaged = currentGeneration else {
          throw StoreError(wrapping: error, during: operation, path: directory.path)
        }
        retries += 1
        if retries > StoreCore.damageRetries {
          guard fences < StoreCore.fencesPerRead else {
            throw StoreError(wrapping: error, during: operation, path: directory.path)
          }
          fences += 1
          try abandon(damaged, because: error)
        }
      }
      Event().wait(nanoseconds: StoreCore.damagePause)
    }
  }

  /// Leaves a generation whose file cannot be read; a durable store throws.
  private func abandon(_ generation: Generation, because error: LMDBError) throws {
    do {
      try fence(generation, because: error)
    } catch EngineSignal.generationChanged {
      try switchGeneration(from: generation)
    }
  }
}

extension Snapshot {
  /// Returns the totals of the store.
  func totals() throws -> StoreTotals {
    guard let record = try transaction.value(forKey: StoreTotals.key, in: .main),
      let totals = StoreTotals(record)
    else { throw LMDBError(.corrupted, during: "the totals record") }
    return totals
  }
}
