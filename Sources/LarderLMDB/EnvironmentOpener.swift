// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// OPENING
//
// All steps run under the open lock: one process at a time, and a process that is killed here
// leaves a state that the next one recognises.
//
//   0  walk the path and keep the directory open (HeldDirectory): a directory that another user owns,
//      can replace or may write to is refused, and no later call can meet another directory
//   1  check that nothing in the directory belongs to a Larder store, is a link, or is not a file
//   2  open lock: does another process have the environment open? Then its namespace, map size and
//      durability apply
//   3  if not: check that no process has it open without the open lock either (LMDB's own lock on
//      `lock.mdb`); remove the files of a process that was killed while it created them; the record
//      in the file `gate` shows whether the data file may be damaged; if so, each page of it is
//      verified
//   4  the quick check, always: both meta pages are valid, so that LMDB can open and map the file
//   5  first process: `lock.mdb` gets its blocks, since LMDB would leave a hole that is a SIGBUS on
//      a full disk. Later process: free reader slots of an exited process with this pid, which LMDB
//      never does
//   6  LMDB opens the file; check that it lacks the record that marks a Larder store
//   7  complete the record, lock this process's byte, and release the open lock

/// Opens the environment in a directory.
struct EnvironmentOpener {
  struct Opened {
    let path: String
    let handle: EnvironmentHandle
    let gate: EnvironmentOpenLock
    let turn: WriterTurn
  }

  let path: String
  let options: EnvironmentOptions
  private let held: HeldDirectory
  private var dataPath: String { held.reference + "/data.mdb" }
  private var lockPath: String { held.reference + "/lock.mdb" }
  private var isOnDemand: Bool { options.durability == .onDemand }

  /// Finds or creates the directory, and checks each directory on its path.
  init(path: String, options: EnvironmentOptions) throws(LMDBError) {
    let path = path.isEmpty ? path : FileSystem.absolute(path) ?? path
    self.path = path
    self.options = options
    ForkGuard.activate()
    if ForkGuard.isForkedChild { throw LMDBError(.usedAfterFork, during: "open \(path)") }
    try options.check(path)
    guard !path.isEmpty, !path.utf8.contains(0) else {
      throw LMDBError(
        .invalidOption, during: "open \(path) (the path is empty or contains a zero byte)")
    }
    held = try EnvironmentDirectory.hold(path)
  }

  private func failure(_ code: LMDBError.Code, _ detail: String? = nil) -> LMDBError {
    LMDBError(code, during: "open \(path)" + (detail.map { " (\($0))" } ?? ""))
  }

  func open() throws(LMDBError) -> Opened {
    let identity = try checkDirectory()
    if EnvironmentHandle.isOpen(identity), !DeferredEnvironmentCloses.contains(identity) {
      throw failure(.alreadyOpen)
    }
    let gate = try EnvironmentOpenLock.enter(held, timeout: options.openTimeout)
    defer { gate.leave() }
    DeferredEnvironmentCloses.close(identity)
    do throws(LMDBError) {
      let handle = try open(identity, gate)
      do throws(LMDBError) {
        return Opened(path: path, handle: handle, gate: gate, turn: try gate.writerTurn())
      } catch {
        handle.close()
        throw error
      }
    } catch {
      gate.unlockAll()
      throw error
    }
  }

  // MARK: The directory

  private func checkDirectory() throws(LMDBError) -> FileIdentity {
    guard let status = held.status else { throw failure(.filesRemoved) }
    guard status.isDirectory else { throw LMDBError.system(20, during: "open \(path)") }
    try EnvironmentDirectory.check(status, path)
    if let name = FileSystem.refusedFileSystem(below: held.reference) {
      throw failure(.unsupportedFileSystem, name)
    }
    if let mark = try convertingSystemErrors({ () throws(SystemError) in
      try LarderStoreDetector.found(in: held.reference)
    }) {
      throw failure(.larderStore, mark)
    }
    for name in ["data.mdb", "lock.mdb", EnvironmentOpenLock.name] {
      let status = try convertingSystemErrors { () throws(SystemError) in
        try FileSystem.status(of: "\(held.reference)/\(name)", followingLinks: false)
      }
      guard let status else { continue }
      // Under a second name, the file would have a second open lock.
      guard status.isRegularFile, status.links == 1 else {
        throw LMDBError.system(20, during: "open \(path)/\(name) (a link, or not a file)")
      }
      try EnvironmentDirectory.check(status, "\(path)/\(name)")
    }
    return status.identity
  }

