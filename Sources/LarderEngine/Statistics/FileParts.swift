// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// THE PARTS OF A STORE'S FILES
//
// Every page of `data.mdb` up to the last one belongs to one of these: the two meta pages, the list of
// free pages, a table, or a page in that list. The file may end behind the last page (blocks that are
// reserved for writing through the map), or before it (free pages that were never written). The
// numbers are those of one snapshot, and of the files when it was read.

/// The sizes of entries.
package struct EntryUse: Sendable, Hashable {
  package var entries = 0
  package var keyBytes = 0
  package var valueBytes = 0
  /// The bytes of headers, tags and expirations.
  package var headerBytes = 0
  /// The cost against the budget.
  package var bytes: Int { keyBytes + valueBytes + headerBytes }

  fileprivate mutating func add(_ header: EntryHeader) {
    entries += 1
    keyBytes += header.keyLength
    valueBytes += header.payloadLength
    headerBytes += header.contentOffset
  }
}

/// The parts of a store's files, in pages and bytes.
package struct FileParts: Sendable {
  package var pageSize = 0
  /// All pages of the data file up to the last one.
  package var pages = 0
  /// The length of the data file, and the blocks that it has on the disk, in bytes.
  package var fileBytes = 0
  package var allocatedBytes = 0
  /// The pages of each table, by its name.
  package var tables: [String: Int] = [:]
  package var mainPages = 0
  package var freeListPages = 0
  /// The pages in the free list.
  package var freePages = 0
  /// Those of ``freePages`` that cannot be used, because readers hold older snapshots.
  package var keptPages = 0
  /// The readers of snapshots before the newest one, the oldest first.
  package var readers: [StoreStatistics.Reader] = []
  /// The visible entries by namespace.
  package var namespaces: [UInt32: EntryUse] = [:]
  /// The entries that are stored and invisible: expired, cleared, or removed by tag.
  package var invisible = EntryUse()
  /// The other files and directories of the store, with the bytes of their blocks.
  package var files: [(path: String, bytes: Int)] = []
}

extension StoreCore {
  /// Returns the parts of the store's files in a snapshot. Reads all entries.
  ///
  /// - Complexity: O(*n*) in the entries and in the free list.
  package func fileParts(_ snapshot: borrowing Snapshot) throws -> FileParts {
    let generation = snapshot.generation
    var parts = FileParts()
    let information = generation.environment.information
    parts.pageSize = information.pageSize
    let meta = try? generation.environment.metaPage(of: snapshot.transaction.id)
    parts.pages = Int(clamping: meta?.lastPage ?? UInt64(information.lastPage)) + 1
    parts.fileBytes = generation.dataSize
    parts.allocatedBytes = try FileSystem.allocatedBytes(of: generation.path + "/data.mdb")
    for (name, table) in generation.namedTables {
      parts.tables[name] = try snapshot.transaction.statistics(of: table).pages
    }
    parts.mainPages = try snapshot.transaction.statistics(of: .main).pages
    parts.freeListPages = try snapshot.transaction.freeListStatistics().pages
    parts.freePages = try snapshot.transaction.pagesFreed(after: 0)
    try addReaders(to: &parts, snapshot)
    try addEntries(to: &parts, snapshot)
    parts.files = try otherFiles(of: generation)
    return parts
  }

  private func addReaders(to parts: inout FileParts, _ snapshot: borrowing Snapshot) throws {
    let generation = snapshot.generation
    let newest = snapshot.transaction.id
    var oldest: [Int32: UInt64] = [:]
    for reader in try generation.environment.readers() where reader.pid != ProcessIdentity.pid {
      guard let held = reader.transaction, held < newest else { continue }
      oldest[reader.pid] = min(oldest[reader.pid] ?? .max, held)
    }
    for (pid, held) in oldest.sorted(by: { ($0.value, $0.key) < ($1.value, $1.key) }) {
      let pages = try snapshot.transaction.pagesFreed(after: held)
      parts.readers.append(
        generation.described(
          .init(pid: pid, transactionsBehind: Int(clamping: newest - held)), pages: pages,
          pageSize: parts.pageSize))
      parts.keptPages = max(parts.keptPages, pages)
    }
  }

  private func addEntries(to parts: inout FileParts, _ snapshot: borrowing Snapshot) throws {
    var cursor = try Cursor(over: snapshot.generation.entries, in: snapshot.transaction)
    var more = try cursor.moveToFirst()
    while more {
      let hash = cursor.currentInteger
      for item in (try? Record.items(in: cursor.currentValue)) ?? [] {
        let isVisible = try isAlive(
          item.header, in: cursor.currentValue, at: item.offset, snapshot, hash: hash)
        if isVisible {
          parts.namespaces[item.header.namespace, default: EntryUse()].add(item.header)
        } else {
          parts.invisible.add(item.header)
        }
      }
      more = try cursor.moveToNext()
    }
  }

  /// Returns the files next to the data file, then the other files of the store.
  private func otherFiles(of generation: Generation) throws -> [(path: String, bytes: Int)] {
    let root = HeldDirectory.realPath(directory.root)
    let own = "g-\(generation.number)"
    func list(_ directory: String, but name: String) throws -> [(path: String, bytes: Int)] {
      try FileSystem.names(in: directory).filter { $0 != name }.sorted().map {
        (directory + "/" + $0, try FileSystem.allocatedBytes(below: directory + "/" + $0))
      }
    }
    // The two directories themselves.
    let directories = try [root, root + "/" + own].map {
      ($0 + "/.", try FileSystem.allocatedBytes(of: $0))
    }
    return try list(root + "/" + own, but: "data.mdb") + list(root, but: own) + directories
  }
}

extension Generation {
  fileprivate var namedTables: [(String, TableHandle)] {
    [
      (Generation.entriesName, entries), (Generation.chunksName, chunks),
      (Generation.expiriesName, expiries), (Generation.tagsName, tags),
      (Generation.membersName, members), (Generation.changesName, changes),
      (Generation.objectsName, objects), (Generation.idsName, ids),
      (Generation.indexesName, indexes),
    ]
  }

  /// Adds to a reader what it costs.
  func described(
    _ reader: StoreStatistics.Reader, pages: Int, pageSize: Int
  ) -> StoreStatistics.Reader {
    var reader = reader
    reader.pinnedBytes = pages.multipliedReportingOverflow(by: pageSize).partialValue
    reader.isStopped = ProcessIdentity.isStopped(reader.pid) ?? false
    let process = (0..<table.shape.processSlots).first { table.pid(process: $0) == reader.pid }
    let now = Clocks.wallMilliseconds()
    reader.duration = process.flatMap { table.readingMilliseconds(process: $0, now: now) }
      .map { .milliseconds($0) }
    return reader
  }
}
