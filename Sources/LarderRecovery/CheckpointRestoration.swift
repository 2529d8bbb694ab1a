// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// RESTORING BEFORE SALVAGING
//
// A checkpoint whose pages are whole, with the log after it, has every commit that it reaches, complete and in order;
// salvage has what is readable of one state. So the checkpoints come first:
//
//     every valid record of `synced` is a candidate if each page of its snapshot is. Of the older ones the pages may
//     have been used again: then they are not sound, or what they contain is made again from the log
//     the candidate with the log that reaches the newest commit is the best one
//     if pages may be missing from the files (`StoreOpener+CrashRecovery.swift`), it is restored in place, as opening
//     does
//     if the files are damaged, and it reaches their newest commit, it is restored in a copy of the files, from which
//     the new generation is written. The damaged files stay as they are, to be quarantined
//     if it does not reach that commit, salvage comes first, and the candidate only if nothing is readable
//
// A dry run changes nothing of the store and its file system: it restores in a copy in the directory for temporary
// files, which has no blocks where the files have zeros. The next dry run removes that of a process that was killed.

/// A generation that was restored from a checkpoint and the log after it.
struct CheckpointRestoration {
  /// The directory with the restored files.
  let path: String
  /// The damage of the files, and the restoration.
  let findings: [StoreFinding]
  /// Whether the files of the generation themselves were restored.
  let isInPlace: Bool
  /// Whether commits may be missing.
  let mayMissCommits: Bool
  /// The lock of the directory of a dry run's copy.
  private let lock: OwnedFile?

  /// A checkpoint whose pages are whole.
  struct Candidate {
    let record: CheckpointRecord
    /// Whether it reaches the newest commit that the meta pages name.
    let isComplete: Bool
    /// Whether there may have been a later commit, because a meta page is damaged and no table says otherwise.
    let isUncertain: Bool
    /// Whether the log can be read.
    let hasLog: Bool
    /// The damage of the files.
    let damage: [StoreFinding]

    /// Returns the best checkpoint of a generation, or `nil` if none is needed or none is whole.
    static func best(for repair: StoreRepair) throws -> Candidate? {
      guard repair.durability.survivesSystemCrash else { return nil }
      let data = repair.path + "/data.mdb"
      guard StoreDirectory.exists(data) else { return nil }
      let structure = try StructuralVerifier.verify(path: data)
      if structure.isSound, repair.lossReason == nil { return nil }
      let base = Generation.versionBase(ofGeneration: repair.number)
      let state = try StoreState.read(from: repair.path + "/state")
      var best: (record: CheckpointRecord, reach: UInt64, hasLog: Bool)?
      for record in try CheckpointFile.all(
        in: repair.path, generation: repair.number, storeID: state?.storeID)
      where try StructuralVerifier.verify(path: data, from: record.meta).isSound {
        let reach = try? record.reach(in: repair.path)
        let version = reach ?? base &+ record.transaction
        if version > best?.reach ?? 0 { best = (record, version, reach != nil) }
      }
      guard let best else { return nil }
      let file = try OwnedFile(path: data, writable: false)
      let metas = try [0, best.record.meta.pageSize].compactMap { offset throws(SystemError) in
        MetaPage(try file.read(count: MetaPage.count, at: offset))
      }
      let newest = metas.map { base &+ $0.transactionID }.max() ?? 0
      let opener = StoreOpener(directory: repair.directory, options: StoreOptions())
      let found =
        (try? opener.openTable(repair.path + "/shared.table", number: repair.number)) ?? nil
      let table = found.flatMap { $0.isCurrent(forDescriptor: file.descriptor) ? $0 : nil }
      return Candidate(
        record: best.record, isComplete: best.reach >= newest,
        isUncertain: metas.count < 2 && (table.map { $0.lastStamped > best.reach } ?? true),
        hasLog: best.hasLog,
        damage: structure.findings.map {
          StoreFinding(severity: .error, place: "data.mdb", message: "\($0)")
        })
    }
  }

