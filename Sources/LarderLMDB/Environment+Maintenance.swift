// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Environment {
  /// Numbers about it, as they are now.
  public func information() throws(LMDBError) -> EnvironmentInformation {
    try enter("look at")
    defer { leave() }
    return handle.information
  }

  /// Waits until everything committed so far, by whichever process, is on the disk.
  public func synchronize() throws(LMDBError) {
    try enter("synchronize")
    defer { leave() }
    try handle.synchronize()
  }

  // MARK: Readers

  /// The reader slots in use, of all processes.
  ///
  /// A slot whose ``EnvironmentReader/transaction`` stays the same while others write keeps pages from
  /// being used again: its process is stopped inside a read, or reads for long.
  public func readers() throws(LMDBError) -> [EnvironmentReader] {
    try enter("list readers of")
    defer { leave() }
    return try handle.readers()
  }

  /// Frees the reader slots of processes that no longer live.
  ///
  /// Opening does it, every few seconds a write does, and a read that finds no free slot: there is
  /// rarely a reason to.
  ///
  /// - Returns: How many slots were freed.
  @discardableResult
  public func clearDeadReaders() throws(LMDBError) -> Int {
    try enter("clear readers of")
    defer { leave() }
    return try handle.clearDeadReaders()
  }

  // MARK: Copies

  /// Writes a copy of one snapshot to a new directory, while others read and write on.
  ///
  /// A killed or failed copy leaves nothing under `directory`, which appears when it is complete and
  /// on the disk. The copy can be opened like the original.
  ///
  /// - Parameters:
  ///   - directory: Must not exist, or be empty.
  ///   - compacting: Leaves out free pages: that is how a file gets smaller, which it never does by
  ///     itself.
  /// - Complexity: O(size of the file). Readers and writers are not held up but for a moment.
  public func copy(to directory: String, compacting: Bool = true) throws(LMDBError) {
    try enter("copy")
    defer { leave() }
    try requireNoWrite("copy")
    let operation = "copy \(path) to \(directory)"
    let names = try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.names(in: directory)
    }
    guard names.isEmpty, !directory.isEmpty else { throw LMDBError.system(17, during: operation) }
    let unfinished = "\(directory).unfinished-\(ProcessIdentity.pid)"
    FileSystem.removeTree(unfinished)
    do throws(LMDBError) {
      try convertingSystemErrors { () throws(SystemError) in
        try FileSystem.makeDirectories(unfinished)
      }
      try handle.copy(to: unfinished, compacting: compacting)
      try convertingSystemErrors { () throws(SystemError) in
        try OwnedFile(path: unfinished + "/data.mdb").synchronize()
        try FileSystem.synchronizeDirectory(unfinished)
        try FileSystem.rename(unfinished, to: directory)
      }
      FileSystem.synchronizeParents(of: FileSystem.absolute(directory) ?? directory)
    } catch {
      FileSystem.removeTree(unfinished)
      throw error
    }
  }

  // MARK: Verifying

  /// Verifies the structure of the newest snapshot, while others read and write on.
  ///
  /// Each page its trees reach is read with system calls and checked, without LMDB. Values are not:
  /// bytes that changed on the disk inside of a value show nowhere. Writers wait for the two meta
  /// pages to be read, a moment; the pages of the snapshot are kept until it ends.
  ///
  /// - Complexity: O(size of the file): some 70 ms for each GiB of small values in memory.
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
      // No commit can be under way between its reading and ours.
      let report = try StructuralVerifier.verify(
        fileDescriptor: handle.dataDescriptor, snapshot: snapshot.id,
        isUntouched: {
          held.end()
          return true
        })
      withExtendedLifetime(snapshot) {}
      guard let report else { throw LMDBFileError(operation: "read", errno: 5) }
      return report
    } catch {
      throw LMDBError(error, path: path + "/data.mdb")
    }
  }

  /// Verifies the structure of an environment that nobody has open: that of a doubtful file.
  ///
  /// LMDB trusts its file: of damaged ones, about one in five ends the process with a signal. Opening
  /// verifies by itself when there is reason for doubt; this tells what is wrong, and opens nothing.
  ///
  /// ```swift
  /// let report = try Environment.verify(at: "/var/tmp/app/index")
  /// for finding in report.findings { print(finding) }
  /// ```
  ///
  /// - Throws: ``LMDBError/Code/inUse`` when some process has it open: open it, and ``verify()``.
  public static func verify(at directory: String) throws(LMDBError) -> StructuralVerifier.Report {
    let data = directory + "/data.mdb"
    // Without a gate file, none is made: the directory may be anybody's.
    let gatePath = "\(directory)/\(EnvironmentOpenLock.name)"
    let hasGate = try convertingSystemErrors { () throws(SystemError) in
      try FileSystem.status(of: gatePath) != nil
    }
    let gate =
      hasGate
      ? try EnvironmentOpenLock.enter(directory, timeout: EnvironmentOptions().openTimeout) : nil
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

/// A write transaction that a closure ends, without having changed anything.
private final class WriteLockGuard {
  private var transaction: WriteTransaction?
  private var afterwards: (() -> Void)?

  /// - Parameter afterwards: Called once, when the transaction has ended.
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
