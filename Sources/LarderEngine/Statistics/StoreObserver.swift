// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// OBSERVING A STORE
//
// An observer does not open the store: it acquires no lock, has no process slot and no reader slot,
// and opens every file for reading. It copies the words of `shared.table` and `locks` with `pread`, so
// that a file that is truncated cannot end it, and reads pages of `data.mdb` as
// `UnpinnedSnapshot.swift` describes. Every observation opens the files again, and so follows a
// generation switch, a repair, and a store that is deleted and created again.

/// A reader of a store that other processes use, which changes nothing.
package struct StoreObserver: Sendable {
  private let path: String

  /// Creates an observer of the store in a directory.
  package init(path: String) { self.path = path }

  /// Returns the state of the store.
  ///
  /// - Returns: `nil` if there is no store now.
  /// - Throws: ``StoreError`` if its files cannot be read.
  package func observe() throws(StoreError) -> StoreObservation? {
    guard let (directory, durability) = try StoreDirectory.findDamaged(path) else { return nil }
    do throws(SystemError) {
      for _ in 0..<3 {
        guard let number = try CurrentPointer.read(in: directory) else { return nil }
        var result = StoreObservation()
        result.path = directory.path
        result.durability = durability
        let isRead = try read(directory, number, &result)
        // A generation that was replaced during the reading is read again in its successor.
        if try CurrentPointer.read(in: directory) == number { return isRead ? result : nil }
      }
      return nil
    } catch {
      if error.isNoSuchFile { return nil }
      throw StoreError(error, during: "observe", path: path)
    }
  }

  private func read(
    _ directory: StoreDirectory, _ number: UInt64, _ result: inout StoreObservation
  ) throws(SystemError) -> Bool {
    let root = directory.generation(number)
    guard
      let table = try SharedTable(
        mapping: OwnedFile(path: root + "/shared.table", writable: false), copied: .beforeStamps)
    else { return false }
    result.generation = number
    result.binding = table.binding
    result.isFenced = table.isFenced
    result.time = (Clocks.wallMilliseconds(), Clocks.monotonicNanoseconds())
    result.counters = Counter.allCases.map { table.total($0) }
    result.budget = table.budget == 0 ? nil : table.budget
    result.entryBudget = table.entryBudget == 0 ? nil : table.entryBudget
    let presence = try OwnedFile(path: root + "/presence", writable: false)
    var present: [Int] = []
    for process in 0..<table.shape.processSlots where table.pid(process: process) != nil {
      if try presence.isLockedElsewhere(at: PresenceLocks.slotOffset(process)) {
        present.append(process)
      }
    }
    result.processes = present.map { process(at: $0, in: table, now: result.time.nanoseconds) }
    result.computations = table.leaseList.compactMap { lease in
      guard present.contains(lease.process), let pid = table.pid(process: lease.process) else {
        return nil
      }
      return .init(pid: pid, lease: lease)
    }
    let data = try OwnedFile(path: root + "/data.mdb", writable: false)
    result.fileBytes = try data.status.size
    let slots = try OwnedFile(path: root + "/lock.mdb", writable: false)
    result.content = try content(of: data, slots)
    for index in result.content?.readers.indices ?? 0..<0 {
      let pid = result.content?.readers[index].pid
      result.content?.readers[index].milliseconds = present.first { table.pid(process: $0) == pid }
        .flatMap { table.readingMilliseconds(process: $0, now: result.time.milliseconds) }
    }
    result.pageSize = try UnpinnedSnapshot(of: data)?.pageSize ?? 4096
    result.locks = try Self.locks(of: directory)
    return true
  }

  private func process(
    at slot: Int, in table: SharedTable, now: UInt64
  ) -> StoreObservation.Process {
    let pid = table.pid(process: slot) ?? 0
    return .init(
      pid: pid, startTime: table.startTime(process: slot),
      counters: Counter.allCases.map { table.counter($0, process: slot) },
      commitTimes: table.commitTimes(process: slot),
      writingNanoseconds: table.writingNanoseconds(process: slot, now: now),
      isStopped: ProcessIdentity.isStopped(pid) ?? false)
  }

  /// Returns everything that is held or waited for, without a write.
  static func locks(of directory: StoreDirectory) throws(SystemError) -> [LockStatus] {
    let locks = try locks(at: directory.locks, .locks)
    return LockStatus.sorted(locks + (try self.locks(at: directory.rates, .rates)))
  }

  private static func locks(at path: String, _ table: LockTable) throws(SystemError) -> [LockStatus]
  {
    do throws(SystemError) {
      let file = try OwnedFile(path: path, writable: false)
      return try LockFile(observing: file, table)?.status() ?? []
    } catch {
      // The first use creates the file.
      if error.isNoSuchFile { return [] }
      throw error
    }
  }

  // MARK: Content

  private static let attempts = 10

  /// Reads the records of the newest snapshot, and the readers.
  ///
  /// If commits are too frequent for one snapshot, each record is of a snapshot that was the newest
  /// during the reading: its checksum shows that it is complete. The free list has no checksums, so its
  /// pages are counted only in one snapshot.
  ///
  /// - Returns: `nil` if no attempt found the totals.
  private func content(
    of data: OwnedFile, _ slots: OwnedFile
  ) throws(SystemError) -> StoreObservation.Content? {
    var result: StoreObservation.Content?
    for _ in 0..<Self.attempts {
      let before = try ReaderSlots.snapshots(inLockFile: slots)
      guard let snapshot = try UnpinnedSnapshot(of: data) else { continue }
      var content = records(snapshot)
      let readers = readers(before, snapshot)
      // A reader that holds this snapshot or an older one keeps all its pages from reuse.
      let after = try ReaderSlots.snapshots(inLockFile: slots)
      let isKept = before.contains { reader in
        reader.transaction <= snapshot.transactionID && after.contains { $0 == reader }
      }
      guard content.hasTotals else { continue }
      let isOneSnapshot = isKept || snapshot.isCurrent
      content.readers = readers.map { isOneSnapshot ? $0 : $0.withoutPages }
      result = content
      if isOneSnapshot { break }
    }
    return result
  }

  private func records(_ snapshot: UnpinnedSnapshot) -> StoreObservation.Content {
    var result = StoreObservation.Content()
    _ = snapshot.forEach(in: snapshot.main, from: Array("i:".utf8)) { key, value in
      guard let number = key.withRawSpan({ NamespaceRecord.number(ofKey: $0) }) else {
        return false
      }
      result.namespaces[number] = value.withRawSpan { NamespaceRecord($0) }
      return true
    }
    _ = snapshot.forEach(in: snapshot.main, from: StoreTotals.key) { key, value in
      guard key == StoreTotals.key, let totals = value.withRawSpan({ StoreTotals($0) }) else {
        return false
      }
      (result.totals, result.hasTotals) = (totals, true)
      return false
    }
    return result
  }

  private func readers(
    _ slots: [(pid: Int32, transaction: UInt64)], _ snapshot: UnpinnedSnapshot
  ) -> [StoreObservation.Reader] {
    var oldest: [Int32: UInt64] = [:]
    for (pid, transaction) in slots { oldest[pid] = min(oldest[pid] ?? .max, transaction) }
    let readers = oldest.map { pid, transaction in
      let behind = snapshot.transactionID - min(transaction, snapshot.transactionID)
      var reader = StoreObservation.Reader(pid: pid, commitsBehind: Int(clamping: behind))
      if behind > 0 {
        (reader.pinnedPages, reader.isPageCountComplete) = snapshot.pagesFreed(after: transaction)
      }
      reader.isStopped = ProcessIdentity.isStopped(pid) ?? false
      return reader
    }
    return readers.sorted { ($1.commitsBehind, $0.pid) < ($0.commitsBehind, $1.pid) }
  }
}

