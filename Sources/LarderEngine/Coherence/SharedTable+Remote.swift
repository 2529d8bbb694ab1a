// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// LINKS TO REMOTE SERVERS
//
// Several hosts can share a server, and each has a store in front of it. One process of the host has a
// connection on which the server names the keys that change: the link. It removes these keys from the
// store. The remote region of the table says, to all processes, what the link knows:
//
//      0  records   8 x 128 bytes, one for each server and prefix
//   1024  changes   4,096 u64   by a key's hash: advanced for each change of such a key
//  33792  texts     8 x 256 bytes, the servers of the records, for display only; UTF-8, then zeros
//
//   record:   0 name u64 (0 free). One without a link for ten minutes is taken for another server
//             8 link u64: the connection that feeds it; 0: none
//            16 verified from u64: entries up to this commit version may be older than the link
//            24 fresh u64: every change that the server executed before this time, in nanoseconds of the
//               monotonic clock, has been applied to the store
//            32 the same time u64, in milliseconds by the clock of the store
//            40 pid u64 of the process with the link    48 round trip u64 in nanoseconds
//            56 counters (`RemoteCounter`), for display only
//           120 servers u64: the set of servers that the link is connected to, as a number; zero for one server
//
// An entry of the store is *verified* if it was written after `verified from`, and known to be at most as
// old as the time since `fresh`. The rules, of which `RemoteBackend.swift` and the link have the code:
//
//   L1  A link has its connection tracked by the server first, in a cluster one by each primary. Then it commits a transaction, in which it
//       raises `verified from` to its commit version, and stores its number in `link`.
//   L2  For a change, the link advances `changes`, and then removes the key from the store, unless the entry
//       is from a transaction that began later: its value was asked for after the change.
//   L3  When the server has answered a PING, every change before it has been named on the same
//       connection. The link raises `fresh` to the time before the PING, after it has applied them. In a
//       cluster all primaries have answered, and each of them names the same set of primaries.
//   L4  A process reads `link` and `changes` before it asks the server for a value. It stores the value
//       under the writer lock, and only if both are unchanged: a value that a change overtook is not
//       stored, and the link removes one that was stored before the change.
//       In a cluster, both requests and link must have been for the same set of servers, all the time.
//   L5  A write goes to the server first. The process advances `changes` before, so that no older value
//       that is on its way is stored.
//   L6  Of two values whose requests overlapped it is not known which is newer. A process that finds an entry
//       from a transaction that began after its request, with another version, removes it: no process reads
//       a value, and an older one later. Unless the entry was evicted in between: then the older value is
//       there until the link names the change.
//
// Several links at a time are harmless: `fresh` is only raised, and each raises it for the changes that it
// has applied itself. Both clocks are compared: one does not count while the machine sleeps, the other can
// be set back. If both happen at once, values are served for longer than the limit.

