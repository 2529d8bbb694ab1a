// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// An LMDB environment: a directory whose tables all processes of a machine share.
///
/// ```swift
/// let environment = try Environment(at: "/var/tmp/app/index")
/// let people = try environment.table("people")
/// try environment.withWriteTransaction { transaction in
///   try transaction.put("Ada", forKey: "a", in: people)
/// }
/// let name = try environment.withReadTransaction { try $0.bytes(forKey: "a", in: people) }
/// ```
///
/// Any number of processes may open one directory. A commit of one process is visible to the next
/// read of every other process. A process can be killed at any instruction: its committed data
/// stays, its uncommitted changes are lost, and its locks are released.
///
/// Opening and closing are serialised by a lock file (`gate`), because LMDB loses commits if a
/// process is killed while it opens a file that another process opens too. All programs must
/// therefore open the directory through this type. A process has at most one `Environment` per
/// directory; a second one throws ``LMDBError/Code/alreadyOpen``. The environment closes with
/// ``close()`` or when its last reference is released.
///
/// `Environment` rejects the files of a Larder store and directories on network file systems.
public final class Environment: Sendable {
  /// The absolute path of the directory.
  public let path: String
  /// The options with which the environment was opened.
  public let options: EnvironmentOptions

  let handle: EnvironmentHandle
  let gate: EnvironmentOpenLock
  private let turn: WriterTurn
  let pool: ReaderPool
  let serial: UInt
  let tables = Mutex<[String?: Table]>([:])
  private let hasFileSizeLimit = ResourceLimits.fileSize != nil

  enum State: UInt8, AtomicRepresentable { case open, closing, closed }
  let state = Atomic<State>(.open)
  /// The number of operations in progress other than pooled reads, which the pool counts.
  let users = Atomic<Int>(0)
  /// The token of the thread inside a write transaction, or zero.
  private let writer = Atomic<UInt64>(0)
  /// The largest size that `data.mdb` is known to have had.
  private let knownBytes = Atomic<Int>(0)
  /// The time of the last check for stale readers, in nanoseconds.
  private let lastSweep: Atomic<UInt64>

  private static let lastSerial = Atomic<UInt>(0)
  private static let sweepInterval: UInt64 = 5_000_000_000

  /// Opens the environment in a directory, and creates both if they do not exist.
  ///
  /// The call waits while another process opens or closes the environment, at most
  /// ``EnvironmentOptions/openTimeout``. A file that may be damaged is verified first, page by
  /// page.
  ///
  /// - Parameters:
  ///   - path: The path of the directory.
  ///   - options: The options; see ``EnvironmentOptions``.
  /// - Throws: ``LMDBError``, among others ``LMDBError/Code/alreadyOpen``,
  ///   ``LMDBError/Code/larderStore``, ``LMDBError/Code/unsafeDirectory``,
  ///   ``LMDBError/Code/unsupportedFileSystem``, ``LMDBError/Code/invalid``,
  ///   ``LMDBError/Code/damaged``.
  /// - Complexity: O(1), or O(size of the file) if the file is verified.
  public init(at path: String, _ options: EnvironmentOptions = .init()) throws(LMDBError) {
    let opened = try EnvironmentOpener(path: path, options: options).open()
    self.path = opened.path
    self.options = options
    handle = opened.handle
    gate = opened.gate
    turn = opened.turn
    pool = ReaderPool(
      usual: 2 * OSThread.coreCount,
      capacity: max(4 * OSThread.coreCount, min(64, options.maximumReaders / 2)))
    serial = Environment.lastSerial.add(1, ordering: .relaxed).newValue
    lastSweep = Atomic(Clocks.monotonicNanoseconds())
    handle.setSerial(serial)
  }

  deinit { closeWithLastReference() }

  // MARK: Reading

