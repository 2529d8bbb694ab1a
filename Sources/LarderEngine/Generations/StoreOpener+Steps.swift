// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
package import LarderSystem

/// The steps of opening that stand by themselves.
extension StoreOpener {
  /// The result of an attempt to open a generation.
  enum Outcome {
    case opened(Generation)
    case unusable(reason: String, GenerationBuilder.InheritedState?)
    case pidNamespaceMismatch
  }

  /// Opens a generation whose locks say that this very process has it open.
  func closeDeferredAndOpen(_ number: UInt64) throws -> Outcome {
    let path = directory.generation(number)
    switch DeferredGenerationCloses.close(path: directory.realGeneration(number)) {
    case .closed: return try open(number)
    case .stuck:
      let reason = "this process could not close generation \(number), which somebody holds up"
      guard options.durability == .cache else {
        throw StoreError(
          .writerStalled, during: "open", path: directory.path,
          "\(reason). Let the stopped process go on, or end it, and open again.")
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

  /// Sends away whoever is in a generation that CURRENT does not name.
  private func supersedeOrFenceStale(_ path: String, for number: UInt64) throws(SystemError) {
    let name = path + "/shared.table"
    guard try FileSystem.status(of: name, followingLinks: false)?.isRegularFile ?? false else {
      return
    }
    // Also where it is condemned: whoever did that may have died before the floor was raised.
    guard let table = try SharedTable(mapping: OwnedFile(path: name)) else { return }
    // Of a compaction whose process died: all that was committed there is here.
    if table.successor == number { table.supersede() } else { table.fence() }
  }

  func require(_ found: Durability) throws(StoreError) {
    if found == options.durability { return }
    throw StoreDirectory.mismatch(directory.path, wanted: options.durability, found: found)
  }

  /// The budget a generation had, as far as its table still tells.
  func lastBudget(of number: UInt64) -> UInt64? {
    let path = directory.generation(number) + "/shared.table"
    guard let table = try? openTable(path, number: number) else { return nil }
    return (4096...1 << 43).contains(table.budget) ? table.budget : nil
  }

  package func openTable(_ path: String, number: UInt64) throws -> SharedTable? {
    guard try FileSystem.status(of: path) != nil else { return nil }
    let table = try SharedTable(mapping: OwnedFile(path: path))
    return table?.generation == number ? table : nil
  }

  /// The name of something in a generation's directory that is not the file it should be: another
  /// directory, a link, a pipe. None of them is followed or opened.
  package func unexpectedFile(in path: String) throws -> String? {
    for name in ["data.mdb", "lock.mdb", "shared.table", "state", "presence", CheckpointFile.name] {
      let status = try FileSystem.status(of: path + "/" + name, followingLinks: false)
      if let status, !status.isRegularFile { return name }
    }
    return nil
  }

  /// Whether a table that nobody uses is this store's: only then its flags mean anything here.
  ///
  /// A data file that is shorter than the table says was cut, or the table is a stranger's. Either
  /// way every page is looked at, and what they hold decides.
  func isCredible(_ table: SharedTable, _ path: String, dataSize: Int) throws -> Bool {
    if let state = try StoreState.read(from: path + "/state"),
      state.storeID != table.binding.storeID
    {
      return false
    }
    // In a copy of the files on btrfs, it has lost what keeps a full disk from raising SIGBUS.
    let file = try OwnedFile(path: path + "/shared.table")
    return UInt64(dataSize) >= table.dataBytes && file.ownBlocks() == .owned
  }

  /// Or throws: to build a successor that those inside do not hear of would make two stores of one.
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

  func takeSlot(_ table: SharedTable, _ presence: OwnedFile) throws -> Int? {
    for process in 0..<table.shape.processSlots where table.pid(process: process) == nil {
      if try presence.tryLock(.exclusive, at: PresenceLocks.slotOffset(process)) {
        table.enter(process: process)
        return process
      }
    }
    return nil
  }

  func remakeTable(
    _ path: String, _ meta: StoreMeta, _ environment: EnvironmentHandle, dirty: Bool
  ) throws -> SharedTable {
    let commitVersion =
      Generation.versionBase(ofGeneration: meta.generation)
      + environment.information.lastTransaction
    // A new file under a new name: should anybody still map the old one, it stays as it is.
    let temporary = path + "/shared.table.tmp"
    FileSystem.removeTree(temporary)
    let file = try OwnedFile(path: temporary, creation: .createNew)
    try SharedTable.create(
      in: file, binding: .init(storeID: meta.storeID, generation: meta.generation),
      shape: meta.shape, commitVersion: commitVersion, budget: meta.budget, dirty: dirty,
      dataChanged: FileSystem.status(ofDescriptor: environment.dataDescriptor)?.changed ?? 0,
      syncInterval: meta.syncInterval)
    try FileSystem.rename(temporary, to: path + "/shared.table")
    guard
      let table = try SharedTable(mapping: OwnedFile(path: path + "/shared.table"))
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

  /// Removes generations nobody is in, and what unfinished ones left. Whoever is still in one is
  /// sent here, before anything can be written here: nothing older may be served any more.
  ///
  /// - Throws: When somebody may be left behind in an older one.
  package func removeOldGenerations(but number: UInt64) throws(SystemError) {
    if options.durability == .cache { removeDeadNamespaces() }
    // A copy that no process writes any more is removed; what cannot be determined stays.
    let isCopying = (try? CopyLock.isHeld(in: directory)) ?? true
    for name in try FileSystem.names(in: directory.root) {
      let isCopy = name.hasSuffix(CopyLock.suffix)
      if isCopy, isCopying { continue }
      let isUnfinished = isCopy || name.hasSuffix(".tmp")
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
          (try? presence.tryLock(.exclusive, at: PresenceLocks.everybody)) == true
        else {
          try supersedeOrFenceStale(path, for: number)
          continue
        }
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
}
