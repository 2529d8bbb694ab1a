// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
package import LarderSystem

/// The independent steps of opening.
extension StoreOpener {
  /// Opens a generation whose locks mark it as open in this process.
  enum Outcome {
    case opened(Generation)
    case unusable(reason: String, StoreMeta?)
    case pidNamespaceMismatch
    /// A process has it open, so that it cannot be read without a write.
    case inUse
  }

  func closeDeferredAndOpen(_ number: UInt64) throws -> Outcome {
    let path = directory.generation(number)
    switch DeferredGenerationCloses.close(path: directory.realGeneration(number)) {
    case .closed: return try open(number)
    case .stuck(let pid):
      let isOwn = pid == ProcessIdentity.pid
      let cause =
        isOwn
        ? "a write or sync of this process (\(pid)) has not ended" : "process \(pid) stalled it"
      let reason = "Generation \(number) could not be closed because \(cause)"
      guard startsEmpty else {
        let advice = isOwn ? "Try again later" : "Resume or terminate that process, then reopen"
        throw StoreError(
          .writerStalled, during: "open", path: directory.path, "\(reason). \(advice).", pid: pid)
      }
      let table = path + "/shared.table"
      if let table = try openTable(table, number: number) {
        table.fence()
      } else {
        try fenceByPath(table)
      }
      return .unusable(reason: reason, nil)
    case .none:
      throw StoreError(
        .duplicateLibrary, during: "open", path: directory.path,
        "This process has the store open through another copy of the library. Link one copy only.")
    }
  }

  /// Makes processes leave a generation that CURRENT does not name.
  private func supersedeOrFenceStale(_ path: String, for number: UInt64) throws(SystemError) {
    let name = path + "/shared.table"
    guard try FileSystem.status(of: name, followingLinks: false)?.isRegularFile ?? false else {
      return
    }
    // Also if it is fenced: the fencing process may have exited before it raised the floor.
    guard let table = try SharedTable(mapping: OwnedFile(path: name)) else { return }
    // A compaction whose process exited: all commits of that generation are in this one.
    if table.successor == number { table.supersede() } else { table.fence() }
  }

  /// Marks the generation as one that this process has open, and frees the reader slots of processes that have ended.
  func takePart(_ presence: OwnedFile, _ environment: EnvironmentHandle) throws {
    _ = try presence.tryLock(.shared, at: PresenceLocks.openOffset)
    try environment.clearDeadReaders()
  }

  func require(_ found: Durability) throws(StoreError) {
    if found == options.durability { return }
    throw StoreDirectory.mismatch(directory.path, wanted: options.durability, found: found)
  }

  /// Returns the budget of a generation, or `nil` if its table does not hold a valid one.
  func lastBudget(of number: UInt64) -> UInt64? {
    let path = directory.generation(number) + "/shared.table"
    guard let table = try? openTable(path, number: number) else { return nil }
    return (4096...1 << 43).contains(table.budget) ? table.budget : nil
  }

  package func openTable(_ path: String, number: UInt64) throws -> SharedTable? {
    guard try FileSystem.status(of: path) != nil else { return nil }
    let isQuiet = view != nil
    let table = try SharedTable(
      mapping: OwnedFile(path: path, writable: !isQuiet), copied: isQuiet ? .changed : nil)
    return table?.generation == number ? table : nil
  }

  /// The name of something in a generation's directory that is not the file it should be: another
  /// directory, a link, a pipe. None of them is followed or opened.
  package func unexpectedFile(in path: String) throws -> String? {
    func isFile(_ name: String) throws -> Bool? {
      try FileSystem.status(of: path + "/" + name, followingLinks: false)?.isRegularFile
    }
    for name in ["data.mdb", "lock.mdb", "shared.table", "state", "presence", CheckpointFile.name]
    where try isFile(name) == false {
      return name
    }
    var segment = 0
    while let isFile = try isFile(LogSegments.name(segment)) {
      if !isFile { return LogSegments.name(segment) }
      segment += 1
    }
    return nil
  }

