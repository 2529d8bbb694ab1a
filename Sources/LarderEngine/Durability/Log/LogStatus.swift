// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The redo log of a relaxed or durable store, which all processes share.
///
/// ```swift
/// if let log = try store.statistics().log {
///   print("\(log.commits) commits since the checkpoint, \(log.syncs) syncs")
/// }
/// ```
public struct LogStatus: Sendable, Hashable {
  /// The size of the files of the log in bytes, at most 64 MB. The files are used again and never become smaller.
  public let fileBytes: Int
  /// The commits since the last checkpoint: an opening after a crash of the system makes them again.
  public let commits: Int
  /// The commits that are visible, and not on the disk yet; in a durable store their calls have not returned.
  public let unsyncedCommits: Int
  /// The time since the last checkpoint began.
  public let checkpointAge: Duration
  /// The syncs of the log by all processes, since the store got its present files. ``StoreStatistics/commits``
  /// divided by it is the number of commits that share one.
  public let syncs: Int
}

extension Generation {
  /// The state of the log, or `nil` without one.
  func logStatus(newest: UInt64) -> LogStatus? {
    guard log != nil else { return nil }
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    // A new table, after a start of the system, has the checkpoint only.
    let durable = max(table.durableVersion, table.checkpointVersion)
    return LogStatus(
      fileBytes: LogSegments.size(in: path),
      commits: Int(clamping: newest &- min(table.checkpointVersion, newest)),
      unsyncedCommits: Int(clamping: newest &- min(durable, newest)),
      checkpointAge: .milliseconds(now &- min(table.syncedAt, now)),
      syncs: Int(clamping: table.total(.logSyncs)))
  }

  /// Checks that an opening after a crash of the system now would find every commit that is on the disk.
  ///
  /// - Returns: The fault, or `nil`.
  package func checkLog() throws -> String? {
    if log == nil || table.hasFailedSync { return nil }
    for _ in 0..<1000 {
      let durable = table.durableVersion
      let record = try newestRecord
      let recorded = versionBase &+ (record?.transaction ?? 0)
      let hasFiles = LogSegments.size(in: path) > 0
      var last = recorded
      if recorded < durable, let record, hasFiles {
        var reader = try LogReader(record, in: path)
        while try reader.next() != nil {}
        last = max(last, reader.version &- 1)
      }
      if last >= durable { return nil }
      // The files of an older checkpoint are in use again, or a record was being written.
      let again = try newestRecord
      if again?.transaction == record?.transaction, again?.log == record?.log,
        table.checkpointVersion <= recorded
      {
        if record == nil { return "the record of the last checkpoint is missing (`synced`)" }
        if !hasFiles { return "the files of the log are missing" }
        return
          "after commit \(last) the log is damaged: a crash of the system now would lose the commits up to "
          + "\(durable). The next checkpoint ends that; to have one now, compact the store"
      }
      OSThread.yield()
    }
    throw StoreError(
      .system, during: "verify", path: path,
      "The log changed while it was read. Try again when there is less to do.")
  }

  private var newestRecord: CheckpointRecord? {
    get throws {
      try CheckpointFile.newest(in: path, generation: number, storeID: meta.storeID)
    }
  }
}
