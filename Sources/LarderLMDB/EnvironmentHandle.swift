// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
package import LarderSystem
internal import Synchronization

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// An LMDB environment as liblmdb has it: one directory with `data.mdb` and `lock.mdb`.
///
/// The caller holds a gate around `init` and ``close()``: a process killed inside `mdb_env_open`
/// beside another opener makes LMDB 0.9 lose acknowledged commits, and closing races with opening in
/// several releases. There is at most one environment per directory per process. ``Environment`` is
/// one with a gate of its own; the engine has its own gate, pool and turn to write, and uses this.
@safe @usableFromInline
package final class EnvironmentHandle: Sendable {
  package struct Options: Sendable {
    /// Bytes of address space, the same for every process of a store; `nil`: what the file says.
    package var mapSize: Int?
    /// The least this process makes do with, if it has no address space for ``mapSize``; `nil`: an error
    /// then. A process with a smaller map works as long as the file fits into it.
    package var minimumMapSize: Int?
    /// Named tables.
    package var maximumTables: Int
    /// Reader slots; counts only for the process that creates `lock.mdb`.
    package var maximumReaders: Int
    /// Whether each commit waits for the disk.
    package var synchronous: Bool

    package init(
      mapSize: Int?, minimumMapSize: Int? = nil, maximumTables: Int = 1024,
      maximumReaders: Int = 4094, synchronous: Bool
    ) {
      self.mapSize = mapSize
      self.minimumMapSize = minimumMapSize
      self.maximumTables = maximumTables
      self.maximumReaders = maximumReaders
      self.synchronous = synchronous
    }
  }

  package let path: String
  package let identity: FileIdentity
  // Set once in `init`, cleared once in `close`, which the owner calls when nothing else runs.
  private nonisolated(unsafe) var handle: OpaquePointer?
  // Both used only by whoever has the process's turn to write.
  private nonisolated(unsafe) var writeMap: WriteMapReservation?
  private nonisolated(unsafe) var hasTriedWriteMap = false
  private let locks: LockWaitMonitor?

  private static let open = Mutex<Set<FileIdentity>>([])

  package init(path: String, options: Options) throws(LMDBError) {
    guard let identity = (try? FileSystem.status(of: path))??.identity else {
      throw LMDBError(LMDBError.Code(rawValue: ENOENT), during: "mdb_env_open")
    }
    let isNew = EnvironmentHandle.open.withLock { $0.insert(identity).inserted }
    guard isNew else { throw LMDBError(.alreadyOpen, during: "mdb_env_open") }
    do throws(LMDBError) {
      unsafe (handle, locks) = try EnvironmentHandle.makeFittingHandle(path: path, options: options)
    } catch {
      EnvironmentHandle.open.withLock { _ = $0.remove(identity) }
      throw error
    }
    self.path = path
    self.identity = identity
  }

  /// Opens with the largest map that fits: the whole one, or half of it, and so on.
  ///
  /// The first attempt records the size that all processes want in a new file, whether it fits here or
  /// not. Under a limit on address space no later one takes more than a quarter of it: the program
  /// needs the rest.
  private static func makeFittingHandle(
    path: String, options: Options
  ) throws(LMDBError) -> (OpaquePointer, LockWaitMonitor?) {
    guard let minimum = options.minimumMapSize else {
      return try unsafe makeHandle(path: path, options: options)
    }
    let file = try? OwnedFile(path: path + "/data.mdb", writable: false)
    let least = max(minimum, (try? file?.status.size) ?? 0)
    let stored = (try? file.map { try MetaPage.newest(in: $0) })?.flatMap { $0?.record.mapBytes }
    var options = options
    var size = options.mapSize ?? stored.map { Int(clamping: $0) } ?? least
    while true {
      size = (max(size, least) + 0xFFFF) & ~0xFFFF
      options.mapSize = size
      do throws(LMDBError) {
        return try unsafe makeHandle(path: path, options: options)
      } catch {
        guard error.code.rawValue == ENOMEM else { throw error }
        guard size > (least + 0xFFFF) & ~0xFFFF else {
          throw LMDBError(.addressSpace, during: "open \(path) (a map of \(size) bytes)")
        }
        size = min(size / 2, max((ResourceLimits.addressSpace ?? .max) / 4, least))
      }
    }
  }

  private static func makeHandle(
    path: String, options: Options
  ) throws(LMDBError) -> (OpaquePointer, LockWaitMonitor?) {
    var locks: LockWaitMonitor?
    var created: OpaquePointer?
    try unsafe check(mdb_env_create(&created), "mdb_env_create")
    let handle = unsafe created!
    do throws(LMDBError) {
      if let mapSize = options.mapSize {
        try unsafe check(mdb_env_set_mapsize(handle, mapSize), "mdb_env_set_mapsize")
      }
      try unsafe check(
        mdb_env_set_maxdbs(handle, UInt32(options.maximumTables)), "mdb_env_set_maxdbs")
      try unsafe check(
        mdb_env_set_maxreaders(handle, UInt32(options.maximumReaders)), "mdb_env_set_maxreaders")
      var flags = UInt32(MDB_NOTLS)
      if !options.synchronous { flags |= UInt32(MDB_NOSYNC) }
      try unsafe check(mdb_env_open(handle, path, flags, 0o600), "mdb_env_open")
      var descriptor: CInt = -1
      try unsafe check(mdb_env_get_fd(handle, &descriptor), "mdb_env_get_fd")
      larder_set_cloexec(descriptor)
      locks = unsafe LockWaitMonitor(of: handle, in: path)
      if let locks { LostWakeupWatchdog.shared.add(locks) }
      // LMDB learns how the unnamed table is ordered only when somebody asks for it.
      var transaction: OpaquePointer?
      let begun = LockWaitMonitor.during(locks) {
        let begun = unsafe mdb_txn_begin(handle, nil, UInt32(MDB_RDONLY), &transaction)
        // The dead may have them all.
        guard begun == MDB_READERS_FULL, unsafe mdb_reader_check(handle, nil) == MDB_SUCCESS else {
          return begun
        }
        return unsafe mdb_txn_begin(handle, nil, UInt32(MDB_RDONLY), &transaction)
      }
      try check(begun, "mdb_txn_begin")
      var main: MDB_dbi = 0
      let status = unsafe mdb_dbi_open(transaction, nil, 0, &main)
      unsafe mdb_txn_commit(transaction)
      try check(status, "mdb_dbi_open")
      return unsafe (handle, locks)
    } catch {
      if let locks { LostWakeupWatchdog.shared.remove(locks) }
      // mdb_env_create has given us a handle: it must go even when opening failed.
      unsafe mdb_env_close(handle)
      throw error
    }
  }

  /// Whether this process has the directory open.
  static func isOpen(_ identity: FileIdentity) -> Bool {
    open.withLock { $0.contains(identity) }
  }

  /// Closes the environment. No transaction may be alive. Under the gate; at most once.
  package func close() {
    guard let handle = unsafe handle else { return }
    unsafe self.handle = nil
    if let locks { LostWakeupWatchdog.shared.remove(locks) }
    unsafe mdb_env_close(handle)
    EnvironmentHandle.open.withLock { _ = $0.remove(identity) }
  }

  deinit {
    // An environment that could not be closed under the gate is left to the end of the process.
    guard unsafe handle != nil else { return }
    if let locks { LostWakeupWatchdog.shared.remove(locks) }
    EnvironmentHandle.open.withLock { _ = $0.remove(identity) }
  }

  /// Runs a call of LMDB that may wait for one of its locks; see `LockWaitMonitor.swift`.
  @inline(__always)
  func waiting(_ call: () -> CInt) -> CInt { LockWaitMonitor.during(locks, call) }

  var pointer: OpaquePointer {
    guard let handle = unsafe handle else {
      preconditionFailure("an LMDB environment was used after it was closed")
    }
    return unsafe handle
  }

  // MARK: Writing

  /// The thread that holds the writer's lock, of any process; `nil` when the lock is free, or where
  /// its layout is unknown.
  @inline(__always)
  package var writerThread: Int32? { locks?.writerThread }

  /// Chooses how the next write transaction of this process writes. `WriteMapReservation.swift` has the rules.
  ///
  /// - Parameter throughMap: Through the map, where that is possible and the disk has room ahead.
  ///   Only for environments that are not synchronous. Whoever calls this is the only one of the
  ///   process to write until that transaction has ended.
  package func selectWriteMode(throughMap: Bool) {
    if throughMap, unsafe !hasTriedWriteMap {
      unsafe hasTriedWriteMap = true
      unsafe writeMap = WriteMapReservation(self)
    }
    guard let writeMap = unsafe writeMap else { return }
    writeMap.choose(throughMap: throughMap, after: lastPage)
  }

  /// Where the next transaction writes to; `nil`: to the file.
  var currentWriteMap: WriteMapReservation? {
    guard let writeMap = unsafe writeMap, writeMap.isOn else { return nil }
    return writeMap
  }

  /// Whether this process's transactions write through the map. For whoever has the turn to write.
  package var usesWriteMap: Bool { unsafe writeMap?.isOn ?? false }

  /// Whether a transaction was given up for want of room to write through the map. For the same.
  package var didReservationFail: Bool { unsafe writeMap?.hasRefused ?? false }

  /// The bytes that have blocks on the disk as far as this process has seen to it. For the same.
  package var reservedBytes: Int { unsafe writeMap?.bytes ?? 0 }

  // MARK: Information

  /// The descriptor of `data.mdb`, to look at its size. Never read, write or close it.
  package var dataDescriptor: CInt {
    var descriptor: CInt = -1
    unsafe mdb_env_get_fd(pointer, &descriptor)
    return descriptor
  }

  /// The meta page a transaction wrote; see ``MetaPage/read(of:from:)``.
  package func metaPage(of transaction: UInt64) throws(SystemError) -> MetaPage? {
    try MetaPage.read(
      of: transaction, fromDescriptor: dataDescriptor, pageSize: information.pageSize)
  }

  /// The number of the last page in use.
  var lastPage: Int {
    var info = unsafe MDB_envinfo()
    unsafe mdb_env_info(pointer, &info)
    return unsafe EnvironmentHandle.sound(lastPage: info.me_last_pgno)
  }

  // Of a damaged meta page it may be anything.
  private static func sound(lastPage: Int) -> Int { min(max(lastPage, 0), 1 << 47) }

  package typealias Information = EnvironmentInformation

  package var information: Information {
    var info = unsafe MDB_envinfo()
    var stat = MDB_stat()
    unsafe mdb_env_info(pointer, &info)
    unsafe mdb_env_stat(pointer, &stat)
    return unsafe Information(
      mapSize: info.me_mapsize, lastPage: EnvironmentHandle.sound(lastPage: info.me_last_pgno),
      lastTransaction: UInt64(truncatingIfNeeded: info.me_last_txnid),
      maximumReaders: Int(info.me_maxreaders), usedReaders: Int(info.me_numreaders),
      pageSize: Int(stat.ms_psize))
  }

  /// Writes everything committed so far to the disk.
  package func synchronize() throws(LMDBError) {
    try unsafe check(mdb_env_sync(pointer, 1), "mdb_env_sync")
  }

  /// Writes a copy without free pages to a directory that exists and is empty.
  package func copy(to directory: String, compacting: Bool = true) throws(LMDBError) {
    let status = waiting {
      unsafe mdb_env_copy2(pointer, directory, compacting ? UInt32(MDB_CP_COMPACT) : 0)
    }
    // So LMDB says that pages are neither in use nor free: somebody shortened the free list.
    if status == MDB_INCOMPATIBLE {
      throw LMDBError(.corrupted, during: "mdb_env_copy2 (pages are neither used nor free)")
    }
    try check(status, "mdb_env_copy2")
  }

  // MARK: Readers

  /// Frees the reader slots of processes that no longer live.
  ///
  /// - Returns: The number of slots freed.
  @discardableResult
  package func clearDeadReaders() throws(LMDBError) -> Int {
    var dead: CInt = 0
    try check(waiting { unsafe mdb_reader_check(pointer, &dead) }, "mdb_reader_check")
    return Int(dead)
  }

  package typealias Reader = EnvironmentReader

  package func readers() throws(LMDBError) -> [Reader] {
    final class Lines { var text = "" }
    let lines = Lines()
    let context = unsafe Unmanaged.passUnretained(lines).toOpaque()
    let status = unsafe mdb_reader_list(
      pointer,
      { message, context in
        guard let message = unsafe message, let context = unsafe context else { return 0 }
        let lines = unsafe Unmanaged<Lines>.fromOpaque(context).takeUnretainedValue()
        unsafe lines.text += String(cString: message)
        return 0
      }, context)
    guard status >= 0 else {
      throw LMDBError(LMDBError.Code(rawValue: status), during: "mdb_reader_list")
    }
    // "       pid     thread     txnid", then a line a reader; "-" for a reader at rest.
    return lines.text.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard fields.count == 3, let pid = Int32(fields[0]) else { return nil }
      return Reader(pid: pid, transaction: UInt64(fields[2]))
    }
  }
}

/// Numbers about an environment.
public struct EnvironmentInformation: Sendable, Hashable {
  /// Bytes of address space for the file, in this process.
  public let mapSize: Int
  /// The number of the last page in use; times ``pageSize`` it is about the size of the file.
  public let lastPage: Int
  /// The id of the last transaction committed.
  public let lastTransaction: UInt64
  /// Reader slots there are, for all processes.
  public let maximumReaders: Int
  /// Reader slots that have been in use at the same moment, at most.
  public let usedReaders: Int
  /// Bytes of a page.
  public let pageSize: Int
}

/// One used slot of the reader table.
public struct EnvironmentReader: Sendable, Hashable {
  /// The process it belongs to.
  public let pid: Int32
  /// The snapshot it holds; `nil` when it rests between reads.
  ///
  /// As long as it is held, no page is used again that a later transaction freed: the file grows by
  /// what is written meanwhile.
  public let transaction: UInt64?
}