  // MARK: Under the open lock

  private func open(
    _ identity: FileIdentity, _ gate: EnvironmentOpenLock
  ) throws(LMDBError) -> EnvironmentHandle {
    if EnvironmentHandle.isOpen(identity) { throw failure(.alreadyOpen) }
    let isAlone = try gate.isAlone()
    let found = try gate.record()
    if !isAlone, let found, found.namespace != ProcessIdentity.pidNamespace {
      throw failure(.pidNamespaceMismatch)
    }
    guard try gate.lockPID() else { throw failure(.alreadyOpen) }
    var record = isAlone ? try judge(found) : try agree(found)
    try checkQuickly(found)
    if isAlone {
      record.attempts = min(found?.attempts ?? 0, 1000) + 1
      // The record must be on disk before the first commit that does not wait for the disk.
      try gate.write(record, synchronously: isOnDemand)
      try reserveLockFile()
    } else {
      try convertingSystemErrors { () throws(SystemError) in
        try ReaderSlots.clear(pid: ProcessIdentity.pid, inLockFile: lockPath)
      }
    }
    let handle = try EnvironmentHandle(
      path: held.reference,
      options: .init(
        mapSize: Int(record.mapSize), maximumTables: options.maximumTables,
        maximumReaders: options.maximumReaders, synchronous: !isOnDemand))
    do throws(LMDBError) {
      if try LarderStoreDetector.stand(in: handle) {
        throw failure(.larderStore, "the record \"meta\"")
      }
      try handle.clearDeadReaders()
      if isAlone {
        if !record.flags.contains(.made) { try synchronizeNames() }
        record.pageCache = PageCacheIdentity(ofDescriptor: handle.dataDescriptor)
        record.attempts = 0
        record.flags.insert(.made)
        try gate.write(record)
      }
      try gate.downgradeToShared()
    } catch {
      handle.close()
      throw error
    }
    return handle
  }

  /// Returns the record of the processes that have the environment open; checks that the options
  /// agree.
  private func agree(_ found: OpenLockRecord?) throws(LMDBError) -> OpenLockRecord {
    guard let found else { throw failure(.damaged, "the file gate, which other processes use") }
    guard found.flags.contains(.onDemand) == isOnDemand else {
      throw failure(.inUse, "another process uses another durability")
    }
    guard UInt64(options.mapSize ?? 0) <= found.mapSize else {
      throw failure(.inUse, "another process uses a map of \(found.mapSize) bytes")
    }
    return found
  }