  /// Runs `body` against one consistent snapshot.
  ///
  /// The snapshot contains no commit that any process makes after it began. It prevents the reuse
  /// of its pages, so the file grows while other processes write: keep `body` short, and do not
  /// wait in it. Spans and cursors of the transaction are valid only inside `body`; copy bytes to
  /// keep them.
  ///
  /// - Parameter body: A closure that reads tables through the transaction.
  /// - Returns: The result of `body`.
  /// - Throws: What `body` throws; ``LMDBError/Code/readersFull``; ``LMDBError/Code/closed``;
  ///   ``LMDBError/Code/usedAfterFork``.
  /// - Complexity: O(1) plus `body`; never waits for a writer.
  public func withReadTransaction<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) throws -> R {
    let reader = try takeReader()
    defer { pool.giveBack(reader) }
    do {
      _ = try pool.renew(reader, in: handle) { try pool.isValid($0, of: reader, in: handle) }
      defer { reader.reset() }
      return try reader.withTransaction(body)
    } catch let error as LMDBError {
      // A transaction that returned an error is not used again.
      reader.drop()
      throw error
    }
  }

  private func takeReader() throws(LMDBError) -> PooledReader {
    if ForkGuard.isForkedChild { throw LMDBError(.usedAfterFork, during: "read \(path)") }
    do throws(ReaderPool.Exhausted) {
      if let reader = try pool.take() { return reader }
    } catch {
      throw LMDBError(.readersFull, during: "read \(path) (\(error.capacity) of this process)")
    }
    throw LMDBError(.closed, during: "read \(path)")
  }

  // MARK: Writing

  /// Runs `body` in a transaction and commits it: every process sees all of its changes or none.
  ///
  /// All processes together have one write transaction at a time. Other writers wait, at most
  /// ``EnvironmentOptions/writeTimeout``. If `body` throws, nothing changes. The transaction runs
  /// on the calling thread; keep `body` short on a thread of Swift's cooperative pool.
  ///
  /// - Parameter body: A closure that reads and changes tables through the transaction.
  /// - Returns: The result of `body`.
  /// - Throws: What `body` throws; ``LMDBError/Code/insideTransaction`` inside a write of the same
  ///   environment; ``LMDBError/Code/writerStalled`` with the pid of the process that holds the
  ///   lock; ``LMDBError/Code/mapFull``; a system error if the disk is full.
  public func withWriteTransaction<R>(
    _ body: (inout WriteTransaction) throws -> R
  ) throws -> R {
    try withWriteTransaction(body, proceed: {})
  }

  /// - Parameter proceed: A closure that is called while the writer waits; it throws to end the
  ///   wait.
  func withWriteTransaction<R>(
    _ body: (inout WriteTransaction) throws -> R, proceed: () throws -> Void
  ) throws -> R {
    try enter("write")
    defer { leave() }
    try requireNoWrite("write")
    try takeTurn("write", proceed: proceed)
    defer { endTurn() }
    try checkFileAndReaders()
    guard hasFileSizeLimit else { return try write(body) }
    return try OSThread.blockingSIGXFSZ { () throws(any Error) in try write(body) }
  }

  /// Writes without the writer ticket, as a program does that opens the environment with LMDB
  /// alone.
  package func write<R>(_ body: (inout WriteTransaction) throws -> R) throws -> R {
    do {
      var transaction = try WriteTransaction(in: handle)
      let token = OSThread.token
      writer.store(token, ordering: .relaxed)
      // Another thread may have started a write by then.
      defer { _ = writer.compareExchange(expected: token, desired: 0, ordering: .relaxed) }
      let result = try body(&transaction)
      try transaction.commit()
      return result
    } catch let error as LMDBError where error.code == .mapFull {
      // Stale readers may have prevented the reuse of pages.
      _ = try? handle.clearDeadReaders()
      throw error
    }
  }

  var isWriting: Bool { writer.load(ordering: .relaxed) == OSThread.token }

  /// Throws if this thread is in a write: LMDB does not detect that a thread waits for its own
  /// lock.
  func requireNoWrite(_ operation: String) throws(LMDBError) {
    if isWriting { throw LMDBError(.insideTransaction, during: "\(operation) \(path)") }
  }

  /// Checks before a write that the file exists and is not truncated, and frees stale readers.
  private func checkFileAndReaders() throws(LMDBError) {
    let status = FileSystem.status(ofDescriptor: handle.dataDescriptor)
    let size = status?.size ?? 0
    guard let status, status.links > 0, size >= knownBytes.load(ordering: .relaxed) else {
      throw LMDBError(.filesRemoved, during: "write \(path)")
    }
    knownBytes.max(size, ordering: .relaxed)
    let now = Clocks.monotonicNanoseconds()
    let last = lastSweep.load(ordering: .relaxed)
    if now &- last > Environment.sweepInterval,
      lastSweep.compareExchange(expected: last, desired: now, ordering: .relaxed).exchanged
    {
      try handle.clearDeadReaders()
    }
  }

  /// Acquires the writer ticket, which ``endTurn()`` releases after the transaction has ended.
  func takeTurn(_ operation: String, proceed: () throws -> Void) throws {
    if try turn.take(in: handle, timeout: options.writeTimeout, proceed: proceed) { return }
    throw stalled(operation)
  }

  func takeTurn(_ operation: String) throws(LMDBError) {
    do {
      try takeTurn(operation, proceed: {})
    } catch {
      throw error as? LMDBError ?? stalled(operation)
    }
  }

  func endTurn() { turn.end() }

  func stalled(_ operation: String) -> LMDBError {
    let pid = turn.writer(in: handle) ?? ProcessIdentity.pid
    return LMDBError(
      .writerStalled, during: "\(operation) \(path) (process \(pid) is inside a transaction)",
      pid: pid)
  }

  /// Registers an operation for which ``close()`` must wait.
  func enter(_ operation: String) throws(LMDBError) {
    if ForkGuard.isForkedChild { throw LMDBError(.usedAfterFork, during: "\(operation) \(path)") }
    users.add(1, ordering: .sequentiallyConsistent)
    guard state.load(ordering: .sequentiallyConsistent) == .open else {
      leave()
      throw LMDBError(.closed, during: "\(operation) \(path)")
    }
  }

  func leave() { users.subtract(1, ordering: .sequentiallyConsistent) }
}
