// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The mapped file `locks` or `rates`, and this process's owner slot in it. Format:
/// `LockFileLayout.swift`.
final class LockFile: Sendable {
  typealias Layout = LockFileLayout

  let path: String
  let table: LockTable
  let file: OwnedFile
  let identity: FileIdentity
  let words: SharedWords
  /// The id of this process in the file; its upper bits are the number of the owner slot.
  let owner: UInt64
  /// The clock of the store.
  let clock: StoreClock
  /// Requests that belong to this process and are in no list.
  let idle = Mutex<[Int]>([])
  /// Tickets whose holder does not have its id in "inside", by offset, and since when.
  let suspects = Mutex<[Int: (holder: Int, since: UInt64)]>([:])
  /// The async waits of this process.
  let waits = LockWaits()

  static func ownerNumber(_ owner: UInt64) -> Int { Int(owner >> 48) }
  var ownNumber: Int { Self.ownerNumber(owner) }

  /// Maps the file, creates it if it is missing, and acquires an owner slot.
  init(path: String, _ table: LockTable, clock: StoreClock) throws(StoreError) {
    self.path = path
    self.table = table
    self.clock = clock
    do throws(SystemError) {
      ForkGuard.activate()
      file = try OwnedFile(path: path, creation: .createIfMissing, closesInForkedChild: true)
      let status = try file.status
      guard status.isRegularFile, status.owner == FileSystem.userID else {
        throw SystemError(errno: SystemError.inputOutput, operation: "use as a file", path: path)
      }
      identity = status.identity
      // Every creator writes the same bytes, so creating needs no lock.
      if status.size == 0 { _ = file.ownBlocks() }
      if status.size < table.fileSize { try file.preallocate(table.fileSize) }
    } catch {
      throw StoreError(error, during: "lock", path: path)
    }
    try Self.writeHeader(file, table)
    do throws(SystemError) {
      words = try SharedWords(mapping: file, count: table.fileSize)
    } catch {
      throw StoreError(error, during: "lock", path: path)
    }
    owner = try Self.enter(file, words, table)
  }

  /// The id of a process that only observes: it has no owner slot.
  private static let observer = UInt64.max

  /// Copies an existing file, for ``status()`` alone: the copy changes no more, and neither does the
  /// file.
  /// - Returns: `nil` for a file without a header, or of an older version: the next process that uses it writes it.
  init?(observing file: OwnedFile, _ table: LockTable) throws(SystemError) {
    path = file.path
    self.table = table
    self.file = file
    clock = .system
    identity = try file.status.identity
    guard let version = LockFileLayout.version(of: try file.read(count: 48, at: 0)) else {
      return nil
    }
    // No process of this version has used it.
    if version < LockFileLayout.version { return nil }
    guard version == LockFileLayout.version else {
      throw SystemError(errno: SystemError.inputOutput, operation: "read", path: path)
    }
    words = try SharedWords(copying: file, count: table.fileSize)
    owner = Self.observer
  }

  deinit {
    if ForkGuard.isForkedChild || owner == Self.observer { return }
    for request in idle.withLock({ $0 }) { disown(request) }
    words.store(0, at: Layout.owner(ownNumber))
  }

  /// The time for which a file of an older version may have users: another process may be replacing its contents.
  private static let olderVersionPatience: UInt64 = 1_000_000_000

  /// Writes the header if it is missing or damaged, and replaces the contents of an older version that no process uses.
  /// A file of a newer version is left as it is.
  private static func writeHeader(_ file: OwnedFile, _ table: LockTable) throws(StoreError) {
    let end = Clocks.monotonicNanoseconds() + olderVersionPatience
    do {
      while let found = Layout.version(of: try file.read(count: 48, at: 0)) {
        if found == Layout.version { return }
        if found > Layout.version {
          throw StoreError(
            .newerFormat, during: "lock", path: file.path,
            "A newer version of Larder wrote the file. Update this program.")
        }
        if try replaceOlder(file, table) { return }
        if Clocks.monotonicNanoseconds() > end { throw olderVersionInUse(file.path) }
        Event().wait(nanoseconds: 1_000_000)
      }
      try file.write(Layout.header(table), at: 0)
    } catch {
      throw StoreError(wrapping: error, during: "lock", path: file.path)
    }
  }

  /// Replaces the contents of a file of an older version. Its header comes last, so until then it is one of the older
  /// version, and the next process begins again after a kill.
  ///
  /// - Returns: `false` if a process uses the file, or replaces its contents.
  private static func replaceOlder(
    _ file: OwnedFile, _ table: LockTable
  ) throws(SystemError) -> Bool {
    let (first, count) = (Layout.ownerByte(0), Int64(Layout.ownerCount))
    guard try file.tryLock(.exclusive, at: first, count: count) else { return false }
    defer { _ = try? file.tryLock(.none, at: first, count: count) }
    let header = Layout.header(table)
    // Another process may have done it before this one had the lock.
    if let found = Layout.version(of: try file.read(count: 48, at: 0)), found >= Layout.version {
      return found == Layout.version
    }
    let zeros = [UInt8](repeating: 0, count: table.fileSize - header.count)
    try file.write(zeros, at: header.count)
    try file.write(header, at: 0)
    return true
  }

