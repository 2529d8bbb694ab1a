// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// An entry for transfer to another store, with all of its fields except its position.
package struct ExportedEntry: Sendable {
  package var namespace: String
  package var key: EncodedKey
  package var codec: UInt16
  /// The time of the write, in milliseconds since 1970.
  package var created: Int64
  /// The expiration time in milliseconds since 1970; `Int64.max` means never.
  package var expires: Int64
  package var payload: [UInt8]

  package init(
    namespace: String, key: EncodedKey, codec: UInt16, created: Int64, expires: Int64,
    payload: [UInt8]
  ) {
    self.namespace = namespace
    self.key = key
    self.codec = codec
    self.created = created
    self.expires = expires
    self.payload = payload
  }

  package static let never = EntryHeader.never
}

extension StoreCore {
  /// Calls `body` with every live entry of one namespace, or of all, in one snapshot.
  ///
  /// The snapshot is pinned until the end, so freed pages are not reused. Damaged entries are left
  /// out and counted.
  ///
  /// - Parameter body: A closure that must not use the store.
  /// - Returns: The number of entries that were left out.
  /// - Throws: ``StoreError``, or the error of `body`.
  package func export(
    _ space: NamespaceHandle?, _ body: (borrowing ExportedEntry, _ total: Int) throws -> Void
  ) throws -> Int {
    var names: [UInt32: String] = [:]
    var total = 0
    for (number, record) in try namespaces() {
      let name = String(decoding: record.name, as: UTF8.self)
      names[number] = name
      if space?.isNamed(name) ?? true { total += Int(clamping: record.entries) }
    }
    var hasBegun = false
    return try withSnapshot("export") { snapshot in
      do {
        var leftOut = 0
        var cursor = try Cursor(over: snapshot.generation.entries, in: snapshot.transaction)
        var more = try cursor.move(atLeast: 0)
        while more {
          guard let items = try? Record.items(in: cursor.currentValue) else {
            leftOut += 1
            more = try cursor.moveToNext()
            continue
          }
          for item in items {
            let header = item.header
            if names[header.namespace] == nil {
              // The namespace was created after the names were read.
              names[header.namespace] = try name(of: header.namespace, snapshot) ?? ""
            }
            guard
              space == nil || names[header.namespace] == space?.name,
              !header.isAbsent,
              try isAlive(
                header, in: cursor.currentValue, at: item.offset, snapshot,
                hash: cursor.currentInteger)
            else { continue }
            guard
              let entry = try whole(
                item, cursor.currentValue, (names[header.namespace]!, cursor.currentInteger),
                snapshot)
            else {
              leftOut += 1
              continue
            }
            hasBegun = true
            try body(entry, total)
          }
          more = try cursor.moveToNext()
        }
        return leftOut
      } catch let error as LMDBError where hasBegun {
        // Another snapshot would pass the first entries to `body` again.
        throw StoreError(wrapping: error, during: "export", path: directory.path)
      }
    }
  }

  /// Returns the name of a namespace identifier.
  func name(of number: UInt32, _ snapshot: borrowing Snapshot) throws -> String? {
    guard let bytes = try snapshot.transaction.value(forKey: NamespaceRecord.key(number), in: .main)
    else {
      return nil
    }
    return NamespaceRecord(bytes).map { String(decoding: $0.name, as: UTF8.self) }
  }

  /// Returns a verified copy of an entry, or `nil` if it is damaged.
  private func whole(
    _ item: RecordEntry, _ record: RawSpan, _ place: (name: String, hash: UInt64),
    _ snapshot: borrowing Snapshot
  ) throws -> ExportedEntry? {
    let header = item.header
    let content = try snapshot.verifiedContent(of: header, in: record, at: item.offset)
    guard let content else { return nil }
    return ExportedEntry(
      namespace: place.name,
      key: EncodedKey(tag: header.keyTag, bytes: Array(content[..<header.keyLength])),
      codec: header.codec, created: header.created,
      // The use table is not exported: a sliding expiration becomes a time.
      expires: snapshot.generation.table.deadline(of: header, hash: place.hash, at: now),
      payload: Array(content[header.keyLength...]))
  }

