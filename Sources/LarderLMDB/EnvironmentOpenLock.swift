// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE OPEN LOCK (`gate`, next to `data.mdb` and `lock.mdb`; created by Environment, never deleted)
//
// If a process is killed inside `mdb_env_open` while another opens the same file, LMDB 0.9 returns
// to an older state: acknowledged commits are lost. Closing races with opening in several releases.
// So every process holds `flock` on this file while it opens or closes the environment. The kernel
// releases the lock when the process exits.
//
//   locks  flock     around every open, close and upgrade of the map
//          byte 0    read-locked by every process that has the environment open: a process that can
//                    write-lock it has the environment to itself
//          2^40+pid  write-locked by the process itself: a second copy of this library in one
//          process,
//                    or a process with the same pid in another PID namespace, finds it locked
//
//   bytes  0  magic "LMDBgate"      16  PID namespace of the current processes, u64
//          8  version 2, u32        24  map size, one for all processes, u64
//         12  flags, u32            32  boot id of the last opener, u64
//                                   40  opens that started and did not finish, u32;  44  zero, u32
//                                   48  largest known size of the data file, u64
//                                   56  page cache of the data file, 2 u64, see PageCacheIdentity
//                                   72  checksum: XXH64 of bytes 0 to 71
//                                   80  writer ticket, u32: the holder's pid + 1, see WriterTicket;
//                                       84  zero, to 128
//
//   flags  1  commits do not wait for the disk    2  closed by the last process, all of it on disk
//          4  has been opened once: data.mdb must exist
//
// Only a process that has the environment to itself writes the bytes, except at the end of an open.
// If they are lost or damaged, the next open verifies the data file.

/// The contents of the gate file.
struct OpenLockRecord: Equatable {
  static let byteCount = 80
  private static let magic: UInt64 = 0x6574_6167_4244_4D4C
  private static let version: UInt32 = 2

  struct Flags: OptionSet {
    let rawValue: UInt32
    static let onDemand = Flags(rawValue: 1)
    static let closed = Flags(rawValue: 2)
    static let made = Flags(rawValue: 4)
  }

  var flags: Flags = []
  var namespace: UInt64 = 0
  var mapSize: UInt64 = 0
  var boot: UInt64 = 0
  var attempts: UInt32 = 0
  var dataBytes: UInt64 = 0
  var pageCache = PageCacheIdentity.none

  init() {}

  init?(_ bytes: [UInt8]) {
    guard
      bytes.count == Self.byteCount, bytes.integer(at: 0) == Self.magic,
      bytes.integer(at: 8) == Self.version,
      bytes.integer(at: 72) == XXH64.hash(Array(bytes.prefix(72))),
      let flags: UInt32 = bytes.integer(at: 12), let namespace: UInt64 = bytes.integer(at: 16),
      let mapSize: UInt64 = bytes.integer(at: 24), mapSize <= LMDBFormat.maximumMapBytes,
      let boot: UInt64 = bytes.integer(at: 32), let attempts: UInt32 = bytes.integer(at: 40),
      let dataBytes: UInt64 = bytes.integer(at: 48), let mount: UInt64 = bytes.integer(at: 56),
      let fileSystem: UInt64 = bytes.integer(at: 64)
    else { return nil }
    self.flags = Flags(rawValue: flags)
    self.namespace = namespace
    self.mapSize = mapSize
    self.boot = boot
    self.attempts = attempts
    self.dataBytes = dataBytes
    pageCache = PageCacheIdentity(mount: mount, fileSystem: fileSystem)
  }

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(littleEndian: Self.magic)
    bytes.append(littleEndian: Self.version)
    bytes.append(littleEndian: flags.rawValue)
    bytes.append(littleEndian: namespace)
    bytes.append(littleEndian: mapSize)
    bytes.append(littleEndian: boot)
    bytes.append(littleEndian: attempts)
    bytes.append(littleEndian: UInt32(0))
    bytes.append(littleEndian: dataBytes)
    bytes.append(littleEndian: pageCache.mount)
    bytes.append(littleEndian: pageCache.fileSystem)
    bytes.append(littleEndian: XXH64.hash(bytes))
    return bytes
  }
}

/// The open lock of one environment: held while it is opened or closed; the file stays open
/// between.
final class EnvironmentOpenLock: Sendable {
  static let name = "gate"
  private static let presenceByte: Int64 = 0
  private static let firstPid: Int64 = 1 << 40

  private let file: OwnedFile
  /// Stays open so that no other directory gets its inode number, which identifies an open
  /// environment.
  private let directory: OwnedFile
  /// The paths that the environment's handle uses lead through it.
  private let held: HeldDirectory

  private init(_ file: OwnedFile, _ directory: OwnedFile, _ held: HeldDirectory) {
    self.file = file
    self.directory = directory
    self.held = held
  }

