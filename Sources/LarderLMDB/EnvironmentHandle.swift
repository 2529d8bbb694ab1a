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

/// An LMDB environment of liblmdb: one directory with `data.mdb` and `lock.mdb`.
///
/// The caller holds an open lock around `init` and ``close()``: a process killed inside
/// `mdb_env_open` while another process opens the file makes LMDB 0.9 lose acknowledged commits,
/// and closing races with opening in several releases. A process has at most one environment per
/// directory. ``Environment`` wraps a handle with its own open lock; the engine uses the handle
/// directly, with its own open lock, pool and writer ticket.
@safe @usableFromInline
package final class EnvironmentHandle: Sendable {
  package struct Options: Sendable {
    /// The bytes of address space, equal in every process of a store, or `nil` for the size in the
    /// file.
    package var mapSize: Int?
    /// The smallest map this process accepts if its address space cannot hold ``mapSize``, or `nil`
    /// to throw in that case. A process with a smaller map works as long as the file fits into it.
    package var minimumMapSize: Int?
    /// The maximum number of named tables.
    package var maximumTables: Int
    /// The number of reader slots; applies only in the process that creates `lock.mdb`.
    package var maximumReaders: Int
    /// Whether each commit waits for the disk.
    package var synchronous: Bool
    /// Whether the environment is opened to read only, without `lock.mdb`. The caller makes sure that no process
    /// writes while it is open.
    package var isQuiet: Bool

    package init(
      mapSize: Int?, minimumMapSize: Int? = nil, maximumTables: Int = 1024,
      maximumReaders: Int = 4094, synchronous: Bool, isQuiet: Bool = false
    ) {
      self.isQuiet = isQuiet
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
  // Both are used only by the thread that holds the process writer lock.
  private nonisolated(unsafe) var writeMap: WriteMapReservation?
  private nonisolated(unsafe) var hasTriedWriteMap = false
  private let locks: LockWaitMonitor?
  private let isQuiet: Bool
  let context = EnvironmentContext()

  /// The environments of this process that have `lock.mdb` open: its locks end with the first descriptor of it that is
  /// closed, so there is one of each.
  private static let open = Mutex<Set<FileIdentity>>([])

  package init(path: String, options: Options) throws(LMDBError) {
    guard let identity = (try? FileSystem.status(of: path))??.identity else {
      throw LMDBError(LMDBError.Code(rawValue: ENOENT), during: "mdb_env_open")
    }
    isQuiet = options.isQuiet
    let isNew = isQuiet || EnvironmentHandle.open.withLock { $0.insert(identity).inserted }
    guard isNew else { throw LMDBError(.alreadyOpen, during: "mdb_env_open") }
    do throws(LMDBError) {
      unsafe (handle, locks) = try EnvironmentHandle.makeFittingHandle(path: path, options: options)
    } catch {
      if !isQuiet { EnvironmentHandle.open.withLock { _ = $0.remove(identity) } }
      throw error
    }
    self.path = path
    self.identity = identity
    unsafe mdb_env_set_userctx(pointer, Unmanaged.passUnretained(context).toOpaque())
  }

  /// Opens the environment with the largest map that fits: the full size, half of it, and so on.
  ///
  /// The first attempt records in a new file the size that all processes request, whether it fits
  /// here or not. Under a limit on address space, later attempts use at most a quarter of it: the
  /// program needs the rest.
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
      if options.isQuiet { flags |= UInt32(MDB_RDONLY | MDB_NOLOCK) }
      try unsafe check(mdb_env_open(handle, path, flags, 0o600), "mdb_env_open")
      var descriptor: CInt = -1
      try unsafe check(mdb_env_get_fd(handle, &descriptor), "mdb_env_get_fd")
      larder_set_cloexec(descriptor)
      locks = options.isQuiet ? nil : unsafe LockWaitMonitor(of: handle, in: path)
      if let locks { LostWakeupWatchdog.shared.add(locks) }
      // LMDB reads the order of the unnamed table only when a call needs it.
      var transaction: OpaquePointer?
      let begun = LockWaitMonitor.during(locks) {
        let begun = unsafe mdb_txn_begin(handle, nil, UInt32(MDB_RDONLY), &transaction)
        // Stale readers may occupy all slots.
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
      // mdb_env_create allocated a handle: free it even if opening failed.
      unsafe mdb_env_close(handle)
      throw error
    }
  }

  /// Whether this process has the directory open.
  static func isOpen(_ identity: FileIdentity) -> Bool {
    open.withLock { $0.contains(identity) }
  }

  /// Closes the environment. The caller holds the open lock, no transaction exists, and this is the
  /// only call.
  package func close() {
    guard let handle = unsafe handle else { return }
    unsafe self.handle = nil
    if let locks { LostWakeupWatchdog.shared.remove(locks) }
    unsafe mdb_env_close(handle)
    if !isQuiet { EnvironmentHandle.open.withLock { _ = $0.remove(identity) } }
  }

  deinit {
    // An environment that could not be closed under the open lock stays open until the process
    // exits.
    guard unsafe handle != nil else { return }
    if let locks { LostWakeupWatchdog.shared.remove(locks) }
    if !isQuiet { EnvironmentHandle.open.withLock { _ = $0.remove(identity) } }
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

  /// The thread that holds the writer lock, of any process, or `nil` if the lock is free or its
  /// layout is unknown.
  @inline(__always)
  package var writerThread: Int32? { locks?.writerThread }

  /// Whether the writer lock is free, for the holder of the writer ticket, which waits for it.
  ///
  /// A lock whose word is damaged is released, as if its holder had died: it names a thread that does not exist, or
  /// for a second one that cannot have it.
  ///
  /// - Parameter canHold: Says of a thread that exists whether it can have the lock.
  package func isWriterLockFree(
    for wait: inout WriterLockWait, canHold: (Int32) -> Bool = { _ in true }
  ) -> Bool {
    locks?.isFree(for: &wait, canHold: canHold) ?? true
  }

  /// Sets what says, of a thread that exists, whether it can have the writer lock; called by the watchdog when a call
  /// of this process has waited for it for a second.
  package func judgeWriters(by test: @escaping @Sendable (Int32) -> Bool) {
    locks?.judgeWriters(by: test)
  }

  /// Selects how the next write transaction of this process writes. `WriteMapReservation.swift`
  /// contains the rules.
  ///
  /// - Parameter throughMap: Whether to write through the map, where that is possible and the disk
  ///   has room ahead. Only for environments that are not synchronous. The caller is the only
  ///   writer of the process until that transaction has ended.
  package func selectWriteMode(throughMap: Bool) {
    if throughMap, unsafe !hasTriedWriteMap {
      unsafe hasTriedWriteMap = true
      unsafe writeMap = WriteMapReservation(self)
    }
    guard let writeMap = unsafe writeMap else { return }
    writeMap.choose(throughMap: throughMap, after: lastPage)
  }

  /// The map to which the next transaction writes, or `nil` if it writes to the file.
  var currentWriteMap: WriteMapReservation? {
    guard let writeMap = unsafe writeMap, writeMap.isOn else { return nil }
    return writeMap
  }

  /// Whether this process's transactions write through the map. The caller holds the process writer
  /// lock.
  package var usesWriteMap: Bool { unsafe writeMap?.isOn ?? false }

  /// Whether a transaction was aborted because no room could be reserved for writing through the
  /// map. The caller holds the process writer lock.
  package var didReservationFail: Bool { unsafe writeMap?.hasRefused ?? false }

  /// The bytes for which this process has reserved blocks on disk. The caller holds the process
  /// writer lock.
  package var reservedBytes: Int { unsafe writeMap?.bytes ?? 0 }

  // MARK: Information

  /// The descriptor of `data.mdb`, for reading its size. Never read, write or close it.
  package var dataDescriptor: CInt {
    var descriptor: CInt = -1
    unsafe mdb_env_get_fd(pointer, &descriptor)
    return descriptor
  }

  /// Returns the meta page that a transaction wrote; see ``MetaPage/read(of:from:)``.
  package func metaPage(of transaction: UInt64) throws(SystemError) -> MetaPage? {
    try MetaPage.read(
      of: transaction, fromDescriptor: dataDescriptor, pageSize: information.pageSize)
  }

  /// The number of the last page in use.
  package var lastPage: Int {
    var info = unsafe MDB_envinfo()
    unsafe mdb_env_info(pointer, &info)
    return unsafe EnvironmentHandle.sound(lastPage: info.me_last_pgno)
  }

  // A damaged meta page may contain any number.
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

  /// Writes all commits so far to disk.
  package func synchronize() throws(LMDBError) {
    try unsafe check(mdb_env_sync(pointer, 1), "mdb_env_sync")
  }

  /// Writes a copy without free pages to a directory that exists and is empty.
  package func copy(to directory: String) throws(LMDBError) {
    let status = waiting {
      unsafe mdb_env_copy2(pointer, directory, UInt32(MDB_CP_COMPACT))
    }
    // LMDB's status if pages are neither in use nor free: the free list was shortened.
    if status == MDB_INCOMPATIBLE {
      throw LMDBError(.corrupted, during: "mdb_env_copy2 (pages are neither in use nor free)")
    }
    try check(status, "mdb_env_copy2")
    // LMDB creates it for all users that the umask permits. A file system without modes refuses the call.
    _ = unsafe chmod(directory + "/data.mdb", 0o600)
  }

  // MARK: Readers

  /// Frees the reader slots of processes that have exited.
  ///
  /// - Returns: The number of freed slots.
  @discardableResult
  package func clearDeadReaders() throws(LMDBError) -> Int {
    // The call may wait for a lock, for which the watchdog's thread wakes. LMDB frees no slot of this
    // process.
    let others = try readers().filter { $0.pid != ProcessIdentity.pid }
    guard others.contains(where: { locks?.isAlive($0) != true }) else { return 0 }
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
    // "       pid     thread     txnid", then a line per reader; "-" for a reader without a
    // snapshot.
    return lines.text.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard fields.count == 3, let pid = Int32(fields[0]) else { return nil }
      return Reader(pid: pid, transaction: UInt64(fields[2]))
    }
  }
}

/// The current size, map and reader numbers of an environment.
public struct EnvironmentInformation: Sendable, Hashable {
  /// The bytes of address space for the file, in this process.
  public let mapSize: Int
  /// The number of the last page in use. Multiplied by ``pageSize``, it is about the size of the
  /// file.
  public let lastPage: Int
  /// The id of the last committed transaction.
  public let lastTransaction: UInt64
  /// The number of reader slots, for all processes.
  public let maximumReaders: Int
  /// The largest number of reader slots that have been in use at the same time.
  public let usedReaders: Int
  /// The size of a page in bytes.
  public let pageSize: Int
}

/// One used slot of the reader table.
public struct EnvironmentReader: Sendable, Hashable {
  /// The identifier of the process that owns the slot.
  public let pid: Int32
  /// The id of the snapshot that the reader holds, or `nil` between reads.
  ///
  /// While a reader holds a snapshot, pages freed by later transactions are not reused, so the file
  /// grows with every write.
  public let transaction: UInt64?
}