/// The words of a link in the table of a generation.
@usableFromInline package struct RemoteRecord: Sendable {
  fileprivate enum Word: Int {
    case name, link, verifiedFrom, fresh, freshWall, pid, roundTrip, counters
    case servers = 15
  }

  package let table: SharedTable
  fileprivate let start: Int
  private let name: UInt64

  fileprivate init(_ table: SharedTable, _ start: Int, name: UInt64) {
    self.table = table
    self.start = start
    self.name = name
  }

  @unsafe private func word(_ word: Word, _ index: Int = 0) -> UnsafeMutablePointer<Atomic<UInt64>>
  {
    unsafe table.word(start + (word.rawValue + index) * 8)
  }

  private func load(_ name: Word) -> UInt64 { unsafe word(name).pointee.load(ordering: .acquiring) }

  /// Whether the record is still that of its server.
  package var isNamed: Bool { load(.name) == name }
  /// The number of the connection that feeds the record, or zero.
  package var link: UInt64 { load(.link) }
  /// The process with the link; it may have ended.
  package var pid: Int32 { Int32(truncatingIfNeeded: load(.pid)) }
  package var roundTrip: Duration { .nanoseconds(Int64(clamping: load(.roundTrip))) }
  package var verifiedFrom: UInt64 { load(.verifiedFrom) }
  /// The time by which `fresh` is measured.
  package static var now: UInt64 { Clocks.monotonicNanoseconds() }
  /// The time since the changes of the server are known to have been applied.
  package var age: Duration {
    let fresh = load(.fresh)
    if fresh <= Self.unverified { return .seconds(1 << 30) }
    return .nanoseconds(
      max(Int64(bitPattern: Clocks.monotonicNanoseconds() &- fresh), 0))
  }

  /// Returns whether the changes up to a time within the limit were applied. To be called before a stamp or
  /// a snapshot is read, which then contains them.
  package func isFresh(at now: Int64, within limit: StalenessLimit) -> Bool {
    let fresh = load(.fresh)
    let age = Int64(bitPattern: Clocks.coarseMonotonicNanoseconds() &- fresh)
    return fresh > Self.unverified && age <= limit.nanoseconds
      && now &- Int64(bitPattern: load(.freshWall)) <= limit.milliseconds
      // The last word to be read: the times may be those of another server by now.
      && isNamed
  }

  /// Returns whether an entry was written under a link. To be called after ``isFresh(at:within:)``, because a
  /// new link raises the word before it confirms anything.
  package func isLinked(commitVersion: UInt64) -> Bool { commitVersion > load(.verifiedFrom) }

  /// Makes a connection the link. The caller is in a write transaction of the table's generation, which must
  /// commit: the entries of the next one are verified.
  ///
  /// - Parameter servers: The number of the set of servers.
  package func begin(link: UInt64, commitVersion: UInt64, server: String, servers: UInt64 = 0) {
    describe(server: server)
    unsafe word(.verifiedFrom).pointee.max(commitVersion, ordering: .releasing)
    unsafe word(.pid).pointee.store(UInt64(table.pid), ordering: .relaxed)
    // Before the link, without which nothing is stored.
    unsafe word(.servers).pointee.store(servers, ordering: .relaxed)
    unsafe word(.link).pointee.store(link, ordering: .sequentiallyConsistent)
    count(.connections)
  }

  /// Stores the text of the server.
  package func describe(server: String) {
    for (index, word) in Self.words(of: server).enumerated() {
      unsafe table.word(textStart + index * 8).pointee.store(word, ordering: .relaxed)
    }
  }

  private var textStart: Int {
    let remote = table.shape.remote
    return remote + SharedTable.textsOffset
      + (start - remote) / SharedTable.recordSize * SharedTable.textSize
  }

  private static func words(of text: String) -> [UInt64] {
    var bytes = Array(text.utf8.prefix(SharedTable.textSize))
    bytes += [UInt8](repeating: 0, count: SharedTable.textSize - bytes.count)
    return stride(from: 0, to: bytes.count, by: 8).map { start in
      bytes[start..<(start + 8)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
  }

  /// The server as its link has named it.
  package var text: String {
    let bytes = (0..<(SharedTable.textSize / 8)).flatMap { index in
      let word = unsafe table.word(textStart + index * 8).pointee.load(ordering: .relaxed)
      return (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) }
    }
    return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
  }

  /// Ends a link, unless there is another one by now.
  package func end(link: UInt64) {
    _ = unsafe word(.link).pointee.compareExchange(
      expected: link, desired: 0, ordering: .sequentiallyConsistent)
  }

  /// Raises the time up to which all changes have been applied.
  package func confirm(fresh: UInt64, wall: Int64, roundTrip: UInt64) {
    // The wall clock may have been set back; the other words are only raised.
    unsafe word(.freshWall).pointee.store(UInt64(bitPattern: wall), ordering: .releasing)
    var old = load(.fresh)
    // If the record is taken meanwhile, `fresh` has changed.
    while isNamed, old < fresh {
      let (isRaised, present) = unsafe word(.fresh).pointee.compareExchange(
        expected: old, desired: fresh, ordering: .acquiringAndReleasing)
      if isRaised { break }
      old = present
    }
    unsafe word(.roundTrip).pointee.store(roundTrip, ordering: .relaxed)
  }

  /// Notes that the record is in use, so that no other server takes it.
  fileprivate func begin(use now: Int64) {
    unsafe word(.freshWall).pointee.store(UInt64(bitPattern: now), ordering: .releasing)
  }

  fileprivate func isIdle(at now: Int64) -> Bool {
    Clocks.monotonicNanoseconds() &- load(.fresh) > Self.idleTime
      && now &- Int64(bitPattern: load(.freshWall)) > Int64(Self.idleTime / 1_000_000)
  }

  /// Takes the record for another server, if it has had no link for ``idleTime`` by both clocks.
  ///
  /// First the former name is replaced by one that belongs to no server: from then on no process uses the record. Any
  /// process may be stopped or end between two steps. Another one then takes the record from it, with a
  /// another transit name, and the last step fails. `verifiedFrom` is never lowered. A confirmation that found
  /// the former name read `fresh` before, so it fails.
  ///
  /// - Returns: Whether the record is the other server's.
  fileprivate func take(for new: UInt64, at now: Int64) -> Bool {
    let isIdle = RemoteName.isTransit(name) || isIdle(at: now)
    let transit = RemoteName.transit()
    guard isIdle, rename(from: name, to: transit) else { return false }
    // Not one that the record has had: a link may be about to raise it.
    unsafe word(.fresh).pointee.store(
      UInt64.random(in: 1...Self.unverified), ordering: .sequentiallyConsistent)
    unsafe word(.link).pointee.store(0, ordering: .sequentiallyConsistent)
    begin(use: now)
    for counter in RemoteCounter.allCases {
      unsafe word(.counters, counter.rawValue).pointee.store(0, ordering: .relaxed)
    }
    describe(server: "")
    return rename(from: transit, to: new)
  }

  /// Makes a record free again that was taken for a server which has another one.
  fileprivate func release() { _ = rename(from: name, to: RemoteName.transit()) }

  private func rename(from old: UInt64, to new: UInt64) -> Bool {
    unsafe word(.name).pointee.compareExchange(
      expected: old, desired: new, ordering: .sequentiallyConsistent
    ).exchanged
  }

  /// The time in nanoseconds after which another server may have the record.
  private static var idleTime: UInt64 { 600_000_000_000 }
  /// The greatest value of `fresh` without a meaning: nothing was confirmed.
  private static var unverified: UInt64 { 1_000_000 }

  package func count(_ counter: RemoteCounter, _ number: Int = 1) {
    unsafe word(.counters, counter.rawValue).pointee.wrappingAdd(
      UInt64(number), ordering: .relaxed)
  }

  package func value(of counter: RemoteCounter) -> UInt64 {
    unsafe word(.counters, counter.rawValue).pointee.load(ordering: .relaxed)
  }

  /// Returns what a value from the server must be stored under (L4).
  ///
  /// - Parameter topology: The servers that the caller sends to.
  package func fence(hash: UInt64, topology: RemoteTopology) -> RemoteFence {
    let link = unsafe word(.link).pointee.load(ordering: .sequentiallyConsistent)
    let isSame = load(.servers) == topology.servers
    let change = table.remoteChange(hash: hash)
    return RemoteFence(
      table: table.incarnation, link: isSame ? link : 0, topology: topology, hash: hash,
      change: change, since: table.writerVersion)
  }

  /// Returns whether the link is the same, and the key has not changed since a fence.
  ///
  /// - Parameter topology: The servers that the caller sends to by now.
  package func isPassed(by fence: RemoteFence, topology: RemoteTopology) -> Bool {
    fence.link != 0 && self.fence(hash: fence.hash, topology: topology) == fence
  }

  /// Whether the link is connected to other servers than the caller.
  package func hasLink(toOthersThan topology: RemoteTopology) -> Bool {
    load(.servers) != topology.servers && link != 0
  }
}

/// The link, the servers and the changes of a key, at the time of a request.
package struct RemoteFence: Sendable, Equatable {
  fileprivate let table: UInt64
  package let link: UInt64
  fileprivate let topology: RemoteTopology
  package let hash: UInt64
  fileprivate let change: UInt64
  /// The commit version of the newest write transaction that had begun. It is not compared.
  package let since: UInt64

  package static func == (left: RemoteFence, right: RemoteFence) -> Bool {
    left.table == right.table && left.link == right.link && left.topology == right.topology
      && left.hash == right.hash && left.change == right.change
  }
}

extension SharedTable {
  fileprivate static var recordSize: Int { 128 }
  private static var recordCount: Int { 8 }
  private static var changesOffset: Int { 1024 }
  private static var changeCount: Int { 4096 }
  fileprivate static var textsOffset: Int { changesOffset + changeCount * 8 }
  fileprivate static var textSize: Int { 256 }

  private var hasRemoteRegion: Bool {
    shape.samples - shape.remote >= Self.textsOffset + Self.recordCount * Self.textSize
  }

  /// The records of all servers.
  package var remoteRecords: [RemoteRecord] {
    guard hasRemoteRegion else { return [] }
    return (0..<Self.recordCount).compactMap { index in
      let name = nameOfRemoteRecord(index)
      return name == 0 || RemoteName.isTransit(name) ? nil : remoteRecord(index, name: name)
    }
  }

  private func remoteRecord(_ index: Int, name: UInt64) -> RemoteRecord {
    RemoteRecord(self, shape.remote + index * Self.recordSize, name: name)
  }

  private func nameOfRemoteRecord(_ index: Int) -> UInt64 {
    unsafe word(shape.remote + index * Self.recordSize).pointee.load(ordering: .acquiring)
  }

  /// Returns the record of a server, and takes a free one for it, or one that is not used any more.
  ///
  /// - Parameter now: The time of the store's clock, if it is not that of the system.
  /// - Returns: `nil` if all are those of other servers, and in a small store.
  package func remoteRecord(_ name: RemoteName, at now: Int64? = nil) -> RemoteRecord? {
    guard hasRemoteRegion else { return nil }
    return foundRecord(name) ?? takenRecord(name, at: now ?? Clocks.wallMilliseconds())
  }

  /// Returns the first record with a name: that is the one which all processes use.
  private func foundRecord(_ name: RemoteName) -> RemoteRecord? {
    for index in 0..<Self.recordCount where nameOfRemoteRecord(index) == name.hash {
      return remoteRecord(index, name: name.hash)
    }
    return nil
  }

  /// Whether a record is the one that all processes use for its server.
  func isFirst(_ record: RemoteRecord, of name: RemoteName) -> Bool {
    foundRecord(name)?.start == record.start
  }

  /// Takes the first record that is free, and otherwise the first that is not used.
  private func takenRecord(_ name: RemoteName, at now: Int64) -> RemoteRecord? {
    for index in 0..<Self.recordCount {
      let start = shape.remote + index * Self.recordSize
      let isTaken = unsafe word(start).pointee.compareExchange(
        expected: 0, desired: name.hash, ordering: .acquiringAndReleasing
      ).exchanged
      if isTaken { remoteRecord(index, name: name.hash).begin(use: now) }
      // Another process may have taken one for the server at the same time.
      if let first = foundRecord(name) { return first }
    }
    for index in 0..<Self.recordCount {
      let isTaken = remoteRecord(index, name: nameOfRemoteRecord(index)).take(
        for: name.hash, at: now)
      guard let first = foundRecord(name) else { continue }
      let own = remoteRecord(index, name: name.hash)
      if isTaken, first.start != own.start { own.release() }
      return first
    }
    return nil
  }

  private func changeOffset(_ hash: UInt64) -> Int {
    shape.remote + Self.changesOffset + Int(hash % UInt64(Self.changeCount)) * 8
  }

  fileprivate func remoteChange(hash: UInt64) -> UInt64 {
    // After the writer ticket was taken; see below.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    return unsafe word(changeOffset(hash)).pointee.load(ordering: .sequentiallyConsistent)
  }

  /// Notes a change of a key by the server or by a process of the host (L2, L5).
  package func noteRemoteChange(hash: UInt64) {
    guard hasRemoteRegion else { return }
    unsafe word(changeOffset(hash)).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
    // A link that finds the ticket free afterwards knows that every later writer reads the change.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
  }

  /// Notes a change of every key.
  package func noteRemoteChanges() {
    for index in 0..<UInt64(Self.changeCount) { noteRemoteChange(hash: index) }
  }
}