  private static func olderVersionInUse(_ path: String) -> StoreError {
    StoreError(
      .inUse, during: "lock", path: path,
      "Processes with an older version of Larder use locks of this store, and the two versions cannot share "
        + "them. End those processes, or let them close the store, and try again.")
  }

  /// Acquires an owner slot: the lock of its byte, then its words.
  private static func enter(
    _ file: OwnedFile, _ words: SharedWords, _ table: LockTable
  ) throws(StoreError) -> UInt64 {
    do throws(SystemError) {
      for number in 0..<Layout.ownerCount
      where try file.tryLock(.exclusive, at: Layout.ownerByte(number)) {
        let serial = UInt64.random(in: 1..<(1 << 48))
        let owner = UInt64(number) << 48 | serial
        words.store(0, at: Layout.owner(number))
        writeOwner(owner, words)
        releaseTickets(of: number, words, table)
        return owner
      }
    } catch {
      throw StoreError(error, during: "lock", path: file.path)
    }
    throw StoreError(
      .tooManyLocks, during: "lock", path: file.path,
      "\(Layout.ownerCount) processes use locks of this store already. Close the store in one of them."
    )
  }

  /// Releases the tickets of the last process in an owner slot, which was killed with them.
  private static func releaseTickets(of number: Int, _ words: SharedWords, _ table: LockTable) {
    let slots = (0..<table.slotCount).map { Layout.slot($0) + Layout.slotTicket }
    for offset in slots + [Layout.allocation] {
      let ticket = words.ticket(at: offset)
      if ticket.holder == number { ticket.release(as: number) }
    }
  }

  private static func writeOwner(_ owner: UInt64, _ words: SharedWords) {
    let offset = Layout.owner(ownerNumber(owner))
    words.store(UInt64(UInt32(bitPattern: ProcessIdentity.pid)), at: offset + Layout.ownerPID)
    words.store(ProcessIdentity.startTime, at: offset + Layout.ownerStart)
    words.store(owner, at: offset)
  }

  /// Restores this process's owner slot, if its words are damaged: the lock of its byte is proof.
  func restoreOwner() {
    if words.load(Layout.owner(ownNumber)) != owner { Self.writeOwner(owner, words) }
  }

  // MARK: Processes

  /// Returns whether the process with an owner id lives and has the file open.
  func isAlive(_ owner: UInt64) -> Bool {
    if owner == self.owner || Mutant.lockOutlivesHolder.isActive { return true }
    let number = Self.ownerNumber(owner)
    guard number < Layout.ownerCount, words.load(Layout.owner(number)) == owner else {
      return false
    }
    return isAlive(number: number)
  }

  /// Returns whether a process has an owner slot.
  func isAlive(number: Int) -> Bool {
    if number == ownNumber { return true }
    guard (0..<Layout.ownerCount).contains(number) else { return false }
    return (try? file.isLockedElsewhere(at: Layout.ownerByte(number))) ?? true
  }

  /// Returns the process in an owner slot.
  func process(number: Int) -> LockProcess? {
    guard (0..<Layout.ownerCount).contains(number) else { return nil }
    let offset = Layout.owner(number)
    let pid = words.load(offset + Layout.ownerPID)
    guard pid != 0 else { return nil }
    return LockProcess(
      pid: Int32(truncatingIfNeeded: pid), startTime: words.load(offset + Layout.ownerStart))
  }

  /// The word that wakes the thread of this process's async waits.
  var wakeWord: Int { Layout.owner(ownNumber) + Layout.ownerWake }

  /// Wakes the thread of a process's async waits.
  func wakeThread(of owner: UInt64) {
    let number = Self.ownerNumber(owner)
    guard number < Layout.ownerCount else { return }
    words.advance32(Layout.owner(number) + Layout.ownerWake)
    words.wake(at: Layout.owner(number) + Layout.ownerWake)
  }

  /// Whether the path leads to this file. `false` after the file was deleted or replaced.
  var isAtPath: Bool {
    (try? FileSystem.status(of: path, followingLinks: false))??.identity == identity
  }
}

/// A process that holds or waits for a lock.
public struct LockProcess: Sendable, Hashable, CustomStringConvertible {
  /// The pid of the process, in its own PID namespace.
  public let pid: Int32
  /// The start time of the process in clock ticks since the start of the system, as in field 22 of
  /// `/proc/<pid>/stat`. Pid and start time identify a process; a pid alone is used again.
  public let startTime: UInt64

  /// The pid and the start time.
  public var description: String { "process \(pid) (start time \(startTime))" }
}