  /// Whether an unused table belongs to this store: only then its flags apply.
  ///
  /// If the data file is shorter than the table records, the file was truncated or replaced, or the table
  /// belongs to another store. A table that is as the last process left it then says what is missing
  /// (`StoreOpener+CrashRecovery.swift`); otherwise every page is verified, and the pages decide.
  func isCredible(_ table: SharedTable, _ path: String, dataSize: Int) throws -> Bool {
    if let state = try StoreState.read(from: path + "/state"),
      state.storeID != table.binding.storeID
    {
      return false
    }
    if UInt64(dataSize) < table.dataBytes {
      guard let data = try? OwnedFile(path: path + "/data.mdb", writable: false),
        table.isCurrent(forDescriptor: data.descriptor)
      else { return false }
    }
    if view != nil { return true }
    // In a copy of the files on btrfs, it has lost what keeps a full disk from raising SIGBUS.
    return try OwnedFile(path: path + "/shared.table").ownBlocks() == .owned
  }

  /// Fences a generation through the file of its table, or throws: a new generation without a fence
  /// for the processes in the old one would split the store in two.
  func fenceByPath(_ path: String) throws(SystemError) {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    let size = SharedTableShape.largest.fileSize
    if (try? file.preallocate(size)) == nil { try file.truncate(to: size) }
    var one = [UInt8](repeating: 0, count: 4)
    one.store(UInt32(1), at: 0)
    try file.write(one, at: SharedTableLayout.condemned)
    // The floor of a zeroed header reads as "infinite future" already; write it all the same.
    try file.write([UInt8](repeating: 0, count: 8), at: SharedTableLayout.floor)
  }

  func clearDeadProcesses(_ table: SharedTable, _ presence: OwnedFile) {
    for process in 0..<table.shape.processSlots where table.pid(process: process) != nil {
      let lives = try? presence.isLockedElsewhere(at: PresenceLocks.slotOffset(process))
      if lives == false, table.leave(process: process, isDead: true) {
        table.crashesInLMDB &+= 1
      }
    }
  }

  func takeSlot(
    _ table: SharedTable, _ presence: OwnedFile
  ) throws -> Generation.ProcessSlot? {
    for process in 0..<table.shape.processSlots where table.pid(process: process) == nil {
      if try view != nil
        || presence.tryLock(.exclusive, at: PresenceLocks.slotOffset(process))
      {
        table.enter(process: process)
        return Generation.ProcessSlot(index: process, table: table, presence: presence)
      }
    }
    return nil
  }

  /// Creates the table of a generation that no other process has open. Only recency and statistics are lost.
  func remakeTable(
    _ path: String, _ meta: StoreMeta, _ environment: EnvironmentHandle
  ) throws -> SharedTable {
    // Unless `state` says dirty, and of this page cache, the first writer makes it so.
    let state = try StoreState.read(from: path + "/state")
    let isDirty =
      state.map {
        $0.isDirty && $0.bootID == ProcessIdentity.bootID
          && $0.pageCache.isProven(forDescriptor: environment.dataDescriptor)
      } ?? false
    // A new file under a new name: a mapping of the old file stays unchanged.
    let temporary = path + "/shared.table.tmp"
    if view == nil { FileSystem.removeTree(temporary) }
    let file =
      try view == nil
      ? OwnedFile(path: temporary, creation: .createNew) : QuietView.fileWithoutName()
    try SharedTable.create(
      in: file, for: meta,
      commitVersion: Generation.newestVersion(ofGeneration: meta.generation, in: environment),
      files: .init(
        isDirty: isDirty,
        dataChanged: FileSystem.status(ofDescriptor: environment.dataDescriptor)?.changed ?? 0,
        stateChanged: FileSystem.status(of: path + "/state")?.changed ?? 0,
        pageCache: PageCacheIdentity(ofDescriptor: environment.dataDescriptor)))
    if view == nil { try FileSystem.rename(temporary, to: path + "/shared.table") }
    guard
      let table = try SharedTable(
        mapping: view == nil ? OwnedFile(path: path + "/shared.table") : file)
    else {
      throw StoreError(.damaged, during: "open", path: path, "shared.table cannot be created.")
    }
    return table
  }

