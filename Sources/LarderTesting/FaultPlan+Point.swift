// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension FaultPlan {
  /// A fault point: a named step inside Larder.
  ///
  /// The points are in the order in which an opening, a write, a read, a computation or a closing
  /// reaches them. Later versions may have more; ``allCases`` has those of this version.
  public struct Point: RawRepresentable, Hashable, Sendable, CaseIterable,
    CustomStringConvertible
  {
    /// The name, as in the environment variable.
    public let rawValue: String

    /// Creates a point from its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    private init(_ point: FaultPoint) { rawValue = point.rawValue }

    /// The name.
    public var description: String { rawValue }

    /// All points except ``everywhere``.
    public static var allCases: [Point] { FaultPoint.allCases.map { Point($0) } }

    /// Whether the step can fail here, so that ``Fault/error(at:errno:occurrence:percent:)`` may name
    /// it.
    public var canFail: Bool {
      self == .everywhere || FaultPoint(rawValue: rawValue)?.canFail ?? false
    }

    /// All points at once; for errors, all that can fail.
    public static let everywhere = Point(rawValue: "*")

    // MARK: Opening

    /// The open lock was acquired.
    public static let openGateTaken = Point(.openGateTaken)
    /// A new store's files are built under a temporary name.
    public static let openGenerationBuilt = Point(.openGenerationBuilt)
    /// The files have their final name, and `CURRENT` does not name them yet.
    public static let openGenerationRenamed = Point(.openGenerationRenamed)
    /// `CURRENT` names the files, and after a loss of power perhaps the former ones.
    public static let currentRenamed = Point(.currentRenamed)
    /// `CURRENT` names the files; of a store that survives a loss of power, on the disk.
    public static let openCurrentWritten = Point(.openCurrentWritten)
    /// The process has determined whether other processes have the store open.
    public static let openPresenceTaken = Point(.openPresenceTaken)
    /// The shared-memory table and the state file were checked.
    public static let openTableReady = Point(.openTableReady)
    /// LMDB is about to open the file.
    public static let openBeforeEnvironment = Point(.openBeforeEnvironment)
    /// LMDB has opened the file.
    public static let openAfterEnvironment = Point(.openAfterEnvironment)
    /// The process has its process slot.
    public static let openSlotTaken = Point(.openSlotTaken)
    /// The store is open.
    public static let openDone = Point(.openDone)

    // MARK: Writing

    /// A transaction has begun: the writer lock was acquired.
    public static let begin = Point(.begin)
    /// The commit version of the transaction is published.
    public static let afterWriterLabel = Point(.afterWriterLabel)
    /// The first write of a boot has marked the store as in use.
    public static let stateDirty = Point(.stateDirty)
    /// Before each write of a transaction.
    public static let betweenPuts = Point(.betweenPuts)
    /// Eviction has made room in the budget.
    public static let afterEviction = Point(.afterEviction)
    /// All changes are in the transaction, and no stamp is stored.
    public static let beforeStamps = Point(.beforeStamps)
    /// Some of the changed keys are stamped.
    public static let betweenStamps = Point(.betweenStamps)
    /// All changed keys are stamped.
    public static let afterStamps = Point(.afterStamps)
    /// The commit is next. An error here is one of the commit.
    public static let beforeCommit = Point(.beforeCommit)
    /// The transaction is committed, and no call has returned.
    public static let afterCommit = Point(.afterCommit)
    /// Waiters for the commit have not been woken.
    public static let beforeWake = Point(.beforeWake)

    // MARK: Checkpoints of relaxed stores

    /// A sync is about to begin. An error here is one of the sync.
    public static let syncBegun = Point(.syncBegun)
    /// A snapshot is on disk without a checkpoint record.
    public static let beforeRecord = Point(.beforeRecord)
    /// The checkpoint is recorded, and the shared-memory table does not contain it.
    public static let afterRecord = Point(.afterRecord)
    /// After a system crash: the last recorded snapshot is restored and not synced.
    public static let restoreWritten = Point(.restoreWritten)
    /// The restored snapshot is synced.
    public static let restoreSynced = Point(.restoreSynced)
    /// The restored snapshot is recorded under its new version.
    public static let restoreRecorded = Point(.restoreRecorded)

    // MARK: The redo log of durable stores

    /// The record of a transaction is written and not committed.
    public static let logWritten = Point(.logWritten)
    /// The end of the log is behind the record of a transaction that is not committed.
    public static let logEnded = Point(.logEnded)
    /// A transaction is committed, and its process has not waited for its record.
    public static let logCommitted = Point(.logCommitted)
    /// The process has the lock for syncing the log.
    public static let logSyncing = Point(.logSyncing)
    /// In a `.durableStrict` store: the record of a transaction is on the disk, and the transaction not committed.
    public static let logSynced = Point(.logSynced)
    /// After a system crash: a transaction with changes from the log is committed.
    public static let logReplayed = Point(.logReplayed)
    /// A file of the log is created, and its name not synced yet.
    public static let logFileCreated = Point(.logFileCreated)

    // MARK: Reading

    /// A read has its snapshot.
    public static let afterRenew = Point(.afterRenew)
    /// A value was read, and the memory tier does not contain it yet.
    public static let beforeFill = Point(.beforeFill)

    // MARK: Single flight

    /// The process holds the computation lease of the key.
    public static let leaseTaken = Point(.leaseTaken)
    /// Writers of the key will cancel the computation.
    public static let leaseRegistered = Point(.leaseRegistered)
    /// The computed value is about to be written.
    public static let leaseBeforeFill = Point(.leaseBeforeFill)

    // MARK: Locks

    /// The process changes the list of a lock: it has its ticket.
    public static let lockEntered = Point(.lockEntered)
    /// A request for a lock is in its list, and not granted yet.
    public static let lockQueued = Point(.lockQueued)
    /// A lock is released, and granted to no other request yet.
    public static let lockReleased = Point(.lockReleased)
    /// The process has counted enough callers of a barrier, and the barrier has not opened yet.
    public static let barrierCounted = Point(.barrierCounted)
    /// The barrier has opened, and none of its callers continues yet.
    public static let barrierOpened = Point(.barrierOpened)

    // MARK: Combined writes

    /// The process has offered a write to the process that writes.
    public static let writeOffered = Point(.writeOffered)
    /// A writer has claimed the writes that other processes offer, and executed none yet.
    public static let offersClaimed = Point(.offersClaimed)
    /// The owner of an offered write that is claimed has found that it is not executed yet.
    public static let claimAwaited = Point(.claimAwaited)

    // MARK: Objects, within a transaction

    /// The index keys of a saved object are written, the object is not.
    public static let objectIndexed = Point(.objectIndexed)
    /// The index keys of a deleted object are removed, the object is not.
    public static let objectUnlinked = Point(.objectUnlinked)
    /// The record of a type has been written.
    public static let catalogChanged = Point(.catalogChanged)
    /// The progress of a migration has been written.
    public static let migrationNoted = Point(.migrationNoted)
    /// The tombstone of an identifier has been written.
    public static let numberDropped = Point(.numberDropped)
    /// A sweep is about to delete a part of the dropped data.
    public static let sweepStep = Point(.sweepStep)

    // MARK: Fencing, compaction and closing

    /// The generation is fenced; other processes have not detected it.
    public static let condemnMarked = Point(.condemnMarked)
    /// A compaction has written its copy without the open lock; the switch is next.
    public static let copyWritten = Point(.copyWritten)
    /// The open lock was acquired to close the store. An error here is one of the final sync.
    public static let closeGateTaken = Point(.closeGateTaken)
    /// A store that its last process closes is on disk.
    public static let closeSynced = Point(.closeSynced)
    /// The store is closed.
    public static let closeDone = Point(.closeDone)
  }
}