  init(_ candidate: Candidate, of repair: StoreRepair, isDryRun: Bool) throws {
    isInPlace = repair.lossReason != nil && !isDryRun
    lock = try isDryRun ? Self.makeWorkDirectory() : nil
    if let lock {
      path = lock.path
    } else if isInPlace {
      path = repair.path
    } else {
      path = repair.directory.generation(try CheckpointRestoration.unused(in: repair)) + ".tmp"
    }
    do {
      if !isInPlace {
        if lock == nil { FileSystem.removeTree(path) }
        try GenerationBuilder.makeDirectory(path)
        try Self.copyFiles(of: repair.path, to: path)
      }
      let commits = try StoreOpener.restore(
        candidate.record, in: path, durability: repair.durability, replays: candidate.hasLog)
      if isInPlace { FileSystem.removeTree(path + "/shared.table") }
      let reason = repair.lossReason ?? "data.mdb is damaged"
      findings =
        (repair.lossReason == nil ? candidate.damage : [])
        + [
          StoreFinding(
            severity: .warning, place: CheckpointFile.name,
            message: StoreOpener.description(of: commits, because: reason))
        ]
      mayMissCommits =
        !candidate.hasLog
        || repair.lossReason == nil && (!candidate.isComplete || candidate.isUncertain)
    } catch {
      if !isInPlace { FileSystem.removeTree(path) }
      throw lock == nil ? error : Self.explained(error, path, size: Self.size(of: repair.path))
    }
  }

  /// Removes the copy, if it is one.
  func removeCopy() {
    if !isInPlace { FileSystem.removeTree(path) }
  }

  /// A number whose unfinished generation the next opener removes, and that repair does not use.
  private static func unused(in repair: StoreRepair) throws -> UInt64 {
    max(repair.number, try CurrentPointer.generations(in: repair.directory).last ?? 0) + 2
  }

  // MARK: The copy

  /// The directory for temporary files.
  private static var temporaryPath: String {
    FileSystem.environment("TMPDIR").flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp"
  }

  private static func makeWorkDirectory() throws -> OwnedFile {
    do {
      return try WorkDirectory.make(temporaryPath + "/larder-verify-")
    } catch {
      throw StoreError(
        .directory, during: "verify", path: temporaryPath,
        "Checking this store needs a directory for temporary files, and none can be made there (\(error)). Name "
          + "another one in TMPDIR.", errorNumber: error.errno)
    }
  }

  /// Returns the error of a dry run whose copy has no room.
  private static func explained(_ error: any Error, _ path: String, size: Int) -> any Error {
    let error = StoreError(wrapping: error, during: "verify", path: path)
    guard error.code == .storageFull else { return error }
    return StoreError(
      .storageFull, during: "verify", path: path,
      "Checking this store restores a copy of it among the temporary files, which has up to "
        + "\(ByteCount(bytes: size)). Name a directory with that much room in TMPDIR.",
      errorNumber: error.errorNumber)
  }

  private static func names(in generation: String) throws(SystemError) -> [String] {
    try FileSystem.names(in: generation).filter { name in
      ["data.mdb", "state", CheckpointFile.name].contains(name)
        || (name.hasPrefix("log-") && !name.hasSuffix(".new"))
    }
  }

  private static func size(of generation: String) -> Int {
    ((try? names(in: generation)) ?? []).reduce(0) {
      $0 + (((try? FileSystem.status(of: generation + "/" + $1)) ?? nil)?.size ?? 0)
    }
  }

  /// Copies what a restoration needs.
  private static func copyFiles(of generation: String, to target: String) throws(SystemError) {
    for name in try names(in: generation) {
      let file = try OwnedFile(path: generation + "/" + name, writable: false)
      let copy = try OwnedFile(path: target + "/" + name, creation: .createNew)
      var offset = 0
      while true {
        let bytes = try file.read(count: 1 << 16, at: offset)
        if bytes.isEmpty { break }
        // A log is full of zeros ahead of its end; in the copy they are a hole.
        if bytes.contains(where: { $0 != 0 }) { try copy.write(bytes, at: offset) }
        offset += bytes.count
      }
      try copy.truncate(to: offset)
    }
  }
}