  /// Checks an environment that no process has open, and returns the record to continue with.
  private func judge(_ found: OpenLockRecord?) throws(LMDBError) -> OpenLockRecord {
    try requireNobodyWithoutGate()
    var record = OpenLockRecord()
    if isOnDemand { record.flags.insert(.onDemand) }
    record.namespace = ProcessIdentity.pidNamespace
    record.boot = ProcessIdentity.bootID
    var mapSize = UInt64(options.mapSize ?? 0)
    let status = try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.status(of: dataPath)
    }
    if let status, status.size > 0, try !removeUnfinished(found, status) {
      if found?.flags.contains(.made) == true { record.flags.insert(.made) }
      try checkQuickly(found)
      mapSize = max(mapSize, try storedMapSize(), UInt64(status.size), found?.mapSize ?? 0)
      if let doubt = try doubt(found) { try verify(because: doubt) }
      record.dataBytes = UInt64(status.size)
    } else {
      if found?.flags.contains(.made) == true { throw failure(.damaged, "data.mdb is missing") }
      if mapSize == 0 { mapSize = UInt64(EnvironmentOptions.newMapSize) }
    }
    record.mapSize = (mapSize + 65_535) & ~65_535
    return record
  }

  /// Throws if LMDB's own lock shows that a process has the file open without the open lock.
  private func requireNobodyWithoutGate() throws(LMDBError) {
    let isTaken = try convertingSystemErrors { () throws(SystemError) in
      guard try FileSystem.status(of: lockPath) != nil else { return false }
      return try OwnedFile(path: lockPath).isLockedElsewhere(at: 0)
    }
    if isTaken { throw failure(.inUse, "a program that does not lock the file gate") }
  }

  private func doubt(_ found: OpenLockRecord?) throws(LMDBError) -> String? {
    guard let found else { return "it was copied from elsewhere, or its gate file is missing" }
    if found.attempts >= 2 { return "two processes exited while they opened it" }
    if found.flags.contains(.onDemand), !found.flags.contains(.closed) {
      if found.boot != ProcessIdentity.bootID {
        return "the system crashed while it was open with durability onDemand"
      }
      let data = try convertingSystemErrors { () throws(SystemError) in
        try OwnedFile(path: dataPath, writable: false)
      }
      if !found.pageCache.isProven(forDescriptor: data.descriptor) {
        return "it was open with durability onDemand, and its file system was mounted again or its "
          + "files were copied"
      }
    }
    return options.verification == .always ? "verification is always" : nil
  }

  /// Removes a data file shorter than its meta pages, which a process left that was killed creating
  /// it.
  private func removeUnfinished(
    _ found: OpenLockRecord?, _ status: FileStatus
  ) throws(LMDBError) -> Bool {
    // The record was written when no file existed, so nothing was ever committed.
    guard let found, !found.flags.contains(.made), found.dataBytes == 0,
      status.size <= 2 * LMDBFormat.pageSizes.upperBound,
      try !quickFindings().isEmpty
    else { return false }
    try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.removeFile(dataPath)
      try FileSystem.removeFile(lockPath)
    }
    return true
  }

  // MARK: The data file

  private func quickFindings(
    atLeast bytes: UInt64 = 0
  ) throws(LMDBError) -> [StructuralVerifier.Finding] {
    do throws(LMDBFileError) {
      return try StructuralVerifier.quickCheck(path: dataPath, atLeast: bytes)
    } catch {
      throw LMDBError(error, path: dataPath)
    }
  }

  private func checkQuickly(_ found: OpenLockRecord?) throws(LMDBError) {
    let status = try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.status(of: dataPath)
    }
    guard let status, status.size > 0 else { return }
    if let finding = try quickFindings(atLeast: found?.dataBytes ?? 0).first {
      throw failure(found == nil ? .invalid : .damaged, "data.mdb: \(finding)")
    }
  }

  private func storedMapSize() throws(LMDBError) -> UInt64 {
    try convertingSystemErrors { () throws(SystemError) in
      let file = try OwnedFile(path: dataPath, writable: false)
      return try MetaPage.newest(in: file)?.record.mapBytes ?? 0
    }
  }

  private func verify(because doubt: String) throws(LMDBError) {
    let report: StructuralVerifier.Report
    do throws(LMDBFileError) {
      report = try StructuralVerifier.verify(path: dataPath)
    } catch {
      throw LMDBError(error, path: dataPath)
    }
    guard let finding = report.findings.first else { return }
    throw failure(
      report.findings.contains { $0.code == .notOurs } ? .incompatible : .damaged,
      "verified because \(doubt): \(finding)")
  }

  /// Syncs the directory entries of a new environment, so that they survive a loss of power as
  /// commits do.
  private func synchronizeNames() throws(LMDBError) {
    try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.synchronizeDirectory(held.reference)
      try FileSystem.synchronizeParents(of: path)
    }
  }

  /// Allocates the blocks of `lock.mdb`. LMDB creates as many reader slots as the file has room
  /// for.
  private func reserveLockFile() throws(LMDBError) {
    let size = (128 + 64 * options.maximumReaders + 4095) & ~4095
    var ownership = BlockOwnership.owned
    try convertingSystemErrors { () throws(SystemError) in
      let file = try OwnedFile(path: lockPath, creation: .createIfMissing)
      if try file.status.size != size || file.ownBlocks() != .owned {
        try file.truncate(to: 0)
        ownership = file.ownBlocks()
        try file.preallocate(size)
      }
    }
    if case .copiesOnWrite(let name) = ownership { throw failure(.copyOnWrite, name) }
  }
}
