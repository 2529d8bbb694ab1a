// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// OPENING
//
// Under the gate: one process at a time, and one that is killed in here leaves a state the next one
// understands.
//
//   1  nothing in the directory is a Larder store's, a link, or something else than a file
//   2  gate: is anybody here? Then what they agreed on holds: namespace, map size, durability
//   3  nobody: nobody without the gate either (LMDB's own lock on `lock.mdb`); the gate's record says
//      whether the data file gives reason for doubt: then each page of it is verified
//   4  the cheap guard, always: both meta pages are sane, so that LMDB can open and map the file
//   5  nobody: `lock.mdb` gets its blocks, since LMDB would leave a hole that is a SIGBUS on a full
//      disk. Somebody: reader slots of a dead namesake are freed, which LMDB never does
//   6  LMDB opens the file; the record that makes a file a Larder store's is looked for
//   7  the record is completed, this process takes its place, and the gate is let go

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
  private var dataPath: String { path + "/data.mdb" }
  private var lockPath: String { path + "/lock.mdb" }
  private var isOnDemand: Bool { options.durability == .onDemand }

  init(path: String, options: EnvironmentOptions) {
    self.path = path.isEmpty ? path : FileSystem.absolute(path) ?? path
    self.options = options
  }

  private func failure(_ code: LMDBError.Code, _ detail: String? = nil) -> LMDBError {
    LMDBError(code, during: "open \(path)" + (detail.map { " (\($0))" } ?? ""))
  }

  func open() throws(LMDBError) -> Opened {
    ForkGuard.activate()
    if ForkGuard.isForkedChild { throw failure(.usedAfterFork) }
    try options.check(path)
    let identity = try prepareDirectory()
    if EnvironmentHandle.isOpen(identity), !DeferredEnvironmentCloses.contains(identity) {
      throw failure(.alreadyOpen)
    }
    let gate = try EnvironmentOpenLock.enter(path, timeout: options.openTimeout)
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

  private func prepareDirectory() throws(LMDBError) -> FileIdentity {
    guard !path.isEmpty, !path.utf8.contains(0) else {
      throw failure(.invalidOption, "the path is empty, or has a zero in it")
    }
    let status = try convertingSystemErrors { () throws(SystemError) in
      if try FileSystem.status(of: path) == nil { try FileSystem.makeDirectories(path) }
      return try FileSystem.status(of: path)
    }
    guard let status, status.isDirectory else {
      throw LMDBError.system(20, during: "open \(path)")
    }
    if let name = FileSystem.refusedFileSystem(below: path) {
      throw failure(.unsupportedFileSystem, name)
    }
    if let mark = try convertingSystemErrors({ () throws(SystemError) in
      try LarderStoreDetector.found(in: path)
    }) {
      throw failure(.larderStore, mark)
    }
    for name in ["data.mdb", "lock.mdb", EnvironmentOpenLock.name] {
      let status = try convertingSystemErrors { () throws(SystemError) in
        try FileSystem.status(of: "\(path)/\(name)", followingLinks: false)
      }
      guard let status else { continue }
      // By a second name it would have a second gate.
      guard status.isRegularFile, status.links == 1 else {
        throw LMDBError.system(20, during: "open \(path)/\(name) (a link, or not a file)")
      }
    }
    return status.identity
  }

  // MARK: Under the gate

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
      // Before the first commit that does not wait for the disk, the disk knows of it.
      try gate.write(record, synchronously: isOnDemand)
      try reserveLockFile()
    } else {
      try convertingSystemErrors { () throws(SystemError) in
        try ReaderSlots.clear(pid: ProcessIdentity.pid, inLockFile: lockPath)
      }
    }
    let handle = try EnvironmentHandle(
      path: path,
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

  /// Others have it open: what they agreed on holds.
  private func agree(_ found: OpenLockRecord?) throws(LMDBError) -> OpenLockRecord {
    guard let found else { throw failure(.damaged, "the file gate, which others use") }
    guard found.flags.contains(.onDemand) == isOnDemand else {
      throw failure(.inUse, "with another durability")
    }
    guard UInt64(options.mapSize ?? 0) <= found.mapSize else {
      throw failure(.inUse, "with a map of \(found.mapSize) bytes")
    }
    return found
  }

  /// Nobody has it open: what can be believed of what is there?
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
      if let doubt = doubt(found) { try verify(because: doubt) }
      record.dataBytes = UInt64(status.size)
    } else {
      if found?.flags.contains(.made) == true { throw failure(.damaged, "data.mdb is gone") }
      if mapSize == 0 { mapSize = UInt64(EnvironmentOptions.newMapSize) }
    }
    record.mapSize = (mapSize + 65_535) & ~65_535
    return record
  }

  /// LMDB's own lock says whether anybody has the file open, whoever it is.
  private func requireNobodyWithoutGate() throws(LMDBError) {
    let isTaken = try convertingSystemErrors { () throws(SystemError) in
      guard try FileSystem.status(of: lockPath) != nil else { return false }
      return try OwnedFile(path: lockPath).isLockedElsewhere(at: 0)
    }
    if isTaken { throw failure(.inUse, "a program that does not use the gate") }
  }

  private func doubt(_ found: OpenLockRecord?) -> String? {
    guard let found else { return "it comes from elsewhere, or lost its gate" }
    if found.attempts >= 2 { return "two processes died opening it" }
    if found.flags.contains(.onDemand), !found.flags.contains(.closed),
      found.boot != ProcessIdentity.bootID
    {
      return "the system went down while it was written without waiting for the disk"
    }
    return options.verification == .always ? "as asked for" : nil
  }

  /// Of a process that died making the file there is less than the meta pages.
  private func removeUnfinished(
    _ found: OpenLockRecord?, _ status: FileStatus
  ) throws(LMDBError) -> Bool {
    // When its record was written, there was no file, and nothing was ever committed.
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

  /// Makes the names of a new environment survive a loss of power, as commits will.
  private func synchronizeNames() throws(LMDBError) {
    try convertingSystemErrors { () throws(SystemError) in try FileSystem.synchronizeDirectory(path)
    }
    FileSystem.synchronizeParents(of: path)
  }

  /// LMDB makes as many reader slots as the file has room for.
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