  /// Stores entries in one transaction and replaces those of the same keys. Expired entries are
  /// left out.
  ///
  /// The entries are stored in order up to the first rejected one, so that one entry that is too
  /// large does not fail thousands of others.
  ///
  /// - Throws: ``StoreError`` if the transaction fails; then nothing of the batch is stored.
  package func importBatch(
    _ entries: [ExportedEntry], keepsExisting: Bool = false
  ) throws -> ImportResult {
    // By bytes: equal strings can be the names of two namespaces.
    var spaces: [[UInt8]: NamespaceHandle] = [:]
    var puts: [Put] = []
    var invalidName: ImportResult.Rejection?
    puts.reserveCapacity(entries.count)
    for (index, entry) in entries.enumerated() where entry.expires > now {
      let name = Array(entry.namespace.utf8)
      if spaces[name] == nil {
        do throws(StoreError) {
          spaces[name] = try NamespaceHandle(name: entry.namespace)
        } catch {
          invalidName = ImportResult.Rejection(index: index, error: error)
          break
        }
      }
      puts.append(
        (
          index, spaces[name]!, entry.key,
          EntryContent(
            key: entry.key, codec: entry.codec, payload: entry.payload, expires: entry.expires)
        ))
    }
    let batch = puts
    let refusal = invalidName
    return try runExclusively { core in
      try core.makingDiskRoom { attempt in
        try core.withGeneration { generation in
          let imported = try core.transact(in: generation) { transaction in
            core.limitRoom(of: &transaction, attempt)
            return try transaction.store(batch, refusal, keepsExisting: keepsExisting)
          }.result
          generation.count(.sets, by: UInt64(imported.stored))
          return imported
        }
      }
    }
  }
}

/// An entry of a batch, by its index.
private typealias Put = (
  index: Int, space: NamespaceHandle, key: EncodedKey, content: EntryContent
)

/// The result of the import of a batch.
package struct ImportResult: Sendable {
  /// The first entry that the store rejects, for its namespace or its size, independent of the
  /// others.
  package struct Rejection: Sendable {
    package let index: Int
    package let error: StoreError
  }

  /// The number of stored entries.
  package var stored: Int
  /// The rejected entry; neither it nor any later entry is stored.
  package var refusal: Rejection?
}

extension StoreTransaction {
  /// Stores the entries of a batch up to the first rejected one.
  fileprivate mutating func store(
    _ batch: [Put], _ refusal: ImportResult.Rejection?, keepsExisting: Bool
  ) throws -> ImportResult {
    var imported = ImportResult(stored: 0, refusal: refusal)
    let hashes = batch.map { $0.space.hash(of: $0.key, in: generation) }
    var chosen: [Int] = []
    chosen.reserveCapacity(batch.count)
    for (index, put) in batch.enumerated() {
      if let error = self.refusal(of: put.content, for: put.key) {
        // A rejected entry that would not be stored anyway does not end the import.
        if keepsExisting, try has(put.key, hash: hashes[index], in: put.space) { continue }
        imported.refusal = ImportResult.Rejection(index: put.index, error: error)
        break
      }
      chosen.append(index)
    }
    // Entries are written in the order of the tree: neighbours share pages.
    chosen.sort { hashes[$0] < hashes[$1] }
    for index in chosen {
      let put = batch[index]
      if keepsExisting, try has(put.key, hash: hashes[index], in: put.space) { continue }
      imported.stored += 1
      try self.put(put.content, forKey: put.key, hash: hashes[index], in: put.space)
    }
    return imported
  }

  /// Returns whether a key has a visible entry.
  fileprivate mutating func has(_ key: EncodedKey, hash: UInt64, in space: NamespaceHandle) throws
    -> Bool
  {
    let number = try number(of: space)
    for item in try readableItems(hash: hash) where item.header.namespace == number {
      if try hasKey(item, hash: hash, key) {
        return try !item.header.isAbsent && isVisible(item.header, at: item.offset, hash: hash)
      }
    }
    return false
  }
}
