// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension FaultPlan {
  /// A named place in Larder's work.
  ///
  /// In the order in which an opening, a write, a read, a computation or a closing comes through
  /// them. New versions may have more; ``allCases`` has those of this one.
  public struct Point: RawRepresentable, Hashable, Sendable, CaseIterable,
    CustomStringConvertible
  {
    /// The name, as in the environment.
    public let rawValue: String

    /// The point of a name.
    public init(rawValue: String) { self.rawValue = rawValue }

    private init(_ point: FaultPoint) { rawValue = point.rawValue }

    /// The name.
    public var description: String { rawValue }

    /// Every point there is, ``everywhere`` not counted.
    public static var allCases: [Point] { FaultPoint.allCases.map { Point($0) } }

    /// Whether the step can fail here, so that ``Fault/error(at:errno:occurrence:percent:)`` may name
    /// it.
    public var canFail: Bool {
      self == .everywhere || FaultPoint(rawValue: rawValue)?.canFail ?? false
    }

    /// All points at once; for errors, all that can fail.
    public static let everywhere = Point(rawValue: "*")

    // MARK: Opening

    /// The lock around every opening and closing is taken.
    public static let openGateTaken = Point(.openGateTaken)
    /// A new store's files are built under a temporary name.
    public static let openGenerationBuilt = Point(.openGenerationBuilt)
    /// They have their name, and nothing points at them yet.
    public static let openGenerationRenamed = Point(.openGenerationRenamed)
    /// `CURRENT` points at them.
    public static let openCurrentWritten = Point(.openCurrentWritten)
    /// The process has found out whether it is alone.
    public static let openPresenceTaken = Point(.openPresenceTaken)
    /// The shared table and the state were judged.
    public static let openTableReady = Point(.openTableReady)
    /// LMDB is about to open the file.
    public static let openBeforeEnvironment = Point(.openBeforeEnvironment)
    /// LMDB has opened the file.
    public static let openAfterEnvironment = Point(.openAfterEnvironment)
    /// The process has its place in the shared table.
    public static let openSlotTaken = Point(.openSlotTaken)
    /// The store is open.
    public static let openDone = Point(.openDone)

    // MARK: Writing

    /// A transaction has begun: the writer lock is taken.
    public static let begin = Point(.begin)
    /// The others know which transaction is under way.
    public static let afterWriterLabel = Point(.afterWriterLabel)
    /// The first write of a boot has marked the store as in use.
    public static let stateDirty = Point(.stateDirty)
    /// Before each write of a transaction.
    public static let betweenPuts = Point(.betweenPuts)
    /// Room was made in the budget.
    public static let afterEviction = Point(.afterEviction)
    /// All is written, and no memory tier knows.
    public static let beforeStamps = Point(.beforeStamps)
    /// Some keys are stamped as changed, others are not.
    public static let betweenStamps = Point(.betweenStamps)
    /// All changed keys are stamped.
    public static let afterStamps = Point(.afterStamps)
    /// The commit is next. An error here is one of the commit.
    public static let beforeCommit = Point(.beforeCommit)
    /// The transaction is committed, and no caller knows.
    public static let afterCommit = Point(.afterCommit)
    /// Those who wait for a commit have not been woken.
    public static let beforeWake = Point(.beforeWake)

    // MARK: Bringing a relaxed store to the disk

    /// A sync is about to begin. An error here is one of the sync.
    public static let syncBegun = Point(.syncBegun)
    /// A snapshot is on the disk, and nothing there says so.
    public static let beforeRecord = Point(.beforeRecord)
    /// That is recorded, and the processes do not know.
    public static let afterRecord = Point(.afterRecord)
    /// After a crash of the system: the snapshot recorded last is in force, not synced.
    public static let restoreWritten = Point(.restoreWritten)
    /// It is synced.
    public static let restoreSynced = Point(.restoreSynced)
    /// It is recorded under its new number.
    public static let restoreRecorded = Point(.restoreRecorded)

    // MARK: Reading

    /// A read has its snapshot.
    public static let afterRenew = Point(.afterRenew)
    /// A value was read and is not in memory yet.
    public static let beforeFill = Point(.beforeFill)

    // MARK: Computing once per machine

    /// The process holds the lock of the key it will compute.
    public static let leaseTaken = Point(.leaseTaken)
    /// Writers of the key will cancel the computation.
    public static let leaseRegistered = Point(.leaseRegistered)
    /// The computed value is about to be written.
    public static let leaseBeforeFill = Point(.leaseBeforeFill)

    // MARK: Objects, within a transaction

    /// The index keys of an object that is saved are there, the object is not.
    public static let objectIndexed = Point(.objectIndexed)
    /// The index keys of an object that is deleted are gone, the object is not.
    public static let objectUnlinked = Point(.objectUnlinked)
    /// The record of a type has been written.
    public static let catalogChanged = Point(.catalogChanged)
    /// How far a migration has come has been written.
    public static let migrationNoted = Point(.migrationNoted)
    /// What is stored under a number is given up.
    public static let numberDropped = Point(.numberDropped)
    /// A part of what was given up is about to be removed.
    public static let sweepStep = Point(.sweepStep)

    // MARK: Healing and closing

    /// The files are given up; other processes are about to notice.
    public static let condemnMarked = Point(.condemnMarked)
    /// A compaction has written its copy, without the lock around opening; the switch comes next.
    public static let copyWritten = Point(.copyWritten)
    /// The lock is taken to close the store. An error here is one of the final sync.
    public static let closeGateTaken = Point(.closeGateTaken)
    /// A store closed by its last process is on the disk.
    public static let closeSynced = Point(.closeSynced)
    /// The store is closed.
    public static let closeDone = Point(.closeDone)
  }
}