/// An entry that an observer found by the hash of its key.
package struct ObservedEntry: Sendable, Hashable {
  package let namespace: UInt32
  /// The key, or `nil` if it is stored apart, with a value of more than 32 kB.
  package let key: EncodedKey?
}

extension StoreObserver {
  /// Returns the entries of the keys with these hashes, less the low three bits.
  ///
  /// - Returns: The entries by hash. Keys without an entry, and entries whose pages were changed during
  ///   the reading, are missing.
  package func entries(ofHashes hashes: [UInt64]) -> [UInt64: ObservedEntry] {
    var result: [UInt64: ObservedEntry] = [:]
    guard let (directory, _) = StoreDirectory.find(path),
      let number = (try? CurrentPointer.read(in: directory)) ?? nil,
      let file = try? OwnedFile(path: directory.generation(number) + "/data.mdb", writable: false)
    else { return [:] }
    for hash in hashes {
      for _ in 0..<Self.attempts {
        guard let snapshot = (try? UnpinnedSnapshot(of: file)) ?? nil,
          let tree = snapshot.tree(Generation.entriesName)
        else { continue }
        let found = Self.entry(hash, in: tree, snapshot)
        guard snapshot.isCurrent || found?.isIntact == true else { continue }
        result[hash] = found?.entry
        break
      }
    }
    return result
  }

  private static func entry(
    _ hash: UInt64, in tree: UnpinnedSnapshot.Tree, _ snapshot: UnpinnedSnapshot
  ) -> (entry: ObservedEntry, isIntact: Bool)? {
    var start = [UInt8](repeating: 0, count: 8)
    start.store(hash, at: 0)
    var result: (entry: ObservedEntry, isIntact: Bool)?
    _ = snapshot.forEach(in: tree, from: start, pageLimit: 32) { key, value in
      guard let found: UInt64 = key.integer(at: 0), found & Sample.hashMask == hash else {
        return false
      }
      result = value.withRawSpan { describe($0) }
      return result == nil
    }
    return result
  }

  /// Returns the first entry of a record, and whether its checksum matches.
  private static func describe(_ record: RawSpan) -> (entry: ObservedEntry, isIntact: Bool)? {
    guard let item = (try? Record.items(in: record))?.first else { return nil }
    let header = item.header
    let start = item.offset + header.contentOffset
    guard !header.isChunked, let key = record.slice(start..<start + header.keyLength)?.copied(),
      let payload = record.slice(start + header.keyLength..<start + header.contentLength)?.copied()
    else { return (ObservedEntry(namespace: header.namespace, key: nil), false) }
    let entry = ObservedEntry(
      namespace: header.namespace, key: EncodedKey(tag: header.keyTag, bytes: key))
    let hash = EntryHeader.contentHash(key: key, payload: payload)
    return (entry, header.isIntact(contentHash: hash))
  }
}
