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
/// Any number of processes may open one directory; a commit of one is what the next read of every
/// other sees. A process can be killed at any instruction: what it committed stays, what it did not
/// is gone, and nobody waits for it.
///
/// Opening and closing go through a lock of their own (the file `gate`), because LMDB loses commits
/// when a process dies opening a file beside another; so let all programs open it through this type.
/// There is one `Environment` for a directory in a process: opening a second one is
/// ``LMDBError/Code/alreadyOpen``. It closes with ``close()`` or its last reference.
///
/// Not for the files of a Larder store, which it refuses, and not for network file systems.
public final class Environment: Sendable {
  /// Its directory, as an absolute path.
  public let path: String
  /// As it was opened.
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
  /// What goes on besides reads, of which the pool knows.
  let users = Atomic<Int>(0)
  /// The thread inside a write transaction; zero: none.
  private let writer = Atomic<UInt64>(0)
  /// The size `data.mdb` is known to have reached.
  private let knownBytes = Atomic<Int>(0)
  /// When dead readers were looked for last, in nanoseconds.
  private let lastSweep: Atomic<UInt64>

  private static let lastSerial = Atomic<UInt>(0)
  private static let sweepInterval: UInt64 = 5_000_000_000

  /// Opens the environment in a directory, making both if they are missing.
  ///
  /// It waits while another process opens or closes it, at most ``EnvironmentOptions/openTimeout``.
  /// A file that gives reason for doubt is verified first, each page of it.
  ///
  /// - Throws: ``LMDBError``, among others ``LMDBError/Code/alreadyOpen``,
  ///   ``LMDBError/Code/larderStore``, ``LMDBError/Code/unsupportedFileSystem``,
  ///   ``LMDBError/Code/invalid``, ``LMDBError/Code/damaged``.
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
  /// Nothing that any process commits meanwhile is in it. It keeps the pages of its state from being
  /// used again, so that the file grows by what is written: keep `body` short, without waiting.
  /// What it is lent, it cannot let out; copies it can.
  ///
  /// - Complexity: O(1) besides `body`; never waits for a writer.
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
      // A transaction that met an error is not used again.
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

  /// Runs `body` in a transaction and commits it: for every process all of it, or nothing.
  ///
  /// There is one write transaction at a time, of all processes; the others wait, at most
  /// ``EnvironmentOptions/writeTimeout``.
  /// An error that leaves `body` leaves everything as it was. All of it runs on the calling thread,
  /// which must not be one of Swift's pool for long: keep `body` short.
  ///
  /// - Throws: what `body` throws; ``LMDBError/Code/insideTransaction`` inside a write of the same
  ///   environment; ``LMDBError/Code/writerStalled`` with the process that was waited for;
  ///   ``LMDBError/Code/mapFull``; an error of the system when the disk is full.
  public func withWriteTransaction<R>(
    _ body: (inout WriteTransaction) throws -> R
  ) throws -> R {
    try withWriteTransaction(body, proceed: {})
  }

  /// - Parameter proceed: Called while it waits for its turn; throws to end the wait.
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

  /// Writes without the turn, as a program does that opens the environment with LMDB alone.
  package func write<R>(_ body: (inout WriteTransaction) throws -> R) throws -> R {
    do {
      var transaction = try WriteTransaction(in: handle)
      let token = OSThread.token
      writer.store(token, ordering: .relaxed)
      // Another thread may have begun by then.
      defer { _ = writer.compareExchange(expected: token, desired: 0, ordering: .relaxed) }
      let result = try body(&transaction)
      try transaction.commit()
      return result
    } catch let error as LMDBError where error.code == .mapFull {
      // Readers that died may have kept pages from being used again.
      _ = try? handle.clearDeadReaders()
      throw error
    }
  }

  var isWriting: Bool { writer.load(ordering: .relaxed) == OSThread.token }

  /// LMDB's writer lock does not know that it is held by the one that waits for it.
  func requireNoWrite(_ operation: String) throws(LMDBError) {
    if isWriting { throw LMDBError(.insideTransaction, during: "\(operation) \(path)") }
  }

  /// Before a write: is the file still there and whole, and does anybody dead keep pages?
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

  /// Takes the turn to write, which ``endTurn()`` gives back once the transaction has ended.
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

  /// Begins what ``close()`` has to wait for.
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