  /// Waits for the open lock of a directory and acquires it.
  static func enter(
    _ holding: HeldDirectory, timeout: Duration
  ) throws(LMDBError) -> EnvironmentOpenLock {
    let directory = holding.reference
    let path = "\(directory)/\(name)"
    let wait = Wait(timeout, "open \(holding.path)")
    while true {
      var held: OwnedFile?
      do throws(SystemError) {
        let file = try OwnedFile(path: path, creation: .createIfMissing, closesInForkedChild: true)
        guard try file.status.isRegularFile else {
          throw SystemError(errno: SystemError.notADirectory, operation: "open", path: path)
        }
        if try file.tryExclusiveLock() {
          // Another process may have removed the directory between the open and the lock.
          if try FileSystem.status(of: path)?.identity == file.status.identity {
            return EnvironmentOpenLock(
              file, try OwnedFile(path: "\(directory)/.", writable: false), holding)
          }
        } else {
          held = file
        }
      } catch {
        throw LMDBError(error)
      }
      try wait.again(held)
    }
  }

  /// Waits for the open lock again, to close the environment.
  func reacquire(_ directory: String, timeout: Duration) throws(LMDBError) {
    let wait = Wait(timeout, "close \(directory)")
    while try !convertingSystemErrors({ () throws(SystemError) in try file.tryExclusiveLock() }) {
      try wait.again(file)
    }
  }

  func leave() { file.unlock() }

  private struct Wait {
    let deadline: UInt64
    let operation: String
    let pause = Event()

    init(_ timeout: Duration, _ operation: String) {
      deadline = Clocks.deadline(after: timeout)
      self.operation = operation
    }

    /// - Parameter file: The gate file, which another process has locked.
    func again(_ file: OwnedFile?) throws(LMDBError) {
      guard Clocks.monotonicNanoseconds() < deadline else {
        let holder = file?.lockHolder
        let by = holder.map { " (process \($0) holds the open lock)" } ?? ""
        throw LMDBError(.openTimeout, during: operation + by, pid: holder)
      }
      pause.wait(nanoseconds: 2_000_000)
    }
  }

  // MARK: The writer ticket

  private static let ticketOffset = OpenLockRecord.byteCount
  private static let mappedBytes = 128

  /// Maps the writer ticket. Its blocks are allocated here, so a full disk is an error now and not
  /// a signal later.
  func writerTurn() throws(LMDBError) -> WriterTurn {
    try convertingSystemErrors { () throws(SystemError) in
      if try file.status.size < EnvironmentOpenLock.mappedBytes {
        let count = EnvironmentOpenLock.mappedBytes - EnvironmentOpenLock.ticketOffset
        try file.write([UInt8](repeating: 0, count: count), at: EnvironmentOpenLock.ticketOffset)
      }
      let region = try MappedRegion(sharing: file, count: EnvironmentOpenLock.mappedBytes)
      return WriterTurn(region, offset: EnvironmentOpenLock.ticketOffset, gate: self)
    }
  }

  /// Returns whether the process `pid` has the environment open, or `true` if that is unknown.
  func isPresent(_ pid: Int) -> Bool {
    (try? file.isLockedElsewhere(at: EnvironmentOpenLock.firstPid + Int64(pid))) ?? true
  }

  // MARK: Presence

  /// Returns whether this process alone has the environment open through the lock file. The result
  /// stays valid until ``settle()``.
  func isAlone() throws(LMDBError) -> Bool {
    try convertingSystemErrors { () throws(SystemError) in
      try file.tryLock(.exclusive, at: EnvironmentOpenLock.presenceByte)
    }
  }

  /// Locks this process's pid byte.
  ///
  /// - Returns: `false` if this process, or one with the same pid, already has the environment
  ///   open.
  func lockPID() throws(LMDBError) -> Bool {
    try convertingSystemErrors { () throws(SystemError) in
      try file.tryLock(.exclusive, at: EnvironmentOpenLock.firstPid + Int64(ProcessIdentity.pid))
    }
  }

  /// Changes the exclusive lock of the check into the shared lock of an open environment.
  func downgradeToShared() throws(LMDBError) {
    _ = try convertingSystemErrors { () throws(SystemError) in
      try file.tryLock(.shared, at: EnvironmentOpenLock.presenceByte)
    }
  }

  /// Releases all byte-range locks of this process.
  func unlockAll() { _ = try? file.tryLock(.none, at: 0, count: 0) }

  // MARK: The record

  /// Reads the record.
  ///
  /// - Returns: The record, or `nil` if the file is empty or its record is not valid.
  func record() throws(LMDBError) -> OpenLockRecord? {
    try convertingSystemErrors { () throws(SystemError) in
      OpenLockRecord(try file.read(count: OpenLockRecord.byteCount, at: 0))
    }
  }

  func write(_ record: OpenLockRecord, synchronously: Bool = false) throws(LMDBError) {
    try convertingSystemErrors { () throws(SystemError) in
      try file.write(record.bytes, at: 0)
      if synchronously { try file.synchronizeContent() }
    }
  }
}

/// Runs `work` and converts errors of the system to errors of the environment.
func convertingSystemErrors<R>(_ work: () throws(SystemError) -> R) throws(LMDBError) -> R {
  do {
    return try work()
  } catch {
    throw LMDBError(error)
  }
}
