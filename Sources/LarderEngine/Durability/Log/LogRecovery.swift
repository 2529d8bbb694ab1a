// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The records of a log after a place, in order.
struct LogReader {
  private let segments: [LogSegments.Segment]
  private var position: LogPosition
  /// The commit version of the next record.
  private(set) var version: UInt64
  private var bytes: [UInt8] = []
  private var segment: UInt64 = 0

  init(_ record: CheckpointRecord, in path: String) throws {
    if record.log.segment != 0, LogSegments.size(in: path) == 0 {
      throw StoreError(
        .damaged, during: "open", path: path,
        "The system went down while the store was in use, and the files of its log (log-0 and others) are "
          + "missing. Nothing was touched. `larder repair` salvages what is readable; or restore a copy."
      )
    }
    segments = try LogSegments(path: path, storeID: record.storeID, isWritable: false).all()
    position = record.log
    version = record.logVersion
  }

  /// Returns the changes of the next transaction, or `nil` after the last one.
  mutating func next() throws(SystemError) -> [UInt8]? {
    if position.segment == 0 { return nil }
    if let changes = try read() { return changes }
    // It may be the first one of the next segment, the newest with its place: others are those of writers that were
    // killed before they committed.
    let next = segments.filter {
      $0.header.sequence > position.segment && $0.header.version == version
        && $0.header.chain == position.chain
    }.max { $0.header.sequence < $1.header.sequence }
    guard let next else { return nil }
    position = next.header.start
    return try read()
  }

  private mutating func read() throws(SystemError) -> [UInt8]? {
    if segment != position.segment {
      guard let found = segments.first(where: { $0.header.sequence == position.segment }) else {
        return nil
      }
      bytes = try found.file.read(count: found.size, at: 0)
      segment = position.segment
    }
    guard position.offset < bytes.count,
      let (changes, chain) = LogRecord.decoded(
        bytes, at: Int(position.offset), version: version, after: position.chain)
    else { return nil }
    position.offset += UInt64(LogRecord.size(ofChanges: changes.count))
    position.chain = chain
    version += 1
    return changes
  }
}

extension CheckpointRecord {
  /// Returns the commit version up to which this checkpoint and the log after it have every commit.
  ///
  /// - Throws: ``StoreError/Code/damaged`` if the files of the log are missing.
  package func reach(in path: String) throws -> UInt64 {
    let version = Generation.versionBase(ofGeneration: generation) &+ transaction
    guard log.segment != 0 else { return version }
    var reader = try LogReader(self, in: path)
    while try reader.next() != nil {}
    return max(version, reader.version &- 1)
  }
}

extension StoreOpener {
  /// R5: makes the changes after a checkpoint again, from the log. The caller is alone, and the checkpoint is in
  /// both metas.
  ///
  /// The checkpoint stays pinned: if the process is killed, the next opener starts at R1 again.
  ///
  /// - Returns: The new checkpoint, whose snapshot contains all records, and their number; `nil` if there are none.
  static func replay(
    _ log: LogReader, after record: CheckpointRecord, in path: String
  ) throws -> (checkpoint: CheckpointRecord, commits: Int)? {
    var reader = log
    let first = reader.version
    guard var changes = try reader.next() else { return nil }
    try GenerationBuilder.prepareLockFile(in: path, nil)
    let environment = try EnvironmentHandle(
      path: path,
      options: .init(
        mapSize: nil, minimumMapSize: GenerationBuilder.minimumMapSize,
        maximumReaders: GenerationBuilder.readerSlots(in: path), synchronous: false))
    defer { environment.close() }
    guard let (_, tables) = try readMeta(environment) else {
      throw StoreError(
        .damaged, during: "open", path: path,
        "The meta record is missing or damaged. Run `larder repair`.")
    }
    let pin = try PinnedSnapshot(in: environment)
    var isOver = false
    while !isOver {
      var transaction = try WriteTransaction(in: environment)
      var size = 0
      while size < replayBatch {
        try transaction.apply(changes, to: tables.all)
        size += changes.count
        guard let next = try reader.next() else {
          isOver = true
          break
        }
        changes = next
      }
      try transaction.commit()
      fault(.logReplayed)
    }
    try environment.synchronize()
    let newest = try PinnedSnapshot(in: environment)
    guard let page = try environment.metaPage(of: newest.id) else {
      throw StoreError(.damaged, during: "open", path: path, "The meta page cannot be read.")
    }
    _ = (consume pin, consume newest)
    let bytes = try FileSystem.status(of: path + "/data.mdb")?.size ?? 0
    let checkpoint = CheckpointRecord(
      storeID: record.storeID, generation: record.generation, time: record.time,
      dataBytes: UInt64(bytes), meta: page)
    return (checkpoint, Int(clamping: reader.version &- first))
  }

  /// The bytes of changes that are made in one transaction.
  private static var replayBatch: Int { 4 << 20 }
}