  static func readMeta(
    _ environment: EnvironmentHandle
  ) throws -> (StoreMeta, Generation.Tables)? {
    guard let meta = try storedMeta(environment) else { return nil }
    let transaction = try ReadTransaction(in: environment)
    let tables = try Generation.Tables(in: transaction)
    // Committing, not aborting, is what keeps the table handles.
    try transaction.keepTables()
    return tables.map { (meta, $0) }
  }

  static func storedMeta(_ environment: EnvironmentHandle) throws -> StoreMeta? {
    let transaction = try ReadTransaction(in: environment)
    guard let bytes = try transaction.value(forKey: StoreMeta.key, in: .main) else { return nil }
    return StoreMeta(bytes)
  }

  /// Removes unused generations and the remains of unfinished ones. Processes in an older
  /// generation must switch to this one before any write here: no older value may be served any
  /// more.
  ///
  /// - Parameter keepsFiles: Whether the older generations are left, and stay: a loss of power may lead back to one.
  /// - Throws: `SystemError` if a process may remain in an older generation.
  package func removeOldGenerations(
    but number: UInt64, keepsFiles: Bool = false
  ) throws(SystemError) {
    if options.durability == .cache { removeDeadNamespaces() }
    abandonCopies(try FileSystem.names(in: directory.root))
    for name in try FileSystem.names(in: directory.root) where !name.hasSuffix(CopyLock.suffix) {
      let isUnfinished = name.hasSuffix(".tmp")
      let path = directory.root + "/" + name
      // In a durable store's directory there may be files of its owner's.
      guard
        let old = CurrentPointer.generation(
          named: isUnfinished ? String(name[..<name.lastIndex(of: ".")!]) : name),
        isUnfinished || old != number,
        (try? FileSystem.status(of: path, followingLinks: false))??.isDirectory ?? false
      else { continue }
      if !isUnfinished {
        guard
          let presence = try? OwnedFile(path: path + "/presence", creation: .createIfMissing),
          (try? presence.tryLock(.exclusive, at: PresenceLocks.openOffset)) == true
        else {
          try supersedeOrFenceStale(path, for: number)
          continue
        }
        if keepsFiles { continue }
      }
      let mark = path + "/" + StoreDirectory.setAsideMark
      if !isUnfinished, StoreDirectory.exists(mark) {
        // A repair was killed before it could.
        if (try? directory.quarantine(old)) != nil { continue }
        if options.durability.survivesSystemCrash { continue }
      }
      FileSystem.removeTree(path)
    }
    // Of a repair that was killed before it came to anything.
    FileSystem.removeTree(directory.generation(number) + "/" + StoreDirectory.setAsideMark)
  }

  /// Names copies that no process writes any more as other remains of unfinished generations. To remove a large one
  /// takes seconds, for which no compaction may be refused.
  private func abandonCopies(_ names: [String]) {
    let copies = names.filter { $0.hasSuffix(CopyLock.suffix) }
    for name in copies {
      let unfinished = String(name.dropLast(CopyLock.suffix.count))
      let path = directory.root + "/" + name
      let status = (try? FileSystem.status(of: path, followingLinks: false)) ?? nil
      guard CurrentPointer.generation(named: unfinished) != nil, status?.isDirectory == true else {
        continue
      }
      // Builders have the open lock, as this process has.
      let target = directory.root + "/" + unfinished + ".tmp"
      FileSystem.removeTree(target)
      CopyLock.ifFree(in: directory) { try? FileSystem.rename(path, to: target) }
    }
  }
}
