// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Environment {
  /// Returns the current size, map and reader numbers of the environment.
  ///
  /// - Throws: ``LMDBError/Code/closed``, ``LMDBError/Code/usedAfterFork``.
  public func information() throws(LMDBError) -> EnvironmentInformation {
    try enter("look at")
    defer { leave() }
    return handle.information
  }

  /// Waits until all commits so far, of all processes, are on disk.
  ///
  /// - Throws: A system error if the sync fails; ``LMDBError/Code/closed``.
  public func synchronize() throws(LMDBError) {
    try enter("synchronize")
    defer { leave() }
    try handle.synchronize()
  }

  // MARK: Readers

  /// Returns the reader slots in use, of all processes.
  ///
  /// A slot whose ``EnvironmentReader/transaction`` stays the same while other processes write
  /// prevents the reuse of freed pages: its process is stopped inside a read, or reads for a long
  /// time.
  ///
  /// - Throws: ``LMDBError/Code/closed``, ``LMDBError/Code/usedAfterFork``.
  public func readers() throws(LMDBError) -> [EnvironmentReader] {
    try enter("list readers of")
    defer { leave() }
    return try handle.readers()
  }

  /// Frees the reader slots of processes that have exited.
  ///
  /// Larder does this when it opens the environment, every few seconds during writes, and when a
  /// read finds no free slot, so an explicit call is rarely necessary.
  ///
  /// - Returns: The number of freed slots.
  /// - Throws: ``LMDBError/Code/closed``, ``LMDBError/Code/usedAfterFork``.
  @discardableResult
  public func clearDeadReaders() throws(LMDBError) -> Int {
    try enter("clear readers of")
    defer { leave() }
    return try handle.clearDeadReaders()
  }

  // MARK: Copies

  /// Writes a copy of one snapshot to a new directory, while other threads and processes read and
  /// write.
  ///
  /// `directory` appears only when the copy is complete and on disk, so a killed or failed copy
  /// leaves nothing there. The copy opens like the original and has no free pages: a copy is the
  /// only way to make a file smaller.
  ///
  /// - Parameter directory: The path of the copy. It must not exist, or must be empty.
  /// - Throws: ``LMDBError/Code/closed``; a system error if the copy cannot be written.
  /// - Complexity: O(size of the file). No reader or writer waits for it.
  public func copy(to directory: String) throws(LMDBError) {
    try enter("copy")
    defer { leave() }
    try requireNoWrite("copy")
    let operation = "copy \(path) to \(directory)"
    let names = try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.names(in: directory)
    }
    guard names.isEmpty, !directory.isEmpty else { throw LMDBError.system(17, during: operation) }
    let lock = try convertingSystemErrors { () throws(SystemError) in
      try WorkDirectory.make("\(directory).unfinished-")
    }
    defer { lock.unlock() }
    var place = lock.path
    do throws(LMDBError) {
      try handle.copy(to: place)
      try convertingSystemErrors { () throws(SystemError) in
        try OwnedFile(path: place + "/data.mdb").synchronize()
        try FileSystem.synchronizeDirectory(place)
        try FileSystem.rename(place, to: directory)
        place = directory
        try FileSystem.synchronizeParents(of: FileSystem.absolute(directory) ?? directory)
      }
    } catch {
      FileSystem.removeTree(place)
      throw error
    }
  }

  // MARK: Verifying

  /// Verifies the structure of the newest snapshot, while other threads and processes read and
  /// write.
  ///
  /// The verifier reads every page that the trees reach with system calls and checks it, without
  /// LMDB. It does not check values: changed bytes inside a value stay undetected. Writers wait
  /// while the two meta pages are read. The pages of the snapshot are not reused until verification
  /// ends.
  ///
  /// - Returns: The report, with one finding per inconsistency.
  /// - Throws: ``LMDBError/Code/insideTransaction`` inside a write of this environment;
  ///   ``LMDBError/Code/writerStalled``; a system error if the file cannot be read.
  /// - Complexity: O(size of the file): about 70 ms per GiB of small values in memory.
  public func verify() throws(LMDBError) -> StructuralVerifier.Report {
    try enter("verify")
    defer { leave() }
    try requireNoWrite("verify")
    try takeTurn("verify")
    let held: WriteLockGuard
    do throws(LMDBError) {
      held = WriteLockGuard(try WriteTransaction(in: handle)) { [self] in endTurn() }
    } catch {
      endTurn()
      throw error
    }
    defer { held.end() }
    let snapshot = try PinnedSnapshot(in: handle)
    do throws(LMDBFileError) {
      // The write lock excludes a commit between the two meta page reads.
      let report = try StructuralVerifier.verify(
        fileDescriptor: handle.dataDescriptor, snapshot: snapshot.id,
        isUntouched: {
          held.end()
          return true
        })
      withExtendedLifetime(snapshot) {}
      guard let report else {
        throw LMDBFileError(operation: "read", errno: SystemError.inputOutput)
      }
      return report
    } catch {
      throw LMDBError(error, path: path + "/data.mdb")
    }
  }

  /// Verifies the structure of an environment that no process has open, such as a possibly damaged
  /// file.
  ///
  /// LMDB trusts its file: about one in five damaged files ends the process with a signal. Opening
  /// verifies a suspect file automatically; this function reports the findings without opening the
  /// file.
  ///
  /// ```swift
  /// let report = try Environment.verify(at: "/var/tmp/app/index")
  /// for finding in report.findings { print(finding) }
  /// ```
  ///
  /// - Parameter directory: The path of the environment's directory.
  /// - Returns: The report, with one finding per inconsistency.
  /// - Throws: ``LMDBError/Code/inUse`` if a process has the environment open; open it and call
  ///   ``verify()`` in that case.
  /// - Complexity: O(size of the file).
  public static func verify(at directory: String) throws(LMDBError) -> StructuralVerifier.Report {
    let data = directory + "/data.mdb"
    // An absent gate file is not created: the directory may belong to another program.
    let gatePath = "\(directory)/\(EnvironmentOpenLock.name)"
    let hasGate = try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.status(of: gatePath) != nil
    }
    let gate =
      hasGate
      ? try EnvironmentOpenLock.enter(
        EnvironmentDirectory.hold(FileSystem.absolute(directory) ?? directory),
        timeout: EnvironmentOptions().openTimeout) : nil
    defer {
      gate?.unlockAll()
      gate?.leave()
    }
    if let gate, try !gate.isAlone() { throw LMDBError(.inUse, during: "verify \(directory)") }
    do throws(LMDBFileError) {
      return try StructuralVerifier.verify(path: data)
    } catch {
      throw LMDBError(error, path: data)
    }
  }
}

/// A write transaction that holds the writer lock without changes and that a closure ends.
private final class WriteLockGuard {
  private var transaction: WriteTransaction?
  private var afterwards: (() -> Void)?

  /// - Parameter afterwards: A closure that is called once, after the transaction has ended.
  init(_ transaction: consuming WriteTransaction, _ afterwards: @escaping () -> Void) {
    self.transaction = consume transaction
    self.afterwards = afterwards
  }

  func end() {
    transaction = nil
    afterwards?()
    afterwards = nil
  }
}
